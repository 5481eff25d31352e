#include "trainers/metrics.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::train {
namespace {

using testing::ElementsAre;

class MetricsTest : public testing::Test {
 protected:
  // Appends train records of updates [first, last], with loss = update + offset.
  void Train(int64_t first, int64_t last, double offset) {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    if (first > 1) {
      ASSERT_TRUE(writer->Write({first - 1, "resume", {}}).ok());
    }
    for (int64_t update = first; update <= last; ++update) {
      const double loss = static_cast<double>(update) + offset;
      ASSERT_TRUE(writer->Write({update, "train", {{"loss", loss}, {"norm", 0.5}}}).ok());
    }
  }

  std::vector<std::string> Read() {
    const absl::StatusOr<std::vector<MetricsRecord>> records = ReadMetrics(path_);
    EXPECT_TRUE(records.ok()) << records.status();
    std::vector<std::string> lines;
    for (const MetricsRecord& record : *records) {
      lines.push_back(absl::StrCat(record.update, " ", record.kind, " ", record.Get("loss")));
    }
    return lines;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("metrics.jsonl");
};

TEST_F(MetricsTest, OneLinePerRecord) {
  Train(1, 2, 0.25);
  EXPECT_EQ(ReadBytes(path_),
            "{\"update\":1,\"kind\":\"train\",\"loss\":1.25,\"norm\":0.5}\n"
            "{\"update\":2,\"kind\":\"train\",\"loss\":2.25,\"norm\":0.5}\n");
  EXPECT_THAT(Read(), ElementsAre("1 train 1.25", "2 train 2.25"));
}

TEST_F(MetricsTest, RecordsAreReadableBeforeTheWriterCloses) {
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path_);
  ASSERT_TRUE(writer->Write({1, "train", {{"loss", 3}}}).ok());
  EXPECT_THAT(Read(), ElementsAre("1 train 3"));
}

TEST_F(MetricsTest, ResumedRunSupersedesWhatCameAfterItsCheckpoint) {
  Train(1, 5, 0);
  Train(4, 4, 100);
  EXPECT_THAT(Read(), ElementsAre("1 train 1", "2 train 2", "3 train 3", "4 train 104"));
}

TEST_F(MetricsTest, ResumeRecordAloneSupersedes) {
  Train(1, 5, 0);
  Train(4, 3, 0);
  EXPECT_THAT(Read(), ElementsAre("1 train 1", "2 train 2", "3 train 3"));
}

TEST_F(MetricsTest, KindsAtOneUpdateStandSideBySide) {
  {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path_);
    for (const MetricsRecord& record :
         std::vector<MetricsRecord>{{1, "train", {{"loss", 1}}},
                                    {1, "evaluation", {{"loss", 2}}},
                                    {2, "train", {{"loss", 3}}},
                                    {1, "evaluation", {{"loss", 4}}}}) {
      ASSERT_TRUE(writer->Write(record).ok());
    }
  }
  EXPECT_THAT(Read(), ElementsAre("1 train 1", "1 evaluation 4"));
}

TEST_F(MetricsTest, IncompleteLastLineIsPassedOverAndCutOff) {
  Train(1, 2, 0);
  const std::string complete = ReadBytes(path_);
  WriteBytes(path_, complete + "{\"update\":3,\"ki");
  EXPECT_THAT(Read(), ElementsAre("1 train 1", "2 train 2"));
  Train(3, 3, 0);
  EXPECT_THAT(Read(), ElementsAre("1 train 1", "2 train 2", "3 train 3"));
  WriteBytes(path_, "{\"upd");
  EXPECT_TRUE(Read().empty());
  Train(1, 1, 0);
  EXPECT_THAT(Read(), ElementsAre("1 train 1"));
}

TEST_F(MetricsTest, LinesThatAreNoRecordsAreNamed) {
  for (const std::string line : {"hello", "[]", "{\"update\":\"x\",\"kind\":\"train\"}",
                                 "{\"update\":1}", "{\"kind\":\"train\"}", ""}) {
    WriteBytes(path_, "{\"update\":1,\"kind\":\"train\"}\n" + line + "\n");
    ExpectOneLine(ReadMetrics(path_).status(), {path_, "line 2"});
  }
  ExpectOneLine(ReadMetrics(folder_.File("none")).status(), {"none"});
  ExpectOneLine(MetricsWriter::Open(folder_.File("none/metrics.jsonl")).status(), {"none/metrics"});
}

TEST_F(MetricsTest, ValuesThatAreNotFinite) {
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path_);
  const double infinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(writer->Write({1, "train", {{"loss", infinity}, {"norm", std::nan("")}}}).ok());
  const absl::StatusOr<std::vector<MetricsRecord>> records = ReadMetrics(path_);
  ASSERT_EQ(records->size(), 1u);
  EXPECT_TRUE(std::isnan((*records)[0].Get("loss")));
  EXPECT_TRUE(std::isnan((*records)[0].Get("norm")));
  EXPECT_EQ((*records)[0].values.size(), 2u);
}

TEST_F(MetricsTest, NumbersComeBackExactly) {
  absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path_);
  const double value = 0.1 + 0.2;
  ASSERT_TRUE(writer->Write({int64_t{1} << 40, "train", {{"loss", value}}}).ok());
  const absl::StatusOr<std::vector<MetricsRecord>> records = ReadMetrics(path_);
  EXPECT_EQ((*records)[0].Get("loss"), value);
  EXPECT_EQ((*records)[0].update, int64_t{1} << 40);
}

}  // namespace
}  // namespace tost::train
