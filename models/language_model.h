// Decoder-only language models: ToST (causal TSSA) and GPT-2 (causal softmax attention).
//
// Structure and names are those of the official tost_lang/model_TSSA.py and of nanoGPT's model.py:
//   x = wte[token] + wpe[position]
//   x = x + γ1 ⊙ attn(ln_1(x));  x = x + γ2 ⊙ mlp(ln_2(x))        for each block
//   logits = ln_f(x) wteᵀ                                          (lm_head is tied to wte)
#ifndef TOST_MODELS_LANGUAGE_MODEL_H_
#define TOST_MODELS_LANGUAGE_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "models/layers.h"
#include "models/target_scores.h"
#include "ops/attention.h"
#include "ops/tssa.h"

namespace tost::models {

enum class Mixer { kTssa, kAttention };

struct LanguageConfig {
  Mixer mixer = Mixer::kTssa;
  int layers = 12;
  int heads = 12;
  int width = 768;
  int64_t context = 1024;      // positions the model knows (block_size in the official code)
  int64_t vocabulary = 50304;  // rows of the embedding, padding included
  bool bias = false;           // of linear layers and layer norms
  // Initial γ of LayerScale; none for plain GPT-2. The official TSSA-capable file always has it.
  std::optional<float> layer_scale = 1e-5f;
  GeluForm gelu = GeluForm::kExact;

  // Every rule that the constructor relies on, as one line naming the setting.
  absl::Status Validate() const;
  friend bool operator==(const LanguageConfig&, const LanguageConfig&) = default;
};

// Causal TSSA between its two projections: c_proj(CausalTssa(c_attn(x))). Declares `temp` [H, 1] =
// 1, `denom_bias` [H, context, 1] = 0, `c_attn.*` and `c_proj.*`.
class CausalTssaMixer {
 public:
  using State = ops::CausalTssaState;

  CausalTssaMixer(ParameterScope scope, const LanguageConfig& config);
  Tensor operator()(const Tensor& x, Pass& pass) const;  // [B, T, C] → [B, T, C]
  State InitialState(int64_t batch, DType dtype, Device device) const;
  Tensor Prefill(const Tensor& x, State& state) const;                 // [B, T, C], state after it
  Tensor Step(const Tensor& x, State& state, int64_t position) const;  // [B, C] → [B, C]
  // The tokens after those of `state`: [B, T, C] → [B, T, C]. Token t takes row positions[t] of
  // denom_bias; positions int32 [T].
  Tensor Continue(const Tensor& x, State& state, const Tensor& positions) const;

 private:
  Parameter* temp_;
  Parameter* denom_bias_;
  LinearLayer in_, out_;
};

// Multi-head causal softmax attention between c_attn [3C, C] (rows q|k|v) and c_proj.
class CausalAttentionMixer {
 public:
  using State = ops::KeyValueCache;

  CausalAttentionMixer(ParameterScope scope, const LanguageConfig& config);
  Tensor operator()(const Tensor& x, Pass& pass) const;
  State InitialState(int64_t batch, DType dtype, Device device) const;
  Tensor Prefill(const Tensor& x, State& state) const;
  Tensor Step(const Tensor& x, State& state, int64_t position) const;

 private:
  int heads_;
  int64_t width_, context_;
  LinearLayer in_, out_;
};

class LanguageBlock {
 public:
  using State = std::variant<CausalTssaMixer::State, CausalAttentionMixer::State>;

  LanguageBlock(ParameterScope scope, const LanguageConfig& config);
  // `block` is this block's number, for the probe.
  Tensor operator()(const Tensor& x, Pass& pass, int block) const;
  State InitialState(int64_t batch, DType dtype, Device device) const;
  Tensor Prefill(const Tensor& x, State& state) const;
  Tensor Step(const Tensor& x, State& state, int64_t position) const;
  // CHECKs that the mixer is causal TSSA.
  Tensor Continue(const Tensor& x, State& state, const Tensor& positions) const;

 private:
  // The block's output from its input and its mixer's output, without dropout.
  Tensor AfterMixer(const Tensor& x, const Tensor& mixed) const;

  std::optional<LayerScale> gamma1_, gamma2_;
  LayerNormLayer ln_1_;
  std::variant<CausalTssaMixer, CausalAttentionMixer> mixer_;
  LayerNormLayer ln_2_;
  Mlp mlp_;
};

class LanguageModel {
 public:
  // Declares all parameters below `scope`. CHECKs config.Validate().
  LanguageModel(ParameterScope scope, const LanguageConfig& config);

  // Sum over the targets ≠ −1 of −log softmax(logits)[target], a float32 scalar. tokens and targets
  // are int32 [B, T], T ≤ context. [B·T, V] logits never exist at once.
  Tensor Loss(const Tensor& tokens, const Tensor& targets, Pass& pass) const;
  // Scores of the targets ≠ −1; `candidates` as in ScoreTargets.
  TargetScores Scores(const Tensor& tokens, const Tensor& targets, int64_t candidates,
                      Pass& pass) const;
  // [B, T] → [B, T, V].
  Tensor Logits(const Tensor& tokens, Pass& pass) const;

  const LanguageConfig& config() const { return config_; }
  // Where its weights are, and its inputs belong.
  Device device() const { return device_; }

 private:
  friend class LanguageDecoder;
  static std::vector<LanguageBlock> MakeBlocks(ParameterScope scope, const LanguageConfig& config);
  Tensor Embed(const Tensor& tokens, int64_t first_position, DType dtype) const;
  Tensor Features(const Tensor& tokens, Pass& pass) const;  // ln_f(x) [B, T, C]

  LanguageConfig config_;
  Device device_;
  Parameter* wte_;
  Parameter* wpe_;
  std::vector<LanguageBlock> blocks_;
  LayerNormLayer ln_f_;
};

// Generates token by token from a state whose size and whose time per token do not grow with the
// text for ToST (running sums), and from a key/value cache for GPT-2.
class LanguageDecoder {
 public:
  LanguageDecoder(const LanguageModel& model, int64_t batch, DType dtype = DType::kFloat32);

  // Forgets everything, reads tokens [B, T] in one pass, and returns the logits [B, V] after the
  // last.
  Tensor Prefill(const Tensor& tokens);
  // Reads one token [B] at the next position, which must be below the context, and returns [B, V].
  Tensor Step(const Tensor& tokens);
  // For ToST only (CHECKed): reads tokens [B, T] after those read so far, however many, and returns
  // the scores of targets [B, T], the tokens one position later or −1. The sums over all tokens are
  // carried on; wpe and denom_bias, which know `context` positions, are held at their last row
  // from there on. Inside the context this is exact: any cut into calls scores as LanguageModel's
  // Scores of the whole.
  TargetScores Continue(const Tensor& tokens, const Tensor& targets, int64_t candidates);
  // Tokens read so far.
  int64_t position() const { return position_; }

 private:
  void Reset();                            // to before the first token
  Tensor LogitsOf(const Tensor& x) const;  // [B, C] → [B, V]

  const LanguageModel* model_;
  int64_t batch_;
  DType dtype_;
  int64_t position_ = 0;
  std::vector<LanguageBlock::State> states_;
};

}  // namespace tost::models

#endif  // TOST_MODELS_LANGUAGE_MODEL_H_
