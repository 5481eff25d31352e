#include "trainers/evaluation_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "nlohmann/json.hpp"
#include "trainers/progress.h"

namespace tost::train {
namespace {

std::string Shown(const std::string& value) { return value; }
std::string Shown(int64_t value) { return FormatCount(value); }
std::string Shown(double value) { return absl::StrFormat("%.6g", value); }

}  // namespace

std::string PositionTable(const std::vector<LossByPosition::Bucket>& buckets) {
  std::string table = absl::StrFormat("%-15s %15s  %s\n", "position", "targets", "loss");
  for (const LossByPosition::Bucket& bucket : buckets) {
    const std::string range =
        bucket.first == bucket.last
            ? FormatCount(bucket.first)
            : absl::StrCat(FormatCount(bucket.first), "-", FormatCount(bucket.last));
    absl::StrAppend(&table, absl::StrFormat("%-15s %15s  %.4f\n", range, FormatCount(bucket.count),
                                            bucket.Mean()));
  }
  return table;
}

std::string EvaluationReport::Table() const {
  size_t widest = 0;
  for (const auto& [name, value] : entries_) widest = std::max(widest, name.size());
  std::string table;
  for (const auto& [name, value] : entries_) {
    const std::string shown = std::visit([](const auto& v) { return Shown(v); }, value);
    absl::StrAppend(&table, name, std::string(widest + 2 - name.size(), ' '), shown, "\n");
  }
  if (!positions_.empty()) absl::StrAppend(&table, "\n", PositionTable(positions_));
  return table;
}

std::string EvaluationReport::Json() const {
  nlohmann::ordered_json object;
  for (const auto& [name, value] : entries_) {
    std::visit([&, &key = name](const auto& v) { object[key] = v; }, value);
  }
  for (const LossByPosition::Bucket& bucket : positions_) {
    object["by_position"].push_back({{"first", bucket.first},
                                     {"last", bucket.last},
                                     {"count", bucket.count},
                                     {"loss", bucket.Mean()}});
  }
  // Paths may hold any bytes; those that are no UTF-8 are shown as U+FFFD.
  return absl::StrCat(object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

absl::Status EvaluationReport::WriteJson(const std::string& path) const {
  if (path.empty() || path == "-") return absl::OkStatus();
  return data::WriteFileAtomically(path, Json());
}

}  // namespace tost::train
