// What a person sees of a long run: a line that renews itself on a terminal, plain lines elsewhere.
#ifndef TOST_TRAINERS_PROGRESS_H_
#define TOST_TRAINERS_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tost::train {

struct ProgressReport {
  int64_t update = 0;
  int64_t updates = 0;
  double loss = 0;  // nats per target
  double learning_rate = 0;
  double gradient_norm = 0;
  double items_per_second = 0;
  std::string unit = "tokens";
  double seconds_left = 0;
};

// "update 120/2700  loss 2.314  lr 0.003  norm 0.82  41,200 tokens/s  1:23 left"
std::string Format(const ProgressReport& report);

// 83 s as "1:23", 3,700 s as "1:01:40".
std::string FormatDuration(double seconds);

// 1234567 as "1,234,567".
std::string FormatCount(int64_t count);

class ProgressLine {
 public:
  // Writes to standard error. When that is no terminal, at most one line per `interval`.
  explicit ProgressLine(std::chrono::milliseconds interval = std::chrono::seconds(10));
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows a report if it is time to; `last` always shows it. The text is asked for when it is
  // shown.
  void Update(absl::FunctionRef<std::string()> text, bool last);
  void Update(const ProgressReport& report, bool last) {
    Update([&] { return Format(report); }, last);
  }
  // Clears the renewed line, so that another message can be printed.
  void Clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::milliseconds interval_;
  std::chrono::steady_clock::time_point next_;
};

// How far an evaluation has come.
class EvaluationProgress {
 public:
  // `unit` names what is counted: "examples".
  EvaluationProgress(std::string unit, int64_t total);

  // `count` more are done. Cancelled when a signal asks the program to end.
  absl::Status Advance(int64_t count);

 private:
  std::string unit_;
  int64_t total_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point start_;
  ProgressLine line_;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_PROGRESS_H_
