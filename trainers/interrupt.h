// Signals that ask a program to end: noticed between two updates, so that work is saved first.
//
// No handler ever runs. Matrix products of oneDNN 2.6 keep data where the kernel puts a handler's
// frame: a signal that is delivered while one is computed ruins its memory. SIGINT and SIGTERM are
// therefore blocked in all threads, and one thread of its own waits for them.
#ifndef TOST_TRAINERS_INTERRUPT_H_
#define TOST_TRAINERS_INTERRUPT_H_

namespace tost::train {

// Blocks the signals and starts the thread that waits for them. Called first thing in main, since
// threads inherit what is blocked. Until CatchInterrupts is called, a signal ends the program.
void WaitForInterrupts();

// From here on SIGINT and SIGTERM are only remembered; a second SIGINT ends the program at once.
void CatchInterrupts();

// The signal that has arrived, or 0.
int PendingInterrupt();

}  // namespace tost::train

#endif  // TOST_TRAINERS_INTERRUPT_H_
