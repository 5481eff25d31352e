// `tost sample`: text from a trained language model.
#ifndef TOST_TRAINERS_SAMPLE_LANGUAGE_H_
#define TOST_TRAINERS_SAMPLE_LANGUAGE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "autograd/base/philox.h"
#include "models/language_model.h"

namespace tost::train {

// How the next token is chosen from its logits.
struct SamplingRule {
  float temperature = 0.8f;  // 0: the most likely token
  int64_t top_k = 200;       // 0: all
  int64_t vocabulary = 0;    // ids from here on are padding and never chosen
};

// The token drawn from softmax(logits / temperature) over the top_k largest logits, by the uniform
// number `u` in [0, 1).
int32_t ChooseToken(std::span<const float> logits, const SamplingRule& rule, float u);

// Draws `count` tokens after `prompt` and hands each to `emit` as soon as it is drawn.
//
// Inside the model's context a token costs one step of the decoder, whatever the position. Beyond
// it the window of the last `context` tokens is read anew for every token, positions counting from
// 0 again, which is what the official sampling loop does everywhere. A prompt longer than the
// context is read from its last `context` tokens.
void Generate(const models::LanguageModel& model, std::vector<int32_t> prompt, int64_t count,
              const SamplingRule& rule, const RandomKey& key,
              const std::function<void(int32_t)>& emit);

struct SampleOptions {
  std::string run;  // run folder or checkpoint
  std::string prompt = "\n";
  int64_t tokens = 500;
  int64_t samples = 1;
  float temperature = 0.8f;
  int64_t top_k = 200;
  uint64_t seed = 1337;
  std::string past_context = "slide";  // or "stop"
  Device device;
};

// Prints prompt and continuation to standard output as they are drawn.
absl::Status SampleLanguageRun(const SampleOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_SAMPLE_LANGUAGE_H_
