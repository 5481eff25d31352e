// metrics.jsonl: the numbers of a run for machines, one JSON object per line.
//
//   {"update":10,"kind":"train","loss":2.31,"learning_rate":0.0003,…}
#ifndef TOST_TRAINERS_METRICS_H_
#define TOST_TRAINERS_METRICS_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::train {

// A value that is not finite is written as null and read back as NaN.
struct MetricsRecord {
  int64_t update = 0;
  std::string kind;  // "train", "evaluation", "resume"
  std::vector<std::pair<std::string, double>> values;

  // The value of a name, or NaN.
  double Get(absl::string_view name) const;
};

class MetricsWriter {
 public:
  // Appends to what is there, after cutting off a last line that a crash left incomplete.
  static absl::StatusOr<MetricsWriter> Open(const std::string& path);

  // Handed to the operating system before this returns. A resumed run begins with a record of kind
  // "resume" at the update it goes on from.
  absl::Status Write(const MetricsRecord& record);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// The records that count, by ascending update. A record at update u takes the place of what the
// file holds before it beyond u, and of a record of its own kind at u: what a run did between its
// checkpoint and a crash is gone once a resumed run writes. "resume" records are not returned. An
// incomplete last line is passed over; any other line that is no record is an error naming it.
absl::StatusOr<std::vector<MetricsRecord>> ReadMetrics(const std::string& path);

}  // namespace tost::train

#endif  // TOST_TRAINERS_METRICS_H_
