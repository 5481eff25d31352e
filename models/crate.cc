#include "models/crate.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "autograd/recompute.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/layout.h"

namespace tost::models {
namespace {

constexpr float kLayerNormEpsilon = 1e-5f;
constexpr int64_t kColours = 3;
constexpr LinearLayer::Options kLinear{.init = LinearLayer::Start::kUniform};

absl::Status Positive(absl::string_view name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 1, got ", value));
}

absl::Status NotNegative(absl::string_view name, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be 0 or more, got ", value));
}

const CrateConfig& Checked(const CrateConfig& config) {
  TOST_CHECK_OK(config.Validate());
  return config;
}

int64_t PatchElements(const CrateConfig& config) {
  return int64_t{config.patch} * config.patch * kColours;
}

}  // namespace

absl::Status CrateConfig::Validate() const {
  TOST_RETURN_IF_ERROR(Positive("depth", depth));
  TOST_RETURN_IF_ERROR(Positive("heads", heads));
  TOST_RETURN_IF_ERROR(Positive("width", width));
  TOST_RETURN_IF_ERROR(Positive("image_size", image_size));
  TOST_RETURN_IF_ERROR(Positive("patch", patch));
  TOST_RETURN_IF_ERROR(Positive("classes", classes));
  TOST_RETURN_IF_ERROR(NotNegative("step", step));
  TOST_RETURN_IF_ERROR(NotNegative("sparsity", sparsity));
  if (image_size % patch != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("image_size ", image_size, " is not a multiple of patch ", patch));
  }
  if (width % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("width ", width, " is not a multiple of heads ", heads));
  }
  return absl::OkStatus();
}

SubspaceAttention::SubspaceAttention(ParameterScope scope, const CrateConfig& config)
    : heads_(config.heads),
      in_(scope / "qkv", config.width, config.width,
          {.bias = false, .init = LinearLayer::Start::kUniform}),
      out_(scope / "to_out" / "0", config.width, config.width, kLinear) {}

Tensor SubspaceAttention::operator()(const Tensor& x, Pass& pass) const {
  const Tensor w = in_(x);
  const Tensor y = out_(ops::Attention(ops::Concat({w, w, w}, 2), {.heads = heads_}));
  return ops::Dropout(y, pass.DropoutRate(), pass.random.Next());
}

CrateBlock::CrateBlock(ParameterScope scope, const CrateConfig& config)
    : norm1_(scope / "0" / "norm", config.width, /*bias=*/true, kLayerNormEpsilon),
      mixer_(scope / "0" / "fn", config),
      norm2_(scope / "1" / "norm", config.width, /*bias=*/true, kLayerNormEpsilon),
      ista_(scope / "1" / "fn", config.width, {.step = config.step, .sparsity = config.sparsity}) {}

Tensor CrateBlock::operator()(const Tensor& x, Pass& pass, int block) const {
  const auto show = [&](const char* name, const Tensor& value) {
    if (pass.probe != nullptr) (*pass.probe)(block, name, value);
  };
  show("tokens", x);
  const Tensor mixed = mixer_(norm1_(x), pass);
  show("mixer", mixed);
  const Tensor middle = x + ops::DropPath(mixed, pass.DropPathRate(), pass.random.Next());
  const Tensor sparse = ista_(norm2_(middle));
  show("ista", sparse);
  return sparse;
}

CrateModel::CrateModel(ParameterScope scope, const CrateConfig& config)
    : config_(Checked(config)),
      patch_norm_(scope / "to_patch_embedding" / "1", PatchElements(config), /*bias=*/true,
                  kLayerNormEpsilon),
      patch_projection_(scope / "to_patch_embedding" / "2", PatchElements(config), config.width,
                        kLinear),
      token_norm_(scope / "to_patch_embedding" / "3", config.width, /*bias=*/true,
                  kLayerNormEpsilon),
      positions_(&scope.Add("pos_embedding", {1, 1 + config.patches(), config.width},
                            Init::Normal(1), Decay::kNo)),
      cls_token_(&scope.Add("cls_token", {1, 1, config.width}, Init::Normal(1), Decay::kNo)),
      norm_(scope / "mlp_head" / "0", config.width, /*bias=*/true, kLayerNormEpsilon),
      head_(scope / "mlp_head" / "1", config.width, config.classes, kLinear) {
  for (int i = 0; i < config.depth; ++i) {
    blocks_.emplace_back(scope / "transformer" / "layers" / absl::StrCat(i), config);
  }
}

Tensor CrateModel::Embed(const Tensor& images, const Pass& pass) const {
  const int64_t batch = images.shape()[0], size = config_.image_size, patch = config_.patch;
  TOST_CHECK(images.shape() == Shape({batch, size, size, kColours}))
      << "CRATE: images are " << images.shape() << " but positions are known for " << size << " x "
      << size << " pixels of 3 colours";
  const int64_t rows = size / patch, width = config_.width;
  // A patch's elements in the order row, column, colour.
  const Tensor grid = ops::Permute(
      ops::Reshape(images, {batch, rows, patch, rows, patch, kColours}), {0, 1, 3, 2, 4, 5});
  const Tensor patches = ops::Reshape(grid, {batch, config_.patches(), PatchElements(config_)});
  const DType dtype = pass.compute_dtype;
  const Tensor tokens = token_norm_(patch_projection_(patch_norm_(ops::Cast(patches, dtype))));
  const Tensor token = ops::BroadcastTo(ops::Cast(cls_token_->value(), dtype), {batch, 1, width});
  return ops::Concat({token, tokens}, 1) + ops::Cast(positions_->value(), dtype);
}

Tensor CrateModel::Features(const Tensor& images, Pass& pass) const {
  const int64_t batch = images.shape()[0];
  Tensor x = ops::Dropout(Embed(images, pass), pass.DropoutRate(), pass.random.Next());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto block = [this, i](const Tensor& input, Pass& block_pass) {
      return blocks_[i](input, block_pass, static_cast<int>(i));
    };
    x = pass.recompute ? Recompute(block, x, pass) : block(x, pass);
  }
  return norm_(ops::Reshape(ops::Slice(x, 1, 0, 1), {batch, config_.width}));
}

Tensor CrateModel::Head(const Tensor& features) const { return head_(features); }

}  // namespace tost::models
