#include "trainers/interrupt.h"

#include <csignal>

namespace tost::train {
namespace {

volatile std::sig_atomic_t pending = 0;

void Remember(int signal_number) {
  if (pending == SIGINT && signal_number == SIGINT) std::signal(SIGINT, SIG_DFL);
  pending = signal_number;
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, Remember);
  std::signal(SIGTERM, Remember);
}

int PendingInterrupt() { return pending; }

}  // namespace tost::train
