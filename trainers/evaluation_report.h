// What an evaluation found, as a table for people and as JSON for programs.
#ifndef TOST_TRAINERS_EVALUATION_REPORT_H_
#define TOST_TRAINERS_EVALUATION_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "trainers/text_loss.h"

namespace tost::train {

class EvaluationReport {
 public:
  // Names are the keys of the JSON; they come in the order of the calls.
  void Add(std::string name, std::string value) { Put(std::move(name), std::move(value)); }
  void Add(std::string name, int64_t value) { Put(std::move(name), value); }
  void Add(std::string name, double value) { Put(std::move(name), value); }
  void AddPositions(const LossByPosition& losses) { positions_ = losses.Buckets(); }

  // One "name value" line each; then, if there are any, the losses by position.
  std::string Table() const;
  // An object; a number that is not finite is null. Positions are a list "by_position" of
  // {"first", "last", "count", "loss"}.
  std::string Json() const;

  // Writes the JSON to `path`, at once and whole; "" and "-": writes nothing.
  absl::Status WriteJson(const std::string& path) const;

 private:
  using Value = std::variant<std::string, int64_t, double>;
  void Put(std::string name, Value value) {
    entries_.emplace_back(std::move(name), std::move(value));
  }

  std::vector<std::pair<std::string, Value>> entries_;
  std::vector<LossByPosition::Bucket> positions_;
};

// "position  targets  loss", a line for each bucket.
std::string PositionTable(const std::vector<LossByPosition::Bucket>& buckets);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATION_REPORT_H_
