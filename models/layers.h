// The layers that all models share. A layer is a plain struct: it declares its parameters where it
// is made and is called like a function.
#ifndef TOST_MODELS_LAYERS_H_
#define TOST_MODELS_LAYERS_H_

#include "autograd/parameter.h"
#include "autograd/tensor.h"
#include "models/pass.h"
#include "ops/ista.h"

namespace tost::models {

// y = x wᵀ + b. Declares `weight` [out, in], decayed, and `bias` [out] if any.
class LinearLayer {
 public:
  // weight ~ N(0, deviation²) and bias 0, or both uniform in ±1/√in (PyTorch's own default).
  enum class Start { kNormal, kUniform };
  struct Options {
    bool bias = true;
    float deviation = 0.02f;
    Start init = Start::kNormal;
  };
  LinearLayer(ParameterScope scope, int64_t in, int64_t out, Options options);

  Tensor operator()(const Tensor& x) const;  // [..., in] → [..., out]
  Tensor Gelu(const Tensor& x) const;        // GELU(x wᵀ + b), exact erf form, one fused op
  int64_t width() const { return weight_->shape()[0]; }  // out

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

// Layer normalisation over the last extent. Declares `weight` = 1 and `bias` = 0 if any.
class LayerNormLayer {
 public:
  LayerNormLayer(ParameterScope scope, int64_t width, bool bias, float epsilon);
  Tensor operator()(const Tensor& x) const;

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  float epsilon_;
};

// Batch normalisation over the last extent: in training over the rows of this pass, whose
// statistics it remembers for the rest (ops/batch_norm.h). Declares `weight` = 1 and `bias` = 0,
// and the states `running_mean` = 0 and `running_var` = 1.
class BatchNormLayer {
 public:
  BatchNormLayer(ParameterScope scope, int64_t width);
  Tensor operator()(const Tensor& x, const Pass& pass) const;

 private:
  Parameter* weight_;
  Parameter* bias_;
  State* mean_;
  State* variance_;
};

// LayerScale: x + γ ⊙ y. Declares `name` [width] = initial value (γ in the paper and official
// code).
class LayerScale {
 public:
  LayerScale(ParameterScope scope, absl::string_view name, int64_t width, float initial);
  Tensor AddTo(const Tensor& x, const Tensor& y) const;

 private:
  Parameter* gamma_;
};

// The form of GELU: with erf, as ToST and nanoGPT have it, or with tanh, as OpenAI's GPT-2 has it.
// They differ by up to 5e-4.
enum class GeluForm { kExact, kTanh };

// Linear(C, 4C), GELU, Linear(4C, C), dropout. Declares `<up>.*` and `<down>.*`.
class Mlp {
 public:
  struct Options {
    const char* up = "c_fc";
    const char* down = "c_proj";
    bool bias = true;
    float projection_deviation = 0.02f;
    GeluForm gelu = GeluForm::kExact;
  };
  Mlp(ParameterScope scope, int64_t width, Options options);
  Tensor operator()(const Tensor& x, Pass& pass) const;

 private:
  LinearLayer up_, down_;
  GeluForm gelu_;
};

// One sparse-coding step (ops/ista.h) with a learned dictionary. Declares `weight` [C, C], uniform
// in ±√(6/C) (Kaiming), decayed.
class IstaLayer {
 public:
  IstaLayer(ParameterScope scope, int64_t width, ops::IstaOptions options);
  Tensor operator()(const Tensor& x) const;  // [..., C]

 private:
  Parameter* dictionary_;
  ops::IstaOptions options_;
};

}  // namespace tost::models

#endif  // TOST_MODELS_LAYERS_H_
