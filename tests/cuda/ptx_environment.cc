// Every kernel that nvcc makes ran as nvcc's code. It makes none in float64.
#include "gtest/gtest.h"
#include "tests/simt/emulator.h"

namespace tost {
namespace {

class EveryLaunchRanPtx : public ::testing::Environment {
 public:
  void TearDown() override {
    const simt::Statistics& statistics = simt::statistics();
    for (const std::string& kernel : statistics.without_ptx) {
      EXPECT_NE(kernel.find("double"), std::string::npos) << kernel << " was not run as PTX";
    }
  }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new EveryLaunchRanPtx);

}  // namespace
}  // namespace tost
