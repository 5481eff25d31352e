#include "models/language_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "autograd/recompute.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/residual.h"

namespace tost::models {
namespace {

constexpr float kLayerNormEpsilon = 1e-5f;
constexpr float kWeightDeviation = 0.02f;

// Projections that end in the residual stream start smaller, so that its variance does not grow
// with the number of the 2L branches that are added to it.
float ResidualDeviation(const LanguageConfig& config) {
  return kWeightDeviation / std::sqrt(2.0f * static_cast<float>(config.layers));
}

absl::Status Positive(absl::string_view name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 1, got ", value));
}

std::optional<LayerScale> MakeLayerScale(ParameterScope scope, absl::string_view name,
                                         const LanguageConfig& config) {
  if (!config.layer_scale.has_value()) return std::nullopt;
  return LayerScale(scope, name, config.width, *config.layer_scale);
}

// x + γ ⊙ y, or x + y without LayerScale.
Tensor AddBranch(const std::optional<LayerScale>& gamma, const Tensor& x, const Tensor& y) {
  return gamma.has_value() ? gamma->AddTo(x, y) : ops::ScaledResidual(x, Tensor(), y);
}

std::variant<CausalTssaMixer, CausalAttentionMixer> MakeMixer(ParameterScope scope,
                                                              const LanguageConfig& config) {
  if (config.mixer == Mixer::kTssa) return CausalTssaMixer(scope, config);
  return CausalAttentionMixer(scope, config);
}

}  // namespace

absl::Status LanguageConfig::Validate() const {
  TOST_RETURN_IF_ERROR(Positive("layers", layers));
  TOST_RETURN_IF_ERROR(Positive("heads", heads));
  TOST_RETURN_IF_ERROR(Positive("width", width));
  TOST_RETURN_IF_ERROR(Positive("context", context));
  TOST_RETURN_IF_ERROR(Positive("vocabulary", vocabulary));
  if (width % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("width ", width, " is not a multiple of heads ", heads));
  }
  return absl::OkStatus();
}

CausalTssaMixer::CausalTssaMixer(ParameterScope scope, const LanguageConfig& config)
    : temp_(&scope.Add("temp", {config.heads, 1}, Init::Ones(), Decay::kNo)),
      denom_bias_(
          &scope.Add("denom_bias", {config.heads, config.context, 1}, Init::Zeros(), Decay::kNo)),
      in_(scope / "c_attn", config.width, config.width, {.bias = config.bias}),
      out_(scope / "c_proj", config.width, config.width,
           {.bias = config.bias, .deviation = ResidualDeviation(config)}) {}

Tensor CausalTssaMixer::operator()(const Tensor& x, Pass& pass) const {
  const Tensor w = in_(x);
  const RandomKey attention_key = pass.random.Next(), residual_key = pass.random.Next();
  Tensor mask;
  if (pass.DropoutRate() > 0) {
    mask = ops::DropoutMask(w.shape(), pass.DropoutRate(), attention_key,
                            AccumulateDType(w.dtype()), w.device());
  }
  const Tensor y = ops::CausalTssa(w, temp_->value(), denom_bias_->value(), mask);
  return ops::Dropout(out_(y), pass.DropoutRate(), residual_key);
}

CausalTssaMixer::State CausalTssaMixer::InitialState(int64_t batch, DType dtype,
                                                     Device device) const {
  const int64_t heads = temp_->shape()[0];
  return State::Zeros(batch, heads, out_.width() / heads, AccumulateDType(dtype), device);
}

Tensor CausalTssaMixer::Prefill(const Tensor& x, State& state) const {
  return out_(ops::CausalTssaPrefill(state, in_(x), temp_->value(), denom_bias_->value()));
}

Tensor CausalTssaMixer::Step(const Tensor& x, State& state, int64_t position) const {
  return out_(ops::CausalTssaStep(state, in_(x), temp_->value(), denom_bias_->value(), position));
}

Tensor CausalTssaMixer::Continue(const Tensor& x, State& state, const Tensor& positions) const {
  const Tensor bias = ops::IndexSelect(denom_bias_->value(), 1, positions);
  return out_(ops::CausalTssaPrefill(state, in_(x), temp_->value(), bias));
}

CausalAttentionMixer::CausalAttentionMixer(ParameterScope scope, const LanguageConfig& config)
    : heads_(config.heads),
      width_(config.width),
      context_(config.context),
      in_(scope / "c_attn", config.width, 3 * config.width, {.bias = config.bias}),
      out_(scope / "c_proj", config.width, config.width,
           {.bias = config.bias, .deviation = ResidualDeviation(config)}) {}

Tensor CausalAttentionMixer::operator()(const Tensor& x, Pass& pass) const {
  const RandomKey attention_key = pass.random.Next(), residual_key = pass.random.Next();
  const Tensor y = ops::Attention(
      in_(x),
      {.heads = heads_, .causal = true, .dropout = pass.DropoutRate(), .key = attention_key});
  return ops::Dropout(out_(y), pass.DropoutRate(), residual_key);
}

CausalAttentionMixer::State CausalAttentionMixer::InitialState(int64_t batch, DType dtype,
                                                               Device device) const {
  return State::Empty(batch, context_, width_, dtype, device);
}

Tensor CausalAttentionMixer::Prefill(const Tensor& x, State& state) const {
  return out_(ops::AttentionPrefill(in_(x), heads_, state));
}

Tensor CausalAttentionMixer::Step(const Tensor& x, State& state, int64_t position) const {
  return out_(ops::AttentionStep(state, in_(x), heads_, position));
}

LanguageBlock::LanguageBlock(ParameterScope scope, const LanguageConfig& config)
    : gamma1_(MakeLayerScale(scope, "gamma1", config)),
      gamma2_(MakeLayerScale(scope, "gamma2", config)),
      ln_1_(scope / "ln_1", config.width, config.bias, kLayerNormEpsilon),
      mixer_(MakeMixer(scope / "attn", config)),
      ln_2_(scope / "ln_2", config.width, config.bias, kLayerNormEpsilon),
      mlp_(scope / "mlp", config.width,
           {.bias = config.bias,
            .projection_deviation = ResidualDeviation(config),
            .gelu = config.gelu}) {}

Tensor LanguageBlock::operator()(const Tensor& x, Pass& pass, int block) const {
  const Tensor mixed = std::visit([&](const auto& mixer) { return mixer(ln_1_(x), pass); }, mixer_);
  const Tensor middle = AddBranch(gamma1_, x, mixed);
  const Tensor mlp = mlp_(ln_2_(middle), pass);
  if (pass.probe != nullptr) {
    (*pass.probe)(block, "tokens", x);
    (*pass.probe)(block, "mixer", mixed);
    (*pass.probe)(block, "mlp", mlp);
  }
  return AddBranch(gamma2_, middle, mlp);
}

LanguageBlock::State LanguageBlock::InitialState(int64_t batch, DType dtype, Device device) const {
  return std::visit(
      [&](const auto& mixer) { return State(mixer.InitialState(batch, dtype, device)); }, mixer_);
}

Tensor LanguageBlock::AfterMixer(const Tensor& x, const Tensor& mixed) const {
  const Tensor middle = AddBranch(gamma1_, x, mixed);
  Pass evaluation;
  return AddBranch(gamma2_, middle, mlp_(ln_2_(middle), evaluation));
}

Tensor LanguageBlock::Prefill(const Tensor& x, State& state) const {
  return AfterMixer(x, std::visit(
                           [&](const auto& mixer) {
                             using MixerState = typename std::decay_t<decltype(mixer)>::State;
                             return mixer.Prefill(ln_1_(x), std::get<MixerState>(state));
                           },
                           mixer_));
}

Tensor LanguageBlock::Step(const Tensor& x, State& state, int64_t position) const {
  return AfterMixer(x, std::visit(
                           [&](const auto& mixer) {
                             using MixerState = typename std::decay_t<decltype(mixer)>::State;
                             return mixer.Step(ln_1_(x), std::get<MixerState>(state), position);
                           },
                           mixer_));
}

Tensor LanguageBlock::Continue(const Tensor& x, State& state, const Tensor& positions) const {
  const auto& mixer = std::get<CausalTssaMixer>(mixer_);
  return AfterMixer(x,
                    mixer.Continue(ln_1_(x), std::get<CausalTssaMixer::State>(state), positions));
}

LanguageModel::LanguageModel(ParameterScope scope, const LanguageConfig& config)
    : config_(config),
      device_(scope.device()),
      wte_(&(scope / "transformer" / "wte")
                .Add("weight", {config.vocabulary, config.width}, Init::Normal(kWeightDeviation),
                     Decay::kYes)),
      wpe_(&(scope / "transformer" / "wpe")
                .Add("weight", {config.context, config.width}, Init::Normal(kWeightDeviation),
                     Decay::kYes)),
      blocks_(MakeBlocks(scope / "transformer" / "h", config)),
      ln_f_(scope / "transformer" / "ln_f", config.width, config.bias, kLayerNormEpsilon) {}

std::vector<LanguageBlock> LanguageModel::MakeBlocks(ParameterScope scope,
                                                     const LanguageConfig& config) {
  TOST_CHECK_OK(config.Validate());
  std::vector<LanguageBlock> blocks;
  blocks.reserve(static_cast<size_t>(config.layers));
  for (int i = 0; i < config.layers; ++i) blocks.emplace_back(scope / absl::StrCat(i), config);
  return blocks;
}

Tensor LanguageModel::Embed(const Tensor& tokens, int64_t first_position, DType dtype) const {
  return ops::Embedding(tokens, wte_->In(dtype), wpe_->In(dtype), first_position);
}

Tensor LanguageModel::Features(const Tensor& tokens, Pass& pass) const {
  Tensor x =
      ops::Dropout(Embed(tokens, 0, pass.compute_dtype), pass.DropoutRate(), pass.random.Next());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto block = [this, i](const Tensor& input, Pass& block_pass) {
      return blocks_[i](input, block_pass, static_cast<int>(i));
    };
    x = pass.recompute ? Recompute(block, x, pass) : block(x, pass);
  }
  return ln_f_(x);
}

Tensor LanguageModel::Loss(const Tensor& tokens, const Tensor& targets, Pass& pass) const {
  const Tensor features = Features(tokens, pass);
  return ops::ProjectedCrossEntropy(features, wte_->In(features.dtype()), targets);
}

TargetScores LanguageModel::Scores(const Tensor& tokens, const Tensor& targets, int64_t candidates,
                                   Pass& pass) const {
  const Tensor features = Features(tokens, pass);
  return ScoreTargets(features, wte_->In(features.dtype()), targets, candidates);
}

Tensor LanguageModel::Logits(const Tensor& tokens, Pass& pass) const {
  const Tensor features = Features(tokens, pass);
  return ops::Linear(features, wte_->In(features.dtype()));
}

LanguageDecoder::LanguageDecoder(const LanguageModel& model, int64_t batch, DType dtype)
    : model_(&model), batch_(batch), dtype_(dtype) {}

void LanguageDecoder::Reset() {
  states_.clear();
  for (const LanguageBlock& block : model_->blocks_) {
    states_.push_back(block.InitialState(batch_, dtype_, model_->device()));
  }
  position_ = 0;
}

Tensor LanguageDecoder::Prefill(const Tensor& tokens) {
  TOST_CHECK(Tape::Current() == nullptr) << "decoding has no gradient";
  TOST_CHECK_EQ(tokens.shape()[0], batch_) << "decoder batch";
  const int64_t count = tokens.shape()[1];
  TOST_CHECK(count >= 1 && count <= model_->config().context)
      << "prefill of " << count << " tokens into a context of " << model_->config().context;
  Reset();
  Tensor x = model_->Embed(tokens, 0, dtype_);
  for (size_t i = 0; i < states_.size(); ++i) x = model_->blocks_[i].Prefill(x, states_[i]);
  position_ = count;
  return LogitsOf(ops::Slice(x, 1, count - 1, count));
}

Tensor LanguageDecoder::Step(const Tensor& tokens) {
  TOST_CHECK(Tape::Current() == nullptr) << "decoding has no gradient";
  TOST_CHECK_LT(position_, model_->config().context) << "the context is full";
  TOST_CHECK(!states_.empty()) << "Step before Prefill";
  Tensor x = model_->Embed(tokens.Reshaped({batch_, 1}), position_, dtype_)
                 .Reshaped({batch_, model_->config().width});
  for (size_t i = 0; i < states_.size(); ++i) {
    x = model_->blocks_[i].Step(x, states_[i], position_);
  }
  ++position_;
  return LogitsOf(x);
}

TargetScores LanguageDecoder::Continue(const Tensor& tokens, const Tensor& targets,
                                       int64_t candidates) {
  TOST_CHECK(Tape::Current() == nullptr) << "decoding has no gradient";
  TOST_CHECK(model_->config().mixer == Mixer::kTssa) << "only TSSA has a state without positions";
  TOST_CHECK_EQ(tokens.shape()[0], batch_) << "decoder batch";
  if (states_.empty()) Reset();
  const int64_t count = tokens.shape()[1], last = model_->config().context - 1;
  std::vector<int32_t> clamped;
  for (int64_t t = 0; t < count; ++t) {
    clamped.push_back(static_cast<int32_t>(std::min(position_ + t, last)));
  }
  const Tensor positions = Tensor::FromHost({count}, clamped, tokens.device());
  Tensor x = ops::Embedding(tokens, model_->wte_->In(dtype_),
                            ops::IndexSelect(model_->wpe_->In(dtype_), 0, positions));
  for (size_t i = 0; i < states_.size(); ++i) {
    x = model_->blocks_[i].Continue(x, states_[i], positions);
  }
  position_ += count;
  return ScoreTargets(model_->ln_f_(x), model_->wte_->In(dtype_), targets, candidates);
}

Tensor LanguageDecoder::LogitsOf(const Tensor& x) const {
  const Tensor features = model_->ln_f_(x.Reshaped({batch_, model_->config().width}));
  return ops::Linear(features, model_->wte_->In(dtype_));
}

}  // namespace tost::models
