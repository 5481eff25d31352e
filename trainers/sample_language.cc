#include "trainers/sample_language.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "autograd/base/log.h"
#include "trainers/language_run.h"

namespace tost::train {
namespace {

// Tokens as a decoder reads them: one row.
Tensor Row(std::span<const int32_t> tokens, Device device) {
  return Tensor::FromHost<int32_t>({1, static_cast<int64_t>(tokens.size())}, tokens, device);
}

// A prompt for a model without a tokenizer is a list of ids: "15496 995".
absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(word, &id) || id < 0 || id >= vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("--prompt: '", word, "' is no token id below ", vocabulary,
                       "; this model has no tokenizer, so its prompt is a list of ids"));
    }
    ids.push_back(id);
  }
  if (ids.empty()) ids.push_back(0);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> PromptIds(const std::string& prompt, const LanguageRun& run) {
  if (!run.tokenizer.has_value()) return ParseIds(prompt, run.config.vocabulary);
  std::vector<int32_t> ids;
  TOST_RETURN_IF_ERROR(run.tokenizer->Encode(prompt, "--prompt", ids));
  if (!ids.empty()) return ids;
  // What follows nothing is what follows the end of another document.
  if (run.tokenizer->end_of_text().has_value()) return std::vector{*run.tokenizer->end_of_text()};
  return absl::InvalidArgumentError("--prompt must not be empty");
}

absl::Status Validate(const SampleOptions& options) {
  if (options.temperature < 0) {
    return absl::InvalidArgumentError("--temperature must not be negative");
  }
  if (options.tokens < 0 || options.samples < 1 || options.top_k < 0) {
    return absl::InvalidArgumentError(
        "--tokens and --top_k must not be negative, --samples must be at least 1");
  }
  if (options.past_context != "slide" && options.past_context != "stop") {
    return absl::InvalidArgumentError(
        absl::StrCat("--past_context is slide or stop, not '", options.past_context, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

int32_t ChooseToken(std::span<const float> logits, const SamplingRule& rule, float u) {
  const int64_t known = static_cast<int64_t>(logits.size());
  const int64_t vocabulary = rule.vocabulary > 0 ? std::min(rule.vocabulary, known) : known;
  const std::span<const float> candidates = logits.first(static_cast<size_t>(vocabulary));
  if (rule.temperature == 0) {
    return static_cast<int32_t>(std::ranges::max_element(candidates) - candidates.begin());
  }
  std::vector<int32_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  const int64_t kept = rule.top_k > 0 ? std::min(rule.top_k, vocabulary) : vocabulary;
  // Ties go to the smaller id, so that the choice does not depend on the sorting algorithm.
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
    const float x = candidates[static_cast<size_t>(a)], y = candidates[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(kept));
  std::vector<double> cumulative;
  double sum = 0;
  const float largest = candidates[static_cast<size_t>(order[0])];
  for (int32_t id : order) {
    const double logit = (candidates[static_cast<size_t>(id)] - largest) / rule.temperature;
    cumulative.push_back(sum += std::exp(logit));
  }
  const auto chosen = std::ranges::upper_bound(cumulative, static_cast<double>(u) * sum);
  const auto index = std::min<int64_t>(chosen - cumulative.begin(), kept - 1);
  return order[static_cast<size_t>(index)];
}

void Generate(const models::LanguageModel& model, std::vector<int32_t> tokens, int64_t count,
              const SamplingRule& rule, const RandomKey& key,
              const std::function<void(int32_t)>& emit) {
  const int64_t context = model.config().context;
  models::LanguageDecoder decoder(model, /*batch=*/1);
  for (int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<int64_t>(tokens.size());
    const std::span<const int32_t> all(tokens);
    const bool step = i > 0 && size <= context;
    const Tensor logits =
        step ? decoder.Step(Row(all.last(1), model.device()).Reshaped({1}))
             : decoder.Prefill(
                   Row(all.last(static_cast<size_t>(std::min(context, size))), model.device()));
    tokens.push_back(ChooseToken(logits.ToHost(), rule, Uniform(key, 0, i)));
    emit(tokens.back());
  }
}

absl::Status SampleLanguageRun(const SampleOptions& options) {
  TOST_RETURN_IF_ERROR(Validate(options));
  TOST_ASSIGN_OR_RETURN(const LanguageRun run,
                        LoadLanguageRun(options.run, DType::kFloat32, options.device));
  TOST_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptIds(options.prompt, run));
  const int64_t room = run.config.context - static_cast<int64_t>(prompt.size());
  const int64_t count = options.past_context == "stop"
                            ? std::clamp<int64_t>(room, 0, options.tokens)
                            : options.tokens;
  const SamplingRule rule{.temperature = options.temperature,
                          .top_k = options.top_k,
                          .vocabulary = run.tokenizer ? run.tokenizer->vocabulary() : 0};
  // The last token drawn is not read again, so one more than the context costs nothing.
  if (static_cast<int64_t>(prompt.size()) + count > run.config.context + 1) {
    LogInfo(absl::StrCat("the text outgrows the context of ", run.config.context,
                         " tokens: beyond it each token reads the last ", run.config.context,
                         " anew (--past_context stop ends there instead)"));
  }
  auto print = [&](int32_t token) {
    const std::string text = run.tokenizer.has_value() ? run.tokenizer->Decode(std::span(&token, 1))
                                                       : absl::StrCat(token, " ");
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    if (!options.prompt.empty()) std::ranges::for_each(prompt, print);
    const RandomKey key{.seed = options.seed, .draw = static_cast<uint32_t>(sample)};
    Generate(*run.model, prompt, count, rule, key, print);
    std::fputs(options.samples > 1 ? "\n---------------\n" : "\n", stdout);
  }
  return absl::OkStatus();
}

}  // namespace tost::train
