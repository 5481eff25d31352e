// The program built for GPUs, on a machine without a driver.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What the dynamic loader looked for while the program ran.
std::string LibrariesSought(const std::vector<std::string>& arguments) {
  const std::string folder = FreshFolder("loader");
  setenv("LD_DEBUG", "libs", 1);
  setenv("LD_DEBUG_OUTPUT", (folder + "/log").c_str(), 1);
  RunTost(arguments);
  unsetenv("LD_DEBUG");
  unsetenv("LD_DEBUG_OUTPUT");
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    all += ReadFile(entry.path().string());
  }
  return all;
}

bool HasDriver() { return std::filesystem::exists("/proc/driver/nvidia/version"); }

TEST(WithoutDriver, InfoSaysWhyCudaIsOfNoUse) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver";
  const Outcome outcome = RunTost({"info"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("CUDA       built in, but not usable here: CUDA: "
                                     "cudaGetDeviceCount: CUDA driver version is insufficient"));
}

TEST(WithoutDriver, TrainingOnCudaIsOneLineAndExitCode2) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver";
  const Outcome outcome = RunTost(TinyTraining(FreshFolder("run"), Words("--device cuda")));
  EXPECT_EQ(outcome.exit_code, 2);
  ExpectOneLineError(outcome, {"--device cuda:0", "driver", "--device cpu"});
}

TEST(WithoutDriver, AutoComputesOnTheCpu) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver";
  const Outcome outcome = RunTost(TinyTraining(FreshFolder("run"), Words("--steps 1")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
}

TEST(CpuMode, NeverLooksForTheDriver) {
  const std::string cpu =
      LibrariesSought(TinyTraining(FreshFolder("run"), Words("--steps 1 --device cpu")));
  EXPECT_THAT(cpu, HasSubstr("libcudart"));  // the log is one
  EXPECT_THAT(cpu, Not(HasSubstr("libcuda.so")));
  EXPECT_THAT(LibrariesSought(Words("info")), HasSubstr("libcuda.so"));
}

}  // namespace
}  // namespace tost::acceptance
