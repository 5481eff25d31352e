#include "cuda/blas.h"
#include "cuda/cross_covariance.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/cross_covariance_attention.h"

namespace tost::cuda {
namespace {

CovarianceProblem ProblemOf(const ops::CrossCovarianceDims& dims) {
  return {.batch = dims.batch,
          .tokens = dims.tokens,
          .heads = static_cast<int>(dims.heads),
          .head_dim = static_cast<int>(dims.head_dim),
          .min_norm = ops::kCrossCovarianceMinNorm};
}

// A matrix of every pair: that of the first, and how far the others are, in elements.
template <class T>
struct PairMatrices {
  T* first;
  int64_t row, sample, head;
};

// c = op(a) op(b) for every pair: one batched product for each head or, where they are fewer, for
// each sample.
template <class In, class Out>
void MultiplyPairs(const CovarianceProblem& on, Product product, const PairMatrices<const In>& a,
                   const PairMatrices<const In>& b, const PairMatrices<Out>& c) {
  const bool heads_inside = on.heads > on.batch;
  const auto inner = [&](const auto& x) { return heads_inside ? x.head : x.sample; };
  const auto outer = [&](const auto& x) { return heads_inside ? x.sample : x.head; };
  product.operands = kDTypeOf<In>;
  product.result = kDTypeOf<Out>;
  product.a_stride = a.row;
  product.b_stride = b.row;
  product.c_stride = c.row;
  product.batches = heads_inside ? on.heads : on.batch;
  product.a_batch = inner(a);
  product.b_batch = inner(b);
  product.c_batch = inner(c);
  const int64_t calls = heads_inside ? on.batch : on.heads;
  for (int64_t i = 0; i < calls; ++i) {
    Multiply(product, a.first + i * outer(a), b.first + i * outer(b), nullptr,
             c.first + i * outer(c), ComputeStream());
  }
}

// Part 0, 1 or 2 (queries, keys, values) of qkv, [tokens, head_dim] for each pair.
template <class T>
PairMatrices<T> Part(const CovarianceProblem& on, T* qkv, int part) {
  const int64_t row = 3 * on.width();
  return {qkv + part * on.width(), row, on.tokens * row, on.head_dim};
}
// A tensor like y.
template <class T>
PairMatrices<T> OfY(const CovarianceProblem& on, T* y) {
  return {y, on.width(), on.tokens * on.width(), on.head_dim};
}
// [head_dim, head_dim] for each pair.
template <class T>
PairMatrices<T> ByChannels(const CovarianceProblem& on, T* matrix) {
  const int64_t size = int64_t{on.head_dim} * on.head_dim;
  return {matrix, on.head_dim, on.heads * size, size};
}

Product TokensByChannels(const CovarianceProblem& on) {
  return {.m = on.tokens, .n = on.head_dim, .k = on.head_dim};
}
// Over the tokens: op(a) = aᵀ.
Product ChannelsByChannels(const CovarianceProblem& on) {
  return {.m = on.head_dim, .n = on.head_dim, .k = on.tokens, .transpose_a = true};
}

void CrossCovariance(const ops::CrossCovarianceDims& dims, const Tensor& qkv,
                     const Tensor& temperature, Tensor& y, ops::CrossCovarianceSaved& saved) {
  if (y.numel() == 0) return;
  const CovarianceProblem on = ProblemOf(dims);
  Tensor rounded = Tensor::Empty(saved.probabilities.shape(), qkv.dtype(), qkv.device()), partial;
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const T* data = qkv.data<T>();
    S* norms = saved.norms.mutable_data<S>();
    S* correlation = saved.correlation.mutable_data<S>();
    T* p = rounded.mutable_data<T>();
    LaunchChannelNorms(on, data, norms, ComputeStream(), [&](int64_t count) {
      partial = Tensor::Empty({count}, kDTypeOf<S>, qkv.device());
      return partial.mutable_data<S>();
    });
    MultiplyPairs(on, ChannelsByChannels(on), Part(on, data, 0), Part(on, data, 1),
                  ByChannels(on, correlation));
    LaunchCovarianceSoftmax(on, temperature.data<S>(), norms, correlation,
                            saved.probabilities.mutable_data<S>(), p, ComputeStream());
    Product output = TokensByChannels(on);
    output.transpose_b = true;
    MultiplyPairs(on, output, Part(on, data, 2), ByChannels<const T>(on, p),
                  OfY(on, y.mutable_data<T>()));
  });
}

// The gradients of queries, keys and values from those of P and of the raw products.
template <class T>
void SpreadGradient(const CovarianceProblem& on, const T* qkv, const T* dy,
                    const CovarianceGradient<T>& gradient, bool add, T* dqkv) {
  Product product = TokensByChannels(on);
  product.add = add;
  const auto dg = ByChannels<const T>(on, gradient.rounded);
  MultiplyPairs(on, product, OfY(on, dy), ByChannels<const T>(on, gradient.rounded_p),
                Part(on, dqkv, 2));
  MultiplyPairs(on, product, Part(on, qkv, 0), dg, Part(on, dqkv, 1));
  product.transpose_b = true;
  MultiplyPairs(on, product, Part(on, qkv, 1), dg, Part(on, dqkv, 0));
  VisitPack<T>(PacksFit<T>(on.head_dim, qkv, dqkv), [&]<int kPack>() {
    LaunchCovariancePull<T, kPack>(on, gradient.pull, qkv, dqkv, ComputeStream());
  });
}

void CrossCovarianceBackward(const ops::CrossCovarianceDims& dims, const Tensor& qkv,
                             const Tensor& temperature, const ops::CrossCovarianceSaved& saved,
                             const Tensor& dy, bool add, Tensor* dqkv, Tensor& dtemperature) {
  const CovarianceProblem on = ProblemOf(dims);
  const auto scratch = [&](const Tensor& like, DType dtype) {
    return Tensor::Empty(like.shape(), dtype, qkv.device());
  };
  const DType sums = AccumulateDType(qkv.dtype());
  Tensor matrix = scratch(saved.correlation, sums), pull = scratch(saved.norms, sums);
  Tensor dg = scratch(saved.correlation, qkv.dtype()), p = scratch(saved.correlation, qkv.dtype());
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const T *data = qkv.data<T>(), *gradients = dy.data<T>();
    const CovarianceGradient<T> gradient{.temperature = temperature.data<S>(),
                                         .norms = saved.norms.data<S>(),
                                         .correlation = saved.correlation.data<S>(),
                                         .probabilities = saved.probabilities.data<S>(),
                                         .matrix = matrix.mutable_data<S>(),
                                         .rounded = dg.mutable_data<T>(),
                                         .rounded_p = p.mutable_data<T>(),
                                         .pull = pull.mutable_data<S>(),
                                         .dtemperature = dtemperature.mutable_data<S>()};
    MultiplyPairs(on, ChannelsByChannels(on), OfY(on, gradients), Part(on, data, 2),
                  ByChannels(on, gradient.matrix));
    LaunchCovarianceBackward(on, gradient, ComputeStream());
    if (dqkv == nullptr) return;
    SpreadGradient(on, data, gradients, gradient, add, dqkv->mutable_data<T>());
  });
}

}  // namespace

void InstallCrossCovarianceKernels() {
  ops::cross_covariance_kernel.Install(DeviceType::kCuda, &CrossCovariance);
  ops::cross_covariance_backward_kernel.Install(DeviceType::kCuda, &CrossCovarianceBackward);
}

}  // namespace tost::cuda
