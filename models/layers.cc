#include "models/layers.h"

#include <cmath>

#include "ops/batch_norm.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace tost::models {
namespace {

// Undefined when the layer has no bias.
Tensor BiasOf(const Parameter* bias) { return bias == nullptr ? Tensor() : bias->value(); }

}  // namespace

LinearLayer::LinearLayer(ParameterScope scope, int64_t in, int64_t out, Options options) {
  const bool uniform = options.init == Start::kUniform;
  const Init spread = Init::Uniform(1 / std::sqrt(static_cast<float>(in)));
  weight_ = &scope.Add("weight", {out, in}, uniform ? spread : Init::Normal(options.deviation),
                       Decay::kYes);
  if (options.bias) {
    bias_ = &scope.Add("bias", {out}, uniform ? spread : Init::Zeros(), Decay::kNo);
  }
}

Tensor LinearLayer::operator()(const Tensor& x) const {
  return ops::Linear(x, weight_->In(x.dtype()), BiasOf(bias_));
}

Tensor LinearLayer::Gelu(const Tensor& x) const {
  return ops::LinearGelu(x, weight_->In(x.dtype()), BiasOf(bias_));
}

LayerNormLayer::LayerNormLayer(ParameterScope scope, int64_t width, bool bias, float epsilon)
    : weight_(&scope.Add("weight", {width}, Init::Ones(), Decay::kNo)), epsilon_(epsilon) {
  if (bias) bias_ = &scope.Add("bias", {width}, Init::Zeros(), Decay::kNo);
}

Tensor LayerNormLayer::operator()(const Tensor& x) const {
  return ops::LayerNorm(x, weight_->value(), BiasOf(bias_), epsilon_);
}

BatchNormLayer::BatchNormLayer(ParameterScope scope, int64_t width)
    : weight_(&scope.Add("weight", {width}, Init::Ones(), Decay::kNo)),
      bias_(&scope.Add("bias", {width}, Init::Zeros(), Decay::kNo)),
      mean_(&scope.AddState("running_mean", {width}, Init::Zeros())),
      variance_(&scope.AddState("running_var", {width}, Init::Ones())) {}

Tensor BatchNormLayer::operator()(const Tensor& x, const Pass& pass) const {
  ops::BatchNormState state{mean_->value(), variance_->value()};
  const ops::BatchNormOptions options{.sum = pass.statistics_sum};
  if (pass.training) return ops::BatchNorm(x, weight_->value(), bias_->value(), options, state);
  return ops::BatchNormEvaluation(x, weight_->value(), bias_->value(), options.epsilon, state);
}

LayerScale::LayerScale(ParameterScope scope, absl::string_view name, int64_t width, float initial)
    : gamma_(&scope.Add(name, {width}, Init::Constant(initial), Decay::kNo)) {}

Tensor LayerScale::AddTo(const Tensor& x, const Tensor& y) const {
  return ops::ScaledResidual(x, gamma_->value(), y);
}

Mlp::Mlp(ParameterScope scope, int64_t width, Options options)
    : up_(scope / options.up, width, 4 * width, {.bias = options.bias}),
      down_(scope / options.down, 4 * width, width,
            {.bias = options.bias, .deviation = options.projection_deviation}),
      gelu_(options.gelu) {}

Tensor Mlp::operator()(const Tensor& x, Pass& pass) const {
  const Tensor hidden = gelu_ == GeluForm::kExact ? up_.Gelu(x) : ops::GeluTanh(up_(x));
  return ops::Dropout(down_(hidden), pass.DropoutRate(), pass.random.Next());
}

IstaLayer::IstaLayer(ParameterScope scope, int64_t width, ops::IstaOptions options)
    : dictionary_(&scope.Add("weight", {width, width},
                             Init::Uniform(std::sqrt(6 / static_cast<float>(width))), Decay::kYes)),
      options_(options) {}

Tensor IstaLayer::operator()(const Tensor& x) const {
  return ops::Ista(x, dictionary_->In(x.dtype()), options_);
}

}  // namespace tost::models
