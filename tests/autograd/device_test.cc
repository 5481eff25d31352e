#include "autograd/device.h"

#include <cstdint>
#include <cstring>

#include "autograd/out_of_memory.h"
#include "autograd/tensor.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

DeviceRuntime& Cpu() { return RuntimeOf(Device::Cpu()); }

TEST(Device, PrintsItsName) {
  EXPECT_EQ(Device::Cpu().ToString(), "cpu");
  EXPECT_EQ((Device{DeviceType::kCuda, 1}).ToString(), "cuda:1");
  EXPECT_EQ((Device{DeviceType::kCounting, 0}).ToString(), "counting");
}

TEST(CpuRuntime, BlocksAreAligned) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{513}, size_t{1} << 20}) {
    void* block = Cpu().Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    Cpu().Release(block, bytes);
  }
}

TEST(CpuRuntime, SecondAllocationOfASizeAsksTheSystemForNothing) {
  constexpr size_t kBytes = 1'234'567;
  void* first = Cpu().Allocate(kBytes);
  Cpu().Release(first, kBytes);
  const int64_t before = Cpu().Memory().system_allocations;
  void* second = Cpu().Allocate(kBytes);
  EXPECT_EQ(second, first);
  EXPECT_EQ(Cpu().Memory().system_allocations, before);
  void* third = Cpu().Allocate(kBytes);  // the first is in use: a new one
  EXPECT_EQ(Cpu().Memory().system_allocations, before + 1);
  Cpu().Release(second, kBytes);
  Cpu().Release(third, kBytes);
}

TEST(CpuRuntime, CountsLiveAndPeakBytes) {
  constexpr size_t kBytes = 3'000'000;
  const int64_t before = Cpu().Memory().live_bytes;
  void* block = Cpu().Allocate(kBytes);
  const int64_t held = Cpu().Memory().live_bytes - before;
  EXPECT_GE(held, static_cast<int64_t>(kBytes));
  // Size classes waste an eighth at most.
  EXPECT_LE(held, static_cast<int64_t>(kBytes + kBytes / 8));
  Cpu().Release(block, kBytes);
  EXPECT_EQ(Cpu().Memory().live_bytes, before);
  EXPECT_GE(Cpu().Memory().peak_bytes, before + held);
  Cpu().ResetPeakMemory();
  EXPECT_EQ(Cpu().Memory().peak_bytes, before);
}

TEST(CpuRuntime, CopiesAndFills) {
  constexpr size_t kBytes = 16;
  const char text[kBytes] = "fifteen letters";
  char back[kBytes];
  void* a = Cpu().Allocate(kBytes);
  void* b = Cpu().Allocate(kBytes);
  Cpu().CopyIn(a, text, kBytes);
  Cpu().Copy(b, a, kBytes);
  Cpu().FillZero(a, kBytes);
  Cpu().CopyOut(back, b, kBytes);
  EXPECT_STREQ(back, text);
  Cpu().CopyOut(back, a, kBytes);
  EXPECT_EQ(std::strlen(back), 0u);
  Cpu().Release(a, kBytes);
  Cpu().Release(b, kBytes);
}

TEST(DeviceDeathTest, AnAbsentDeviceIsNamed) {
  EXPECT_DEATH(RuntimeOf({DeviceType::kCuda, 0}), "device cuda:0 is not installed");
}

TEST(OutOfMemory, SaysWhatWasAskedForAndWhatThereIs) {
  const OutOfMemory failure{.device = {DeviceType::kCuda, 1},
                            .shape = {8, 1024},
                            .dtype = DType::kBFloat16,
                            .asked_bytes = 16384,
                            .live_bytes = int64_t{3} << 29,
                            .free_bytes = 100};
  EXPECT_EQ(Describe(failure),
            "cuda:1 is out of memory: a tensor [8, 1024] of bfloat16 needs 16.0 KiB, 100 bytes are "
            "free, 1.5 GiB in use");
}

TEST(OutOfMemoryDeathTest, EndsWithOneLineAndTheInnermostAdvice) {
  constexpr size_t kTooMuch = size_t{1} << 60;
  const OutOfMemoryAdvice outer([](const OutOfMemory&) { return "take less"; });
  {
    const OutOfMemoryAdvice inner([](const OutOfMemory&) { return "never said"; });
  }
  // The address sanitizer refuses such a size itself.
  EXPECT_EXIT(Tensor::Empty({int64_t{kTooMuch} / 4}, DType::kFloat32), testing::ExitedWithCode(1),
              "tost: cpu is out of memory: a tensor \\[288230376151711744\\] of float32 needs "
              "1048576.0 TiB, [0-9.]+ [MG]iB are free, .* in use; take less|"
              "AddressSanitizer: requested allocation size");
}

}  // namespace
}  // namespace tost
