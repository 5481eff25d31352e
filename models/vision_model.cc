#include "models/vision_model.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "autograd/recompute.h"
#include "ops/attention.h"
#include "ops/class_attention.h"
#include "ops/conv2d.h"
#include "ops/cross_covariance_attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/linear.h"

namespace tost::models {
namespace {

constexpr float kLayerNormEpsilon = 1e-6f;
constexpr float kTokenDeviation = 0.02f;
constexpr int64_t kColours = 3;
constexpr int64_t kKernel = 3;
constexpr int64_t kFeatures = 32;  // of each coordinate

constexpr Mlp::Options kMlp{.up = "fc1", .down = "fc2"};

absl::Status Positive(absl::string_view name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 1, got ", value));
}

// PyTorch's default for convolutions.
Init ConvInit(int64_t fan_in) { return Init::Uniform(1 / std::sqrt(static_cast<float>(fan_in))); }

int StagesOf(const VisionConfig& config) {
  return std::countr_zero(static_cast<unsigned>(config.patch));
}

std::variant<TssaMixer, SoftmaxMixer, CrossCovarianceMixer> MakeMixer(ParameterScope scope,
                                                                      const VisionConfig& config) {
  switch (config.mixer) {
    case VisionMixer::kTssa:
      return TssaMixer(scope, config);
    case VisionMixer::kAttention:
      return SoftmaxMixer(scope, config);
    default:
      return CrossCovarianceMixer(scope, config);
  }
}

const VisionConfig& Checked(const VisionConfig& config) {
  TOST_CHECK_OK(config.Validate());
  return config;
}

// Tokens [first, last) of x [B, N, C].
Tensor Tokens(const Tensor& x, int64_t first, int64_t last) {
  return ops::Slice(x, 1, first, last);
}

}  // namespace

absl::Status VisionConfig::Validate() const {
  TOST_RETURN_IF_ERROR(Positive("depth", depth));
  TOST_RETURN_IF_ERROR(Positive("heads", heads));
  TOST_RETURN_IF_ERROR(Positive("width", width));
  TOST_RETURN_IF_ERROR(Positive("image_size", image_size));
  TOST_RETURN_IF_ERROR(Positive("class_blocks", class_blocks));
  TOST_RETURN_IF_ERROR(Positive("classes", classes));
  if (patch != 4 && patch != 8 && patch != 16) {
    return absl::InvalidArgumentError(absl::StrCat("patch must be 4, 8 or 16, got ", patch));
  }
  if (width % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("width ", width, " is not a multiple of heads ", heads));
  }
  const int narrowing = patch / 2;  // the first stage's share of the width
  if (width % narrowing != 0) {
    return absl::InvalidArgumentError(absl::StrCat("width ", width, " is not a multiple of ",
                                                   narrowing, ", which patch ", patch, " needs"));
  }
  return absl::OkStatus();
}

ConvStem::ConvStem(ParameterScope scope, const VisionConfig& config) {
  const int stages = StagesOf(config);
  int64_t in = kColours;
  for (int s = 0; s < stages; ++s) {
    const int64_t out = config.width >> (stages - 1 - s);
    const ParameterScope stage = scope / "proj" / absl::StrCat(2 * s);
    Parameter& weight = (stage / "0")
                            .Add("weight", {out, in, kKernel, kKernel},
                                 ConvInit(in * kKernel * kKernel), Decay::kYes);
    stages_.push_back({&weight, BatchNormLayer(stage / "1", out)});
    in = out;
  }
}

Tensor ConvStem::operator()(const Tensor& images, const Pass& pass) const {
  Tensor x = images;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (s > 0) x = ops::Gelu(x);
    x = ops::Conv2d(x, stages_[s].weight->In(x.dtype()), {.stride = 2, .padding = 1});
    x = stages_[s].norm(x, pass);
  }
  return x;
}

FourierPositions::FourierPositions(ParameterScope scope, int64_t width)
    : weight_(
          &(scope / "token_projection")
               .Add("weight", {width, 2 * kFeatures, 1, 1}, ConvInit(2 * kFeatures), Decay::kYes)),
      bias_(
          &(scope / "token_projection").Add("bias", {width}, ConvInit(2 * kFeatures), Decay::kNo)) {
}

Tensor FourierPositions::Features(int64_t rows, int64_t columns) {
  constexpr double kBase = 10000, kEpsilon = 1e-6;
  std::vector<float> features;
  features.reserve(static_cast<size_t>(rows * columns * 2 * kFeatures));
  const auto add = [&](int64_t index, int64_t count) {
    const double v = 2 * std::numbers::pi * static_cast<double>(index + 1) /
                     (static_cast<double>(count) + kEpsilon);
    for (int64_t k = 0; k < kFeatures; ++k) {
      const double theta =
          std::pow(kBase, static_cast<double>(k / 2 * 2) / static_cast<double>(kFeatures));
      features.push_back(
          static_cast<float>(k % 2 == 0 ? std::sin(v / theta) : std::cos(v / theta)));
    }
  };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      add(r, rows);
      add(c, columns);
    }
  }
  return Tensor::FromHost<float>({rows * columns, 2 * kFeatures}, features);
}

Tensor FourierPositions::operator()(int64_t rows, int64_t columns) const {
  const Shape matrix{weight_->shape()[0], weight_->shape()[1]};
  return ops::Linear(Features(rows, columns).To(bias_->value().device()),
                     ops::Reshape(weight_->value(), matrix), bias_->value());
}

TssaMixer::TssaMixer(ParameterScope scope, const VisionConfig& config)
    : temp_(&scope.Add("temp", {config.heads, 1}, Init::Ones(), Decay::kNo)),
      options_{.normalized = config.normalized_memberships},
      in_(scope / "qkv", config.width, config.width, {}),
      out_(scope / "to_out" / "0", config.width, config.width, {}) {}

Tensor TssaMixer::operator()(const Tensor& x) const {
  return out_(ops::Tssa(in_(x), temp_->value(), /*mask=*/{}, options_));
}

SoftmaxMixer::SoftmaxMixer(ParameterScope scope, const VisionConfig& config)
    : heads_(config.heads),
      in_(scope / "qkv", config.width, 3 * config.width, {}),
      out_(scope / "proj", config.width, config.width, {}) {}

Tensor SoftmaxMixer::operator()(const Tensor& x) const {
  return out_(ops::Attention(in_(x), {.heads = heads_}));
}

CrossCovarianceMixer::CrossCovarianceMixer(ParameterScope scope, const VisionConfig& config)
    : temperature_(&scope.Add("temperature", {config.heads, 1, 1}, Init::Ones(), Decay::kNo)),
      in_(scope / "qkv", config.width, 3 * config.width, {}),
      out_(scope / "proj", config.width, config.width, {}) {}

Tensor CrossCovarianceMixer::operator()(const Tensor& x) const {
  return out_(ops::CrossCovarianceAttention(in_(x), temperature_->value()));
}

std::variant<VisionBlock::ScaledMlp, IstaLayer> VisionBlock::MakeFeedForward(
    ParameterScope scope, const VisionConfig& config) {
  if (config.feed_forward == FeedForward::kIsta) return IstaLayer(scope / "mlp", config.width, {});
  return ScaledMlp{LayerScale(scope, "gamma2", config.width, config.layer_scale),
                   Mlp(scope / "mlp", config.width, kMlp)};
}

VisionBlock::VisionBlock(ParameterScope scope, const VisionConfig& config)
    : gamma1_(scope, "gamma1", config.width, config.layer_scale),
      norm1_(scope / "norm1", config.width, /*bias=*/true, kLayerNormEpsilon),
      mixer_(MakeMixer(scope / "attn", config)),
      norm2_(scope / "norm2", config.width, /*bias=*/true, kLayerNormEpsilon),
      feed_forward_(MakeFeedForward(scope, config)) {}

Tensor VisionBlock::operator()(const Tensor& x, Pass& pass, int block) const {
  const auto kept = [&](const Tensor& branch) {
    return ops::DropPath(branch, pass.DropPathRate(), pass.random.Next());
  };
  const auto show = [&](const char* name, const Tensor& value) {
    if (pass.probe != nullptr) (*pass.probe)(block, name, value);
  };
  show("tokens", x);
  const Tensor mixed = std::visit([&](const auto& mixer) { return mixer(norm1_(x)); }, mixer_);
  show("mixer", mixed);
  const Tensor middle = gamma1_.AddTo(x, kept(mixed));
  if (const auto* ista = std::get_if<IstaLayer>(&feed_forward_)) {
    const Tensor sparse = (*ista)(norm2_(middle));
    show("ista", sparse);
    return sparse;
  }
  const auto& [gamma2, mlp] = std::get<ScaledMlp>(feed_forward_);
  const Tensor branch = mlp(norm2_(middle), pass);
  show("mlp", branch);
  return gamma2.AddTo(middle, kept(branch));
}

ClassAttentionBlock::ClassAttentionBlock(ParameterScope scope, const VisionConfig& config)
    : heads_(config.heads),
      normalize_all_(config.normalize_all_tokens),
      gamma1_(scope, "gamma1", config.width, config.layer_scale),
      gamma2_(scope, "gamma2", config.width, config.layer_scale),
      norm1_(scope / "norm1", config.width, /*bias=*/true, kLayerNormEpsilon),
      in_(scope / "attn" / "qkv", config.width, 3 * config.width, {}),
      out_(scope / "attn" / "proj", config.width, config.width, {}),
      norm2_(scope / "norm2", config.width, /*bias=*/true, kLayerNormEpsilon),
      mlp_(scope / "mlp", config.width, kMlp) {}

Tensor ClassAttentionBlock::operator()(const Tensor& x, Pass& pass) const {
  const int64_t batch = x.shape()[0], tokens = x.shape()[1], width = x.shape()[2];
  const Tensor u = norm1_(x);
  const Tensor read = ops::Reshape(out_(ops::ClassAttention(in_(u), heads_)), {batch, 1, width});
  const Tensor y = gamma1_.AddTo(x, ops::Concat({read, Tokens(u, 1, tokens)}, 1));
  // Each token is normalised by itself, so the order of cutting and normalising does not matter.
  const Tensor token = norm2_(Tokens(y, 0, 1)), others = Tokens(y, 1, tokens);
  const Tensor carried = normalize_all_ ? norm2_(others) : others;
  return ops::Concat({gamma2_.AddTo(token, mlp_(token, pass)), carried * 2}, 1);
}

VisionModel::VisionModel(ParameterScope scope, const VisionConfig& config)
    : config_(Checked(config)),
      cls_token_(
          &scope.Add("cls_token", {1, 1, config.width}, Init::Normal(kTokenDeviation), Decay::kNo)),
      stem_(scope / "patch_embed", config),
      positions_(scope / "pos_embeder", config.width),
      norm_(scope / "norm", config.width, /*bias=*/true, kLayerNormEpsilon),
      head_(scope / "head", config.width, config.classes, {}) {
  for (int i = 0; i < config.depth; ++i) {
    blocks_.emplace_back(scope / "blocks" / absl::StrCat(i), config);
  }
  for (int i = 0; i < config.class_blocks; ++i) {
    class_blocks_.emplace_back(scope / "cls_attn_blocks" / absl::StrCat(i), config);
  }
}

Tensor VisionModel::Features(const Tensor& images, Pass& pass) const {
  const DType dtype = pass.compute_dtype;
  const Tensor grid = stem_(ops::Cast(images, dtype), pass);
  const int64_t batch = grid.shape()[0], rows = grid.shape()[1], columns = grid.shape()[2];
  const int64_t width = config_.width;
  Tensor x = ops::Reshape(grid, {batch, rows * columns, width}) +
             ops::Cast(positions_(rows, columns), dtype);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto block = [this, i](const Tensor& input, Pass& block_pass) {
      return blocks_[i](input, block_pass, static_cast<int>(i));
    };
    x = pass.recompute ? Recompute(block, x, pass) : block(x, pass);
  }
  const Tensor token = ops::BroadcastTo(ops::Cast(cls_token_->value(), dtype), {batch, 1, width});
  x = ops::Concat({token, x}, 1);
  for (const ClassAttentionBlock& block : class_blocks_) x = block(x, pass);
  return ops::Reshape(norm_(Tokens(x, 0, 1)), {batch, width});
}

Tensor VisionModel::Head(const Tensor& features) const { return head_(features); }

}  // namespace tost::models
