// Image classifiers: ToST, and ViT and XCiT with the same stem, positions and class-attention
// blocks, as in the official tost_vision/tost.py and vit.py.
//
//   x = stem(image) + positions                                        [B, N, C]
//   x = x + γ1 ⊙ mixer(norm1(x));  x = x + γ2 ⊙ mlp(norm2(x))          for each block
//                        or, in the paper's ablation,  x = ista(norm2(x))
//   x = [cls_token, x];  the class token reads the others              for each class block
//   logits = head(norm(x)[0])
#ifndef TOST_MODELS_VISION_MODEL_H_
#define TOST_MODELS_VISION_MODEL_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "models/layers.h"
#include "ops/tssa.h"

namespace tost::models {

enum class VisionMixer { kTssa, kAttention, kCrossCovariance };  // ToST, ViT, XCiT

// What follows the mixer in a block: an MLP, or CRATE's sparse-coding step in its place.
enum class FeedForward { kMlp, kIsta };

struct VisionConfig {
  VisionMixer mixer = VisionMixer::kTssa;
  FeedForward feed_forward = FeedForward::kMlp;
  bool normalized_memberships = true;  // of TSSA (ops/tssa.h); other mixers have none
  int64_t image_size = 224;            // pixels in both directions
  int patch = 16;                      // pixels of a token in both directions: 4, 8 or 16
  int width = 192;
  int depth = 12;
  int heads = 4;
  int class_blocks = 2;
  float layer_scale = 1;  // initial γ
  // Whether a class-attention block normalises the tokens that it carries along as well as the
  // class token (tokens_norm in the official code, on in all its models).
  bool normalize_all_tokens = true;
  int64_t classes = 1000;

  // Every rule that the constructor relies on, as one line naming the setting.
  absl::Status Validate() const;
  friend bool operator==(const VisionConfig&, const VisionConfig&) = default;
};

// 3×3 convolutions of stride 2, each with batch norm and, but for the last, GELU: every one halves
// the picture (rounded up) and the last gives the width. Declares `proj.<2s>.0.weight` and
// `proj.<2s>.1.*` for stage s.
class ConvStem {
 public:
  ConvStem(ParameterScope scope, const VisionConfig& config);
  Tensor operator()(const Tensor& images, const Pass& pass) const;  // [B, H, W, 3] → [B, h, w, C]

 private:
  struct Stage {
    Parameter* weight;
    BatchNormLayer norm;
  };
  std::vector<Stage> stages_;
};

// Fourier features of a token's row and column, and a linear map of them. Declares
// `token_projection.weight` [C, 64, 1, 1] and `.bias` [C].
class FourierPositions {
 public:
  FourierPositions(ParameterScope scope, int64_t width);
  Tensor operator()(int64_t rows, int64_t columns) const;  // [rows · columns, C], float32
  // With v = 2π r / (rows + 1e-6), r = 1 … rows, and θ_k = 10000^(2⌊k/2⌋/32): feature k < 32 of a
  // token in row r is sin(v/θ_k) for even k and cos(v/θ_k) for odd k; features 32 … 63 are those of
  // its column. [rows · columns, 64] float32.
  static Tensor Features(int64_t rows, int64_t columns);

 private:
  Parameter* weight_;
  Parameter* bias_;
};

// TSSA between its projections: to_out(Tssa(qkv(x))). Declares `temp` [H, 1], `qkv.*` (one
// projection, whatever its name says) and `to_out.0.*`.
class TssaMixer {
 public:
  TssaMixer(ParameterScope scope, const VisionConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  Parameter* temp_;
  ops::TssaOptions options_;
  LinearLayer in_, out_;
};

// Softmax attention over tokens (`qkv.*`, `proj.*`).
class SoftmaxMixer {
 public:
  SoftmaxMixer(ParameterScope scope, const VisionConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  int heads_;
  LinearLayer in_, out_;
};

// Cross-covariance attention (`temperature` [H, 1, 1], `qkv.*`, `proj.*`).
class CrossCovarianceMixer {
 public:
  CrossCovarianceMixer(ParameterScope scope, const VisionConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  Parameter* temperature_;
  LinearLayer in_, out_;
};

// With an MLP: `gamma1`, `gamma2`, `norm1.*`, `attn.*`, `norm2.*`, `mlp.fc1.*`, `mlp.fc2.*`. With
// ISTA: its dictionary `mlp.weight` in the MLP's place, and no `gamma2`: nothing is added to what
// ISTA gives, as in CRATE.
class VisionBlock {
 public:
  VisionBlock(ParameterScope scope, const VisionConfig& config);
  // `block` is this block's number, for the probe.
  Tensor operator()(const Tensor& x, Pass& pass, int block) const;

 private:
  struct ScaledMlp {
    LayerScale gamma2;
    Mlp mlp;
  };
  static std::variant<ScaledMlp, IstaLayer> MakeFeedForward(ParameterScope scope,
                                                            const VisionConfig& config);

  LayerScale gamma1_;
  LayerNormLayer norm1_;
  std::variant<TssaMixer, SoftmaxMixer, CrossCovarianceMixer> mixer_;
  LayerNormLayer norm2_;
  std::variant<ScaledMlp, IstaLayer> feed_forward_;
};

// The class token, token 0, reads all tokens; the others are carried along as the official code
// carries them, which its weights have learnt to expect:
//   u = norm1(x);  x = x + γ1 ⊙ [proj(ClassAttention(qkv(u))), u_1, u_2, …];  x = norm2(x)
//   x_0 = x_0 + γ2 ⊙ mlp(x_0);  x_j = 2 x_j for the others
// Without normalize_all_tokens, norm2 acts on x_0 alone.
class ClassAttentionBlock {
 public:
  ClassAttentionBlock(ParameterScope scope, const VisionConfig& config);
  Tensor operator()(const Tensor& x, Pass& pass) const;  // [B, 1 + N, C]

 private:
  int heads_;
  bool normalize_all_;
  LayerScale gamma1_, gamma2_;
  LayerNormLayer norm1_;
  LinearLayer in_, out_;
  LayerNormLayer norm2_;
  Mlp mlp_;
};

class VisionModel {
 public:
  // Declares all parameters below `scope`. CHECKs config.Validate().
  VisionModel(ParameterScope scope, const VisionConfig& config);

  // images [B, H, W, 3], channels last, → what the last linear layer reads [B, C], in
  // pass.compute_dtype. Any H and W will do: positions are functions of the place.
  Tensor Features(const Tensor& images, Pass& pass) const;
  Tensor Head(const Tensor& features) const;  // [B, C] → logits [B, classes]

  const VisionConfig& config() const { return config_; }

 private:
  VisionConfig config_;
  Parameter* cls_token_;
  ConvStem stem_;
  FourierPositions positions_;
  std::vector<VisionBlock> blocks_;
  std::vector<ClassAttentionBlock> class_blocks_;
  LayerNormLayer norm_;
  LinearLayer head_;
};

}  // namespace tost::models

#endif  // TOST_MODELS_VISION_MODEL_H_
