#include "trainers/text_loss.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/loader.h"

namespace tost::train {
namespace {

// Sets these draws apart from all others of a seed.
constexpr uint32_t kTextWindows = 0x747874;
// Tokens that streaming reads in one pass: long enough for matrix products, short enough for their
// activations to be small.
constexpr size_t kStreamingChunk = 1024;

// The part of a text that is being scored, by the position of its tokens in the whole.
class TextBuffer {
 public:
  TextBuffer(data::TextTokens& text, EvaluationProgress& progress)
      : text_(text), progress_(progress) {}

  // Reads until tokens up to and with `position` are there or the text is over.
  absl::Status ReadTo(int64_t position) {
    while (!over_ && end() <= position) {
      TOST_ASSIGN_OR_RETURN(const bool more, text_.Next(ids_));
      over_ = !more;
    }
    return absl::OkStatus();
  }
  // Tokens before `position` are not asked for again. Reports bytes as if tokens had equally many.
  absl::Status Release(int64_t position) {
    const int64_t gone = std::min(position, end()) - first_;
    ids_.erase(ids_.begin(), ids_.begin() + gone);
    first_ += gone;
    const double share = static_cast<double>(first_) / static_cast<double>(end());
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(text_.bytes()));
    const int64_t more = std::max<int64_t>(bytes - reported_, 0);
    reported_ += more;
    return progress_.Advance(more);
  }

  int64_t end() const { return first_ + static_cast<int64_t>(ids_.size()); }
  std::span<const int32_t> Tokens(int64_t begin, int64_t count) const {
    return std::span(ids_).subspan(static_cast<size_t>(begin - first_), static_cast<size_t>(count));
  }

 private:
  data::TextTokens& text_;
  EvaluationProgress& progress_;
  std::vector<int32_t> ids_;
  int64_t first_ = 0;  // position of ids_[0]
  bool over_ = false;
  int64_t reported_ = 0;  // bytes
};

absl::Status CheckLength(const TextBuffer& text, const TextLoss& loss) {
  if (loss.tokens > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the text has ", text.end() == 0 ? "no token" : "one token", "; a loss needs two"));
}

Tensor Row(std::span<const int32_t> ids) {
  return Tensor::FromHost({1, static_cast<int64_t>(ids.size())}, ids);
}

// A window's place: it reads `inputs` tokens from `begin` and scores its last `scored` targets.
struct Window {
  int64_t begin = 0;
  int64_t inputs = 0;
  int64_t scored = 0;
};

// Windows one after the other, as far as the tokens read reach.
class SlidingWindows {
 public:
  SlidingWindows(int64_t context, int64_t stride) : context_(context), stride_(stride) {}

  // Position of the last token of the window that is `ahead` of the next one.
  int64_t LastToken(int64_t ahead) const { return begin_ + ahead * stride_ + context_; }
  int64_t begin() const { return begin_; }
  // The next window; false when the text, which ends before position `end`, has no more targets.
  bool Next(int64_t end, Window& window) {
    const int64_t last = std::min(begin_ + context_, end - 1);
    if (last <= scored_to_) return false;
    window = {.begin = begin_, .inputs = last - begin_, .scored = last - scored_to_};
    scored_to_ = last;
    begin_ += stride_;
    return true;
  }

 private:
  int64_t context_, stride_;
  int64_t begin_ = 0;
  int64_t scored_to_ = 0;  // position of the last token scored; the first token never is
};

void AddWindow(const TextBuffer& text, const Window& window, PaddedBatch& batch) {
  const std::span<const int32_t> next = text.Tokens(window.begin + 1, window.inputs);
  std::vector<int32_t> targets(next.begin(), next.end());
  std::fill(targets.begin(), targets.end() - window.scored, -1);
  batch.Add(text.Tokens(window.begin, window.inputs), targets);
}

void AddLosses(std::span<const Window> windows, const std::vector<float>& losses, TextLoss& loss) {
  size_t next = 0;
  for (const Window& window : windows) {
    for (int64_t t = window.inputs - window.scored; t < window.inputs; ++t) {
      loss.Add(t + 1, static_cast<double>(losses[next++]));
    }
  }
}

}  // namespace

void LossByPosition::Add(int64_t position, double loss) {
  const auto index = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(position - 1)));
  while (buckets_.size() <= index) {
    const int64_t last = int64_t{1} << buckets_.size();
    buckets_.push_back({.first = last / 2 + 1, .last = last});
    if (last == 1) buckets_.back().first = 1;
  }
  ++buckets_[index].count;
  buckets_[index].sum += loss;
  largest_ = std::max(largest_, position);
}

std::vector<LossByPosition::Bucket> LossByPosition::Buckets() const {
  std::vector<Bucket> filled;
  for (const Bucket& bucket : buckets_) {
    if (bucket.count > 0) filled.push_back(bucket);
  }
  if (!filled.empty()) filled.back().last = std::min(filled.back().last, largest_);
  return filled;
}

void TextLoss::Add(int64_t position, double loss) {
  sum += loss;
  ++tokens;
  by_position.Add(position, loss);
}

absl::StatusOr<TextLoss> SlidingWindowLoss(const models::LanguageModel& model,
                                           data::TextTokens& text, int64_t stride,
                                           const ScoringOptions& options,
                                           EvaluationProgress& progress) {
  const int64_t context = model.config().context;
  TOST_CHECK(stride >= 1 && stride <= context) << "stride " << stride << " of " << context;
  TextBuffer buffer(text, progress);
  SlidingWindows windows(context, stride);
  TextLoss loss;
  while (true) {
    TOST_RETURN_IF_ERROR(buffer.ReadTo(windows.LastToken(options.batch - 1)));
    PaddedBatch batch;
    std::vector<Window> here;
    Window window;
    while (batch.rows() < options.batch && windows.Next(buffer.end(), window)) {
      AddWindow(buffer, window, batch);
      here.push_back(window);
    }
    if (here.empty()) break;
    AddLosses(here, batch.Scores(model, options).losses, loss);
    TOST_RETURN_IF_ERROR(buffer.Release(windows.begin()));
  }
  TOST_RETURN_IF_ERROR(CheckLength(buffer, loss));
  TOST_RETURN_IF_ERROR(buffer.Release(buffer.end()));
  return loss;
}

absl::StatusOr<TextLoss> StreamingLoss(const models::LanguageModel& model, data::TextTokens& text,
                                       const ScoringOptions& options,
                                       EvaluationProgress& progress) {
  TextBuffer buffer(text, progress);
  models::LanguageDecoder decoder(model, /*batch=*/1, options.compute_dtype);
  TextLoss loss;
  for (int64_t begin = 0;;) {
    TOST_RETURN_IF_ERROR(buffer.ReadTo(begin + static_cast<int64_t>(kStreamingChunk)));
    const int64_t count = std::min<int64_t>(kStreamingChunk, buffer.end() - begin - 1);
    if (count <= 0) break;
    const models::TargetScores scores =
        decoder.Continue(Row(buffer.Tokens(begin, count)).To(model.device()),
                         Row(buffer.Tokens(begin + 1, count)), options.candidates);
    for (const float value : scores.losses) loss.Add(++begin, static_cast<double>(value));
    TOST_RETURN_IF_ERROR(buffer.Release(begin));
  }
  TOST_RETURN_IF_ERROR(CheckLength(buffer, loss));
  TOST_RETURN_IF_ERROR(buffer.Release(buffer.end()));
  return loss;
}

absl::StatusOr<TextLoss> RandomWindowLoss(const models::LanguageModel& model,
                                          std::span<const int32_t> tokens, int64_t windows,
                                          uint64_t seed, const ScoringOptions& options,
                                          EvaluationProgress& progress) {
  const auto context = static_cast<size_t>(model.config().context);
  TOST_CHECK_LT(context, tokens.size()) << "a window needs more tokens";
  TextLoss loss;
  for (int64_t begin = 0; begin < windows; begin += options.batch) {
    PaddedBatch batch;
    for (int64_t w = begin; w < std::min(windows, begin + options.batch); ++w) {
      const auto first = static_cast<size_t>(data::RandomWindow(
          {.seed = seed, .draw = kTextWindows}, w, static_cast<int64_t>(tokens.size() - context)));
      batch.Add(tokens.subspan(first, context), tokens.subspan(first + 1, context));
    }
    const Window whole{.inputs = static_cast<int64_t>(context),
                       .scored = static_cast<int64_t>(context)};
    AddLosses(std::vector(static_cast<size_t>(batch.rows()), whole),
              batch.Scores(model, options).losses, loss);
    TOST_RETURN_IF_ERROR(progress.Advance(batch.rows()));
  }
  return loss;
}

}  // namespace tost::train
