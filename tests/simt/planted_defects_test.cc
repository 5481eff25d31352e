// Every tool finds the defects that it owes, by name; and finds nothing in kernels that are right.
// Linked with each flavour of the emulator.
#include <cmath>

#include "cuda/gpu.h"
#include "tests/simt/sample_kernels.h"
#include "tests/simt/simt_test.h"

namespace tost::gpu {

// Launches are checked by the tests themselves.
void CheckCall(cudaError_t, const char*, const void*) {}

}  // namespace tost::gpu

namespace tost::simt {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kRows = 3, kColumns = 500, kThreads = 128;

std::vector<float> Inputs() {
  std::vector<float> x(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 5;
  return x;
}

std::vector<float> RowSums(const std::vector<float>& x) {
  std::vector<float> sums(kRows);
  for (size_t i = 0; i < x.size(); ++i) sums[i / kColumns] += x[i];
  return sums;
}

std::vector<float> RunSumRows(Defect defect) {
  const DeviceArray<float> x(Inputs()), sums{std::vector<float>(kRows)};
  SumRows(defect, x.get(), sums.get(), kRows, kColumns, kThreads, nullptr);
  return sums.ToHost();
}

// In how many schedules the emulator named the defect, and in how many it gave wrong numbers.
struct Findings {
  int named = 0, wrong = 0;
  std::string text;
};
Findings Find(const std::function<std::vector<float>()>& run, const std::vector<float>& right) {
  KeepDefects();
  Findings findings;
  ForEachSchedule([&] {
    TakeDefect();
    const std::vector<float> actual = run();
    const std::string text = TakeDefect();
    if (!text.empty()) {
      ++findings.named;
      findings.text = text;
    } else if (actual != right) {
      ++findings.wrong;
    }
  });
  return findings;
}
Findings Find(Defect defect) {
  return Find([defect] { return RunSumRows(defect); }, RowSums(Inputs()));
}

// Named in every schedule, with this regular expression and the kernel's name.
void ExpectNamed(Defect defect, const std::string& pattern) {
  const Findings findings = Find(defect);
  EXPECT_EQ(findings.named, static_cast<int>(Schedules().size()));
  EXPECT_THAT(findings.text, ContainsRegex(pattern));
  EXPECT_THAT(findings.text, HasSubstr("tost::simt::SumRow<float, "));
}

// What the checker says also names the line.
void ExpectNamedByChecker(Defect defect, const std::string& pattern) {
  if (!ChecksAccesses()) GTEST_SKIP() << "the access checker finds this";
  ExpectNamed(defect, pattern);
  EXPECT_THAT(Find(defect).text, HasSubstr("tests/simt/sample_kernels.cu:"));
}

TEST(PlantedDefects, RightKernelsPass) {
  const Findings findings = Find(Defect::kNone);
  EXPECT_EQ(findings.named, 0) << findings.text;
  EXPECT_EQ(findings.wrong, 0);
}

TEST(PlantedDefects, NeighboursInOneWordDoNotRace) {
  KeepDefects();
  std::vector<bfloat16> x;
  for (int i = 0; i < 136; ++i) x.push_back(bfloat16(static_cast<float>(i)));
  for (const bool pack : {true, false}) {
    const DeviceArray<bfloat16> in(x), out(x.size());
    CopyPacked(in.get(), out.get(), static_cast<int>(x.size()), pack, nullptr);
    const std::vector<bfloat16> y = out.ToHost();
    EXPECT_EQ(TakeDefect(), "");
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(static_cast<float>(y[i]), static_cast<float>(x[i])) << i;
    }
  }
}

TEST(PlantedDefects, MissingBarrierGivesWrongNumbersInSomeOrder) {
  const Findings findings = Find(Defect::kMissingBarrier);
  EXPECT_GT(findings.wrong + findings.named, 0);
}
TEST(PlantedDefects, MissingBarrier) {
  // Who is ahead of every writer meets no write.
  ExpectNamedByChecker(Defect::kMissingBarrier, "race on shared|read of uninitialised shared");
}
TEST(PlantedDefects, MissingReuseBarrier) {
  ExpectNamedByChecker(Defect::kMissingReuseBarrier, "race on shared memory");
}
TEST(PlantedDefects, MissingSyncWarp) {
  ExpectNamedByChecker(Defect::kMissingSyncWarp, "race on shared|read of uninitialised shared");
}
TEST(PlantedDefects, SumOfAllThreadsOnOneNumber) {
  ExpectNamedByChecker(Defect::kUnsharedSum, "race on global memory");
}
TEST(PlantedDefects, SumOfAllBlocksOnOneNumber) {
  ExpectNamedByChecker(Defect::kUnsharedGridSum, "race on global memory");
}
TEST(PlantedDefects, SharedOutOfBounds) {
  ExpectNamedByChecker(
      Defect::kSharedOutOfBounds,
      "out of bounds: write of 4 bytes [0-9]+ bytes past the end of a shared array of 32 bytes");
}
TEST(PlantedDefects, GlobalOutOfBounds) {
  ExpectNamedByChecker(
      Defect::kGlobalOutOfBounds,
      "out of bounds: read of 4 bytes 4 bytes past the end of a tensor of 6000 bytes");
}
TEST(PlantedDefects, ForeignStack) {
  ExpectNamedByChecker(Defect::kForeignStack, "read on the stack of another thread");
}

TEST(PlantedDefects, DivergentBarrier) { ExpectNamed(Defect::kDivergentBarrier, "__syncthreads"); }
TEST(PlantedDefects, ReturnBeforeBarrier) {
  ExpectNamed(Defect::kReturnBeforeBarrier, "__syncthreads");
}
TEST(PlantedDefects, MaskWithoutSource) {
  ExpectNamed(Defect::kMaskWithoutSource, "a shuffle reads lane [0-9]+, which does not take part");
}
TEST(PlantedDefects, DivergentShuffle) {
  ExpectNamed(Defect::kDivergentShuffle, "lanes of a warp collective disagree");
}
TEST(PlantedDefects, NoDynamicShared) {
  ExpectNamed(Defect::kNoDynamicShared, "the launch gives no dynamic shared memory");
}

TEST(PlantedDefects, OutOfATensorThatIsSmallerThanItsBlock) {
  if (!ChecksAccesses()) GTEST_SKIP() << "the access checker finds this";
  KeepDefects();
  const DeviceArray<float> x(64), y(64);
  HandOut(y.get(), 10 * sizeof(float), nullptr);
  cudaMemsetAsync(x.get(), 0, 64 * sizeof(float), nullptr);
  TwicePlusOne(x.get(), y.get(), 11, nullptr);
  cudaDeviceSynchronize();
  EXPECT_THAT(TakeDefect(), HasSubstr("past the end of a tensor of 40 bytes"));
}

TEST(PlantedDefects, UninitialisedRead) {
  const auto run = [] {
    const DeviceArray<float> x(16), y(16);
    TwicePlusOne(x.get(), y.get(), 16, nullptr);
    return y.ToHost();
  };
  const Findings findings = Find(run, std::vector<float>(16, 1));
  EXPECT_EQ(findings.named + findings.wrong, static_cast<int>(Schedules().size()));
  if (ChecksAccesses()) {
    EXPECT_THAT(findings.text, HasSubstr("read of uninitialised global memory"));
  }
}

TEST(PlantedDefects, StaleValuesOfABlockThatIsHandedOutAgain) {
  const auto run = [] {
    const DeviceArray<float> x{std::vector<float>(16)}, y(16);
    HandOut(x.get(), 16 * sizeof(float), nullptr);
    TwicePlusOne(x.get(), y.get(), 16, nullptr);
    return y.ToHost();
  };
  const Findings findings = Find(run, std::vector<float>(16, 1));
  EXPECT_EQ(findings.named + findings.wrong, static_cast<int>(Schedules().size()));
  if (ChecksAccesses()) {
    EXPECT_THAT(findings.text, HasSubstr("read of uninitialised global memory"));
  }
}

TEST(PlantedDefects, HostPointer) {
  if (!ChecksAccesses()) GTEST_SKIP() << "the access checker finds this";
  KeepDefects();
  const std::vector<float> x(16, 1);
  const DeviceArray<float> y(16);
  TwicePlusOne(x.data(), y.get(), 16, nullptr);
  cudaDeviceSynchronize();
  EXPECT_THAT(TakeDefect(), HasSubstr("memory that is not the device's: a host pointer"));
}

// y = 2 (2 x + 1) + 1 by two streams, with or without the event between them.
std::vector<float> ByTwoStreams(bool wait) {
  const DeviceArray<float> x{std::vector<float>(8, 1)}, between{std::vector<float>(8)}, y(8);
  const Stream first, second;
  const Event done;
  TwicePlusOne(x.get(), between.get(), 8, first);
  cudaEventRecord(done, first);
  if (wait) cudaStreamWaitEvent(second, done, 0);
  TwicePlusOne(between.get(), y.get(), 8, second);
  return y.ToHost();
}

TEST(PlantedDefects, MissingEventWaitBetweenTwoStreams) {
  const std::vector<float> right(8, 7);
  const Findings with = Find([] { return ByTwoStreams(true); }, right);
  EXPECT_EQ(with.named + with.wrong, 0) << with.text;
  const Findings without = Find([] { return ByTwoStreams(false); }, right);
  if (ChecksAccesses()) {
    EXPECT_EQ(without.named, static_cast<int>(Schedules().size()));
    EXPECT_THAT(without.text, HasSubstr("race on global memory"));
    EXPECT_THAT(without.text, HasSubstr("no stream, event or wait is between them"));
  } else {
    EXPECT_GT(without.wrong, 1);
    EXPECT_LT(without.wrong, static_cast<int>(Schedules().size()));
  }
}

TEST(PlantedDefects, HostWriteBeforeTheCopyHasRead) {
  KeepDefects();
  options() = {.order = Order::kReverse};
  float* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned), sizeof(float), 0), cudaSuccess);
  *pinned = 1;
  const DeviceArray<float> x(1);
  const Stream stream;
  cudaMemcpyAsync(x.get(), pinned, sizeof(float), cudaMemcpyHostToDevice, stream);
  *pinned = 2;
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeDefect(), HasSubstr("writes to memory that cudaMemcpyAsync has not read yet"));
  cudaFreeHost(pinned);
}

TEST(PlantedDefectsDeathTest, ADefectEndsTheProcessWithOneLine) {
  EXPECT_DEATH(RunSumRows(Defect::kDivergentShuffle),
               "^simt: lanes of a warp collective disagree on its mask or kind: ");
}

#ifdef TOST_SIMT_FLAVOUR_IS_ASAN
// AddressSanitizer ends the process at the access.
TEST(PlantedDefectsDeathTest, SharedOutOfBoundsUnderAsan) {
  EXPECT_DEATH(RunSumRows(Defect::kSharedOutOfBounds), "index 8 out of bounds for type 'float");
}
TEST(PlantedDefectsDeathTest, GlobalOutOfBoundsUnderAsan) {
  EXPECT_DEATH(RunSumRows(Defect::kGlobalOutOfBounds), "heap-buffer-overflow");
}
TEST(PlantedDefectsDeathTest, OutOfATensorThatIsSmallerThanItsBlockUnderAsan) {
  const auto run = [] {
    const DeviceArray<float> x(64), y(64);
    HandOut(y.get(), 10 * sizeof(float), nullptr);
    TwicePlusOne(x.get(), y.get(), 11, nullptr);
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(), "use-after-poison");
}
#endif

}  // namespace
}  // namespace tost::simt
