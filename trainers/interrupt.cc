#include "trainers/interrupt.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace tost::train {
namespace {

std::atomic<bool> catching = false;
std::atomic<int> pending = 0;

sigset_t Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// Lets the signal do to the program what it does to one that knows nothing of signals.
void EndBy(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  const sigset_t set = Interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal_number);
}

void Wait() {
  const sigset_t set = Interrupts();
  for (int signal_number = 0; sigwait(&set, &signal_number) == 0;) {
    const bool again = pending == SIGINT && signal_number == SIGINT;
    if (!catching || again) EndBy(signal_number);
    pending = signal_number;
  }
}

}  // namespace

void WaitForInterrupts() {
  const sigset_t set = Interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(Wait).detach();
}

void CatchInterrupts() { catching = true; }

int PendingInterrupt() { return pending; }

}  // namespace tost::train
