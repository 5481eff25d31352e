// Acceptance statement E3: a device without matching embedded code is one line listing both.
#include "cuda/devices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool HasCode(int major, int minor, const char* architectures) {
  return CheckCapability({.name = "a GPU", .capability_major = major, .capability_minor = minor},
                         architectures)
      .ok();
}

TEST(E3, CodeFitsItsGenerationAndIntermediateCodeAllNewerOnes) {
  constexpr char kDefault[] = "80-real,90-real,100-real,100-virtual";
  EXPECT_TRUE(HasCode(8, 0, kDefault));
  EXPECT_TRUE(HasCode(8, 9, kDefault));
  EXPECT_TRUE(HasCode(9, 0, kDefault));
  EXPECT_TRUE(HasCode(12, 0, kDefault));
  EXPECT_FALSE(HasCode(7, 5, kDefault));
  EXPECT_FALSE(HasCode(8, 0, "86-real,90-real"));
  EXPECT_FALSE(HasCode(9, 0, "80-real"));
  EXPECT_TRUE(HasCode(9, 0, "80"));
  EXPECT_TRUE(HasCode(9, 0, "90a-real"));
  EXPECT_TRUE(HasCode(7, 5, "native"));
}

TEST(E3, ADeviceWithoutCodeIsOneLineListingBoth) {
  const absl::Status status = CheckCapability(
      {.name = "Tesla T4", .capability_major = 7, .capability_minor = 5}, "80-real,90-real");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("Tesla T4 has compute capability 7.5"), HasSubstr("code for 80-real,90-real"),
            HasSubstr("--device cpu"), HasSubstr("CMAKE_CUDA_ARCHITECTURES=75")));
}

}  // namespace
}  // namespace tost::cuda
