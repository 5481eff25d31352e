// CRATE image classifiers (Yu et al. 2023, "White-box transformers via sparse rate reduction";
// model/crate.py of Ma-Lab-Berkeley/CRATE, whose names the parameters bear).
//
//   x = [cls_token, embed(patches)] + pos_embedding                    [B, 1 + N, C]
//   x = x + to_out(MSSA(norm(x)));  x = ISTA(norm(x))                  for each block
//   logits = mlp_head(x[0])
#ifndef TOST_MODELS_CRATE_H_
#define TOST_MODELS_CRATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/layers.h"

namespace tost::models {

struct CrateConfig {
  int64_t image_size = 224;  // pixels in both directions; positions are learned for it alone
  int patch = 16;            // pixels of a token in both directions
  int width = 384;
  int depth = 12;
  int heads = 6;
  int64_t classes = 1000;
  double step = 0.1;      // η of ISTA
  double sparsity = 0.1;  // λ of ISTA

  // Tokens of a picture, the class token not counted.
  int64_t patches() const { return (image_size / patch) * (image_size / patch); }
  // Every rule that the constructor relies on, as one line naming the setting.
  absl::Status Validate() const;
  friend bool operator==(const CrateConfig&, const CrateConfig&) = default;
};

// Multi-head subspace self-attention: softmax attention whose queries, keys and values are one
// projection w per head, softmax(w wᵀ / √d) w, and a linear map. Declares `qkv.weight` [C, C] (one
// projection, whatever its name says) and `to_out.0.*`.
class SubspaceAttention {
 public:
  SubspaceAttention(ParameterScope scope, const CrateConfig& config);
  Tensor operator()(const Tensor& x, Pass& pass) const;  // [B, N, C]

 private:
  int heads_;
  LinearLayer in_, out_;
};

// Declares `0.norm.*`, `0.fn.*` (attention), `1.norm.*`, `1.fn.weight` (dictionary). Nothing is
// added to what ISTA gives.
class CrateBlock {
 public:
  CrateBlock(ParameterScope scope, const CrateConfig& config);
  // `block` is this block's number, for the probe.
  Tensor operator()(const Tensor& x, Pass& pass, int block) const;

 private:
  LayerNormLayer norm1_;
  SubspaceAttention mixer_;
  LayerNormLayer norm2_;
  IstaLayer ista_;
};

class CrateModel {
 public:
  // Declares all parameters below `scope`. CHECKs config.Validate().
  CrateModel(ParameterScope scope, const CrateConfig& config);

  // images [B, H, W, 3], channels last, H = W = image_size (CHECKed), → what the last linear layer
  // reads [B, C], in pass.compute_dtype.
  Tensor Features(const Tensor& images, Pass& pass) const;
  Tensor Head(const Tensor& features) const;  // [B, C] → logits [B, classes]

  const CrateConfig& config() const { return config_; }

 private:
  Tensor Embed(const Tensor& images, const Pass& pass) const;  // [B, 1 + N, C]

  CrateConfig config_;
  LayerNormLayer patch_norm_;
  LinearLayer patch_projection_;
  LayerNormLayer token_norm_;
  Parameter* positions_;
  Parameter* cls_token_;
  std::vector<CrateBlock> blocks_;
  LayerNormLayer norm_;
  LinearLayer head_;
};

}  // namespace tost::models

#endif  // TOST_MODELS_CRATE_H_
