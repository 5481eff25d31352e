// Learning rates against the official loops.
#include <regex>

#include "gtest/gtest.h"
#include "tests/golden/golden.h"
#include "trainers/schedule.h"

namespace tost {
namespace {

using golden::GoldenFile;
using golden::GoldenFiles;

// Schedules compute in double from float settings and return a float: each a rounding of 6e-8.
constexpr double kRounding = 3e-7;

// The number that `pattern`'s group matches in the description.
double Described(const GoldenFile& file, const std::string& pattern) {
  std::smatch match;
  const std::string& text = file.Text("description");
  const bool found = std::regex_search(text, match, std::regex(pattern));
  EXPECT_TRUE(found) << pattern << " in: " << text;
  return found ? std::stod(match[1]) : 0;
}
float DescribedFloat(const GoldenFile& file, const std::string& pattern) {
  return static_cast<float>(Described(file, pattern));
}
int64_t DescribedCount(const GoldenFile& file, const std::string& pattern) {
  return static_cast<int64_t>(Described(file, pattern));
}

TEST(ScheduleGolden, Language) {
  for (const GoldenFile& file : GoldenFiles("lr_schedules")) {
    const train::WarmupCosine schedule{
        .peak = DescribedFloat(file, "language schedule \\(lr ([0-9.e-]+)"),
        .floor = DescribedFloat(file, "language schedule \\([^)]*min ([0-9.e-]+)"),
        .warmup = DescribedCount(file, "language schedule \\([^)]*warmup ([0-9]+)"),
        .total = DescribedCount(file, "language schedule \\([^)]*decay ([0-9]+)")};
    const std::vector<int64_t> updates = file.Integers("nano_it");
    const std::vector<double> rates = file.Doubles("nano_lr");
    ASSERT_FALSE(updates.empty());
    for (size_t i = 0; i < updates.size(); ++i) {
      EXPECT_NEAR(schedule.At(updates[i]), rates[i], kRounding * rates[i]) << updates[i];
    }
  }
}

TEST(ScheduleGolden, Vision) {
  for (const GoldenFile& file : GoldenFiles("lr_schedules")) {
    const train::VisionSchedule schedule{
        .peak = static_cast<float>(file.Number("vision_base_lr")),
        .start = DescribedFloat(file, "warmup [0-9]+ from ([0-9.e-]+)"),
        .floor = DescribedFloat(file, "warmup [0-9]+ from [^)]*min ([0-9.e-]+)"),
        .warmup = DescribedCount(file, "warmup ([0-9]+) from"),
        .epochs = DescribedCount(file, "\\(total ([0-9]+)")};
    const std::vector<double> raw = file.Doubles("vision_raw"), used = file.Doubles("vision_used");
    for (size_t e = 0; e < raw.size(); ++e) {
      EXPECT_NEAR(schedule.At(static_cast<int64_t>(e)), raw[e], kRounding * raw[e]) << e;
    }
    for (size_t e = 0; e < used.size(); ++e) {
      EXPECT_NEAR(schedule.AsOfficialLoop(static_cast<int64_t>(e)), used[e], kRounding * used[e])
          << e;
    }
  }
}

TEST(ScheduleGolden, FineTune) {
  for (const GoldenFile& file : GoldenFiles("lr_schedules")) {
    const train::FineTuneSchedule schedule{.peak = static_cast<float>(file.Number("finetune_lr")),
                                           .epochs = file.Int("finetune_epochs")};
    const std::vector<double> used = file.Doubles("finetune_used");
    ASSERT_FALSE(used.empty());
    for (size_t e = 0; e < used.size(); ++e) {
      EXPECT_NEAR(schedule.AsOfficialLoop(static_cast<int64_t>(e)), used[e], kRounding * used[e])
          << e;
    }
  }
}

}  // namespace
}  // namespace tost
