// Signals that ask a long run to end: it finishes the update it is in, saves, and leaves.
#ifndef TOST_TRAINERS_INTERRUPT_H_
#define TOST_TRAINERS_INTERRUPT_H_

namespace tost::train {

// Makes SIGINT and SIGTERM set a flag instead of ending the process. The second SIGINT ends it.
void CatchInterrupts();

// The signal that has arrived, or 0.
int PendingInterrupt();

}  // namespace tost::train

#endif  // TOST_TRAINERS_INTERRUPT_H_
