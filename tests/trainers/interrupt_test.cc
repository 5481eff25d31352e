#include "trainers/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "autograd/base/philox.h"
#include "gtest/gtest.h"
#include "ops/matmul.h"

namespace tost::train {
namespace {

Tensor Random(Shape shape, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Uniform({.seed = seed}, 0, static_cast<int64_t>(i)) - 0.5f;
  }
  return Tensor::FromHost(shape, values);
}

// With a handler in the thread that computes, this ends in a ruined heap.
TEST(Interrupt, SignalsDoNotDisturbMatrixProducts) {
  WaitForInterrupts();
  CatchInterrupts();
  const Tensor a = Random({256, 512}, 1), b = Random({512, 128}, 2);
  const std::vector<float> product = ops::Matmul(a, b).ToHost();
  std::atomic<bool> done = false;
  std::thread sender([&] {
    while (!done) {
      kill(getpid(), SIGTERM);
      std::this_thread::yield();
    }
  });
  int different = 0;
  for (int i = 0; i < 300; ++i) different += ops::Matmul(a, b).ToHost() != product;
  done = true;
  sender.join();
  EXPECT_EQ(different, 0);
  EXPECT_EQ(PendingInterrupt(), SIGTERM);
}

TEST(Interrupt, UntilTheyAreCaughtSignalsEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child begins as a program does
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // begins as the program does
  for (const int signal_number : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          WaitForInterrupts();
          kill(getpid(), signal_number);
          while (true) pause();
        },
        testing::KilledBySignal(signal_number), "");
  }
}

TEST(Interrupt, ASecondSigintEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        WaitForInterrupts();
        CatchInterrupts();
        kill(getpid(), SIGINT);
        while (PendingInterrupt() == 0) std::this_thread::yield();
        kill(getpid(), SIGINT);
        while (true) pause();
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace tost::train
