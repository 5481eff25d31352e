// Acceptance of what a user is told when memory runs out; the name is that of the statement.
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

// The guarded device has 1 GiB; the activations of 640 000 tokens want more.
TEST(E2, OutOfMemoryNamesTensorSizeFreeMemoryAndTheLargestMicroBatch) {
  const Outcome outcome = RunTost(TinyTraining(
      FreshFolder("too_large"), Words("--device cuda --steps 1 --layers 8 --global_batch 40000 "
                                      "--sampling random_windows")));
  ExpectOneLineError(outcome, {"cuda:0 is out of memory: a tensor [", "of float32 needs ",
                               "iB are free", "of --micro_batch 40000 at most "});
}

}  // namespace
}  // namespace tost::acceptance
