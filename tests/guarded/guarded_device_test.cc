// A run on the guarded device has the CPU's bits, in every file and figure.
#include <cstdlib>

#include "autograd/device_backend.h"
#include "autograd/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> On(const std::string& device, std::vector<std::string> arguments) {
  arguments.push_back("--device");
  arguments.push_back(device);
  return arguments;
}

void ExpectDone(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
}

TEST(GuardedDeviceDeathTest, TheHostCannotTouchItsMemory) {
  ASSERT_TRUE(CudaBackend()->install(0).ok());
  const Tensor x = Tensor::FromHost<float>({2}, std::vector<float>{0, 2}, {DeviceType::kCuda, 0});
  EXPECT_DEATH(std::exit(static_cast<int>(*x.data<float>())), "");  // not with 0
  EXPECT_EQ(x.ToHost(), (std::vector<float>{0, 2}));
}

TEST(GuardedDeviceDeathTest, OperandsOnTwoDevicesAreNamed) {
  ASSERT_TRUE(CudaBackend()->install(0).ok());
  const Tensor host = Tensor::FromHost<float>({2}, std::vector<float>{0, 2});
  const Tensor device = host.To({DeviceType::kCuda, 0});
  EXPECT_DEATH(host + device, "add on cpu got a tensor \\[2\\] on cuda:0: move it with Tensor::To");
  EXPECT_DEATH(ops::Linear(device.View(0, {1, 2}), host.View(0, {1, 2})), "linear on cuda");
}

TEST(GuardedDevice, TensorsMoveAndAreConverted) {
  const Device device{DeviceType::kCuda, 0};
  ASSERT_TRUE(CudaBackend()->install(0).ok());
  const Tensor host = Tensor::FromHost<float>({2}, std::vector<float>{1, 1.001f});
  const Tensor there = host.To(device);
  EXPECT_EQ(there.device(), device);
  EXPECT_EQ(there.To(device).raw(), there.raw());
  EXPECT_EQ(there.To(Device::Cpu()).ToHost(), host.ToHost());
  EXPECT_EQ(host.To(Device::Cpu()).raw(), host.raw());
  const Tensor rounded = Converted(there, DType::kBFloat16);
  EXPECT_EQ(rounded.device(), device);
  EXPECT_EQ(rounded.ToHost(), (std::vector<float>{1, 1}));
}

// Both runs' checkpoints after ten updates with dropout.
TEST(GuardedDevice, TrainsToTheSameBits) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::vector<std::string> more =
        Words("--steps 10 --dropout 0.1 --recompute --micro_batch 2 --compute_dtype " + dtype);
    const std::string host = FreshFolder("host"), device = FreshFolder("device");
    ExpectDone(RunTost(On("cpu", TinyTraining(host, more))));
    const Outcome outcome = RunTost(On("cuda", TinyTraining(device, more)));
    ExpectDone(outcome);
    EXPECT_THAT(outcome.error, HasSubstr("cuda:0, "));
    const std::string name = "/checkpoints/checkpoint_0000010.safetensors";
    EXPECT_EQ(TensorBytes(device + name), TensorBytes(host + name)) << dtype;
  }
}

// A run goes on where it is resumed, not where it began: no settings file names a device.
TEST(GuardedDevice, ARunMovesBetweenDevices) {
  const std::string run = FreshFolder("moved");
  ExpectDone(RunTost(On("cuda", TinyTraining(run, Words("--steps 5")))));
  EXPECT_EQ(ReadFile(run + "/config.toml").find("device"), std::string::npos);
  const Outcome resumed =
      RunTost(On("cpu", {"train", "language", "--resume", run, "--steps", "8"}));
  ExpectDone(resumed);
  EXPECT_EQ(resumed.error.find("cuda"), std::string::npos) << resumed.error;
}

TEST(GuardedDevice, SamplesTheSameText) {
  const std::string run = FreshFolder("sampled");
  ExpectDone(RunTost(On("cpu", TinyTraining(run, Words("--steps 3")))));
  const std::vector<std::string> sample = {"sample", "--run", run, "--tokens", "30"};
  const Outcome host = RunTost(On("cpu", sample)), device = RunTost(On("cuda", sample));
  ExpectDone(host);
  ExpectDone(device);
  EXPECT_EQ(device.out, host.out);
}

TEST(GuardedDevice, BenchesEveryKindOfModel) {
  for (const char* command :
       {"bench step --model tost_char --context 16 --batch 1 --repeats 1",
        "bench step --model tost_char --context 16 --batch 1 --repeats 1 --compute_dtype bfloat16",
        "bench step --model tost_small_pictures_p8 --batch 1 --repeats 1",
        "bench step --model crate_tiny --image_size 32 --batch 1 --repeats 1",
        "bench tssa --tokens 20 --width 24 --heads 3 --batch 1 --repeats 1",
        "bench tssa --variant whole --tokens 20 --width 24 --heads 3 --batch 1 --repeats 1",
        "bench decode --model tost_char --context 16 --tokens 4 --repeats 1"}) {
    const Outcome outcome = RunTost(On("cuda", Words(command)));
    EXPECT_EQ(outcome.exit_code, 0) << command << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("\"device\":\"cuda:0\"")) << command;
  }
}

TEST(GuardedDevice, LogsItsMemoryAfterEveryUpdate) {
  const Outcome outcome =
      RunTost(On("cuda", TinyTraining(FreshFolder("memory"), Words("--steps 3 --log_memory"))));
  ExpectDone(outcome);
  for (const char* line :
       {"update 1: memory of cuda:0: live ", "update 3: memory of cuda:0: live "}) {
    EXPECT_THAT(outcome.error, HasSubstr(line));
  }
}

}  // namespace
}  // namespace tost::acceptance
