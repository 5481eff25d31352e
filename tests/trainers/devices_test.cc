#include "trainers/devices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::train {
namespace {

using ::testing::HasSubstr;

int installed = -1;  // index of the device that was made usable last
bool asked = false;  // whether the backend was asked anything

absl::StatusOr<int> Two() {
  asked = true;
  return 2;
}
absl::StatusOr<int> None() { return 0; }
absl::StatusOr<int> NoDriver() { return absl::UnavailableError("CUDA: driver too old"); }
absl::Status Install(int index) {
  installed = index;
  return absl::OkStatus();
}
absl::Status Refuse(int) { return absl::FailedPreconditionError("K80 has capability 3.7"); }
std::string Describe(int) { return "a GPU"; }

constexpr DeviceBackend kTwo{.device_count = &Two, .install = &Install, .describe = &Describe};
constexpr DeviceBackend kNone{.device_count = &None, .install = &Install, .describe = &Describe};
constexpr DeviceBackend kNoDriver{
    .device_count = &NoDriver, .install = &Install, .describe = &Describe};
constexpr DeviceBackend kOld{.device_count = &Two, .install = &Refuse, .describe = &Describe};

std::string Failure(absl::string_view name, const DeviceBackend* backend) {
  const absl::StatusOr<Device> device = UseDevice(name, backend);
  EXPECT_TRUE(absl::IsInvalidArgument(device.status())) << device.status();
  return std::string(device.status().message());
}

TEST(Devices, ANamedOneIsInstalled) {
  for (const auto& [name, index] : {std::pair("cuda", 0), std::pair("cuda:1", 1)}) {
    installed = -1;
    EXPECT_EQ(UseDevice(name, &kTwo).value(), (Device{DeviceType::kCuda, index}));
    EXPECT_EQ(installed, index);
  }
}

TEST(Devices, TheCpuAsksNoDriver) {
  asked = false;
  installed = -1;
  EXPECT_EQ(UseDevice("cpu", &kTwo).value(), Device::Cpu());
  EXPECT_FALSE(asked);
  EXPECT_EQ(installed, -1);
}

TEST(Devices, AutoTakesTheFirstThatCanBeUsed) {
  EXPECT_EQ(UseDevice("auto", &kTwo).value(), (Device{DeviceType::kCuda, 0}));
  for (const DeviceBackend* none :
       {static_cast<const DeviceBackend*>(nullptr), &kNone, &kNoDriver, &kOld}) {
    EXPECT_EQ(UseDevice("auto", none).value(), Device::Cpu());
  }
}

TEST(Devices, FailuresSayWhatToDo) {
  EXPECT_EQ(Failure("cuda", nullptr),
            "--device cuda:0: this tost was built without CUDA; use --device cpu, or rebuild where "
            "nvcc is installed");
  EXPECT_EQ(Failure("cuda", &kNoDriver),
            "--device cuda:0: CUDA: driver too old; use --device cpu, or install the driver");
  EXPECT_EQ(Failure("cuda", &kNone), "--device cuda:0: there is no CUDA device here");
  EXPECT_EQ(Failure("cuda:2", &kTwo),
            "--device cuda:2: there are 2 CUDA devices, counted from cuda:0");
  EXPECT_THAT(Failure("cuda:1", &kOld), HasSubstr("K80"));
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", ""}) {
    EXPECT_THAT(Failure(name, &kTwo), HasSubstr("auto, cpu, cuda or cuda:<number>"));
  }
}

}  // namespace
}  // namespace tost::train
