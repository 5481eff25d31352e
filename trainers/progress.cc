#include "trainers/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/log.h"
#include "trainers/interrupt.h"

namespace tost::train {

std::string FormatCount(int64_t count) {
  std::string digits = absl::StrCat(count);
  const int64_t first = count < 0 ? 1 : 0;
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(static_cast<size_t>(i), 1, ',');
  }
  return digits;
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const int64_t whole = std::llround(seconds);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours > 0) return absl::StrFormat("%d:%02d:%02d", hours, minutes, rest);
  return absl::StrFormat("%d:%02d", minutes, rest);
}

std::string Format(const ProgressReport& report) {
  return absl::StrFormat("update %d/%d  loss %.3f  lr %.3g  norm %.2f  %s %s/s  %s left",
                         report.update, report.updates, report.loss, report.learning_rate,
                         report.gradient_norm, FormatCount(std::llround(report.items_per_second)),
                         report.unit, FormatDuration(report.seconds_left));
}

ProgressLine::ProgressLine(std::chrono::milliseconds interval)
    : terminal_(isatty(STDERR_FILENO) == 1),
      interval_(terminal_ ? std::chrono::milliseconds(100) : interval),
      next_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Update(absl::FunctionRef<std::string()> text, bool last) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_ && !last) return;
  next_ = now + interval_;
  if (!terminal_) {
    LogInfo(text());
    return;
  }
  // Return to the first column, erase the line, write it anew.
  std::fprintf(stderr, "\r\x1b[K%s", text().c_str());
  std::fflush(stderr);
  shown_ = true;
  if (last) {
    std::fputc('\n', stderr);
    shown_ = false;
  }
}

void ProgressLine::Clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

EvaluationProgress::EvaluationProgress(std::string unit, int64_t total)
    : unit_(std::move(unit)), total_(total), start_(std::chrono::steady_clock::now()) {}

absl::Status EvaluationProgress::Advance(int64_t count) {
  if (PendingInterrupt() != 0) {
    line_.Clear();
    return absl::CancelledError(absl::StrCat("stopped by a signal after ", FormatCount(done_),
                                             " of ", FormatCount(total_), " ", unit_,
                                             "; nothing was written"));
  }
  done_ += count;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  const double left = seconds.count() * static_cast<double>(total_ - done_) /
                      static_cast<double>(std::max<int64_t>(done_, 1));
  line_.Update(
      [&] {
        return absl::StrCat("evaluated ", FormatCount(done_), "/", FormatCount(total_), " ", unit_,
                            "  ", FormatDuration(left), " left");
      },
      done_ == total_);
  return absl::OkStatus();
}

}  // namespace tost::train
