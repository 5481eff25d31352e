#include "trainers/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "nlohmann/json.hpp"

namespace tost::train {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// A record, or nothing when the line is none. Fields that are no numbers are passed over, so that
// files of later versions stay readable.
std::optional<MetricsRecord> ParseRecord(absl::string_view line) {
  const nlohmann::ordered_json object =
      nlohmann::ordered_json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto update = object.find("update");
  const auto kind = object.find("kind");
  if (update == object.end() || !update->is_number_integer()) return std::nullopt;
  if (kind == object.end() || !kind->is_string()) return std::nullopt;
  MetricsRecord record{.update = *update, .kind = *kind};
  for (const auto& [name, value] : object.items()) {
    if (name == "update" || name == "kind") continue;
    if (value.is_number()) record.values.emplace_back(name, value.get<double>());
    if (value.is_null()) record.values.emplace_back(name, kNotANumber);
  }
  return record;
}

// Takes `record` in and drops the records that it supersedes.
void Supersede(MetricsRecord record, std::vector<MetricsRecord>& records) {
  while (!records.empty() && records.back().update > record.update) records.pop_back();
  if (record.kind == "resume") return;
  const auto same = std::find_if(records.begin(), records.end(), [&](const MetricsRecord& other) {
    return other.update == record.update && other.kind == record.kind;
  });
  if (same != records.end()) records.erase(same);
  records.push_back(std::move(record));
}

// Cuts a file off after its last newline.
absl::Status DropIncompleteLine(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  TOST_ASSIGN_OR_RETURN(const std::string content, data::ReadFile(path));
  const size_t complete = content.rfind('\n') + 1;  // npos + 1 = 0
  if (complete == content.size()) return absl::OkStatus();
  if (truncate(path.c_str(), static_cast<off_t>(complete)) != 0) {
    return data::FileError("cannot shorten", path, errno);
  }
  return absl::OkStatus();
}

}  // namespace

double MetricsRecord::Get(absl::string_view name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return kNotANumber;
}

absl::StatusOr<MetricsWriter> MetricsWriter::Open(const std::string& path) {
  TOST_RETURN_IF_ERROR(DropIncompleteLine(path));
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return data::FileError("cannot write", path, errno);
  return MetricsWriter(path, file);
}

absl::Status MetricsWriter::Write(const MetricsRecord& record) {
  nlohmann::ordered_json object;
  object["update"] = record.update;
  object["kind"] = record.kind;
  for (const auto& [name, value] : record.values) object[name] = value;
  const std::string line = object.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0) {
    return data::FileError("cannot write", path_, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MetricsRecord>> ReadMetrics(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string content, data::ReadFile(path));
  std::vector<MetricsRecord> records;
  absl::string_view rest = content;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t length = rest.find('\n');
    if (length == absl::string_view::npos) break;  // incomplete
    std::optional<MetricsRecord> record = ParseRecord(rest.substr(0, length));
    if (!record.has_value()) {
      return absl::DataLossError(
          absl::StrCat(path, ", line ", line, ": not a record of a run; remove that line"));
    }
    Supersede(*std::move(record), records);
    rest.remove_prefix(length + 1);
  }
  return records;
}

}  // namespace tost::train
