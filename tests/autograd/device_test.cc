#include "autograd/device.h"

#include <cstdint>
#include <cstring>

#include "autograd/tensor.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

DeviceRuntime& Cpu() { return RuntimeOf(Device::Cpu()); }

TEST(Device, PrintsItsName) {
  EXPECT_EQ(Device::Cpu().ToString(), "cpu");
  EXPECT_EQ((Device{DeviceType::kCuda, 1}).ToString(), "cuda:1");
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

TEST(DeviceDeathTest, ARefusedAllocationSaysHowMuchWasAsked) {
  constexpr size_t kTooMuch = size_t{1} << 60;
  // The address sanitizer refuses such a size itself.
  EXPECT_DEATH(
      Tensor::Empty({int64_t{kTooMuch} / 4}, DType::kFloat32),
      "cpu is out of memory: no 1152921504606846976 bytes for a tensor \\[288230376151711744\\] of "
      "float32 with [0-9]{1,12} bytes in use|AddressSanitizer: requested allocation size");
}

}  // namespace
}  // namespace tost
