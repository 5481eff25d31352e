#include <type_traits>

#include "cuda/blas.h"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/loss.cuh"
#include "cuda/runtime.h"
#include "ops/loss.h"

namespace tost::cuda {
namespace {

int64_t Classes(const Tensor& logits) { return logits.shape()[-1]; }

void CrossEntropyOf(const ops::CrossEntropyOptions& options, const Tensor& logits,
                    const Tensor& targets, Tensor& losses, Tensor& log_sums) {
  VisitDeviceFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    CrossEntropy<T>({options.ignored_target}, options.label_smoothing, logits.data<T>(),
                    targets.data<int32_t>(), logits.shape().Rows(), Classes(logits),
                    losses.mutable_data<Sum<T>>(), log_sums.mutable_data<Sum<T>>(),
                    ComputeStream());
  });
}

void CrossEntropyBackwardOf(const ops::CrossEntropyOptions& options, const Tensor& logits,
                            const Tensor& targets, const Tensor& log_sums, const Tensor& dy,
                            Tensor& dlogits, bool add) {
  VisitDeviceFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    CrossEntropyBackward<T>({options.ignored_target}, options.label_smoothing, logits.data<T>(),
                            targets.data<int32_t>(), log_sums.data<Sum<T>>(), dy.data<Sum<T>>(),
                            logits.shape().Rows(), Classes(logits), add, dlogits.mutable_data<T>(),
                            ComputeStream());
  });
}

void CountTargets(const Tensor& targets, int32_t ignored_target, Tensor& count) {
  VisitDeviceSum(count.dtype(), [&](auto zero) {
    using T = decltype(zero);
    gpu::Launch(&CountTargetsKernel<T>, dim3(1), dim3(kGroupThreads), 0, ComputeStream(),
                targets.data<int32_t>(), targets.numel(), ignored_target, count.mutable_data<T>());
  });
}

void SoftCrossEntropyOf(const Tensor& logits, const Tensor& probabilities, Tensor& losses,
                        Tensor& log_sums) {
  VisitDeviceFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    SoftCrossEntropy<T>(logits.data<T>(), probabilities.data<Sum<T>>(), logits.shape().Rows(),
                        Classes(logits), losses.mutable_data<Sum<T>>(),
                        log_sums.mutable_data<Sum<T>>(), ComputeStream());
  });
}

void SoftCrossEntropyBackwardOf(const Tensor& logits, const Tensor& probabilities,
                                const Tensor& log_sums, double scale, const Tensor& dy,
                                Tensor& dlogits, bool add) {
  VisitDeviceFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    SoftCrossEntropyBackward<T>(scale, logits.data<T>(), probabilities.data<Sum<T>>(),
                                log_sums.data<Sum<T>>(), dy.data<Sum<T>>(), logits.shape().Rows(),
                                Classes(logits), add, dlogits.mutable_data<T>(), ComputeStream());
  });
}

// ---- The vocabulary projection with its loss ----

// Small on the emulated device, so that tests see several chunks.
constexpr int64_t kLossChunk = gpu::kEmulated ? int64_t{1} << 10 : ops::kDeviceLossChunk;

// The operands of one chunk of rows and where its results go.
template <class T>
class ProjectedLoss {
 public:
  using S = Sum<T>;

  ProjectedLoss(const Tensor& x, const Tensor& w, const Tensor& targets, Tensor& losses, Tensor& dx,
                Tensor& dw)
      : rows_(x.shape().Rows()),
        width_(x.shape()[-1]),
        vocabulary_(w.shape()[0]),
        chunk_(ops::LossChunkRows(rows_, vocabulary_, kLossChunk)),
        x_(x.data<T>()),
        w_(w.data<T>()),
        targets_(targets.data<int32_t>()),
        losses_(losses.mutable_data<S>()),
        dx_(dx.defined() ? dx.mutable_data<T>() : nullptr),
        dw_(dw.defined() ? dw.mutable_data<S>() : nullptr),
        logits_(Tensor::Empty({chunk_, vocabulary_}, kDTypeOf<S>, x.device())) {
    if (dx_ == nullptr && dw_ == nullptr) return;
    // Where the types agree a row's gradient takes the place of its logits.
    gradient_ =
        std::is_same_v<T, S> ? logits_ : Tensor::Empty(logits_.shape(), kDTypeOf<T>, x.device());
  }

  void Run() {
    for (int64_t first = 0; first < rows_; first += chunk_) {
      RunChunk(first, std::min(chunk_, rows_ - first));
    }
  }

 private:
  void RunChunk(int64_t first, int64_t rows) {
    const T* x = x_ + first * width_;
    S* logits = logits_.template mutable_data<S>();
    T* gradient = gradient_.defined() ? gradient_.template mutable_data<T>() : nullptr;
    Multiply({.m = rows,
              .n = vocabulary_,
              .k = width_,
              .transpose_b = true,
              .operands = kDTypeOf<T>,
              .result = kDTypeOf<S>,
              .a_stride = width_,
              .b_stride = width_,
              .c_stride = vocabulary_},
             x, w_, nullptr, logits, ComputeStream());
    LossAndGradient<S, T>({ops::CrossEntropyOptions{}.ignored_target}, logits, targets_ + first,
                          rows, vocabulary_, losses_ + first, gradient, ComputeStream());
    if (dx_ != nullptr) {
      Multiply({.m = rows,
                .n = width_,
                .k = vocabulary_,
                .operands = kDTypeOf<T>,
                .result = kDTypeOf<T>,
                .a_stride = vocabulary_,
                .b_stride = width_,
                .c_stride = width_},
               gradient, w_, nullptr, dx_ + first * width_, ComputeStream());
    }
    if (dw_ != nullptr) {
      Multiply({.m = vocabulary_,
                .n = width_,
                .k = rows,
                .transpose_a = true,
                .add = first > 0,
                .operands = kDTypeOf<T>,
                .result = kDTypeOf<S>,
                .a_stride = vocabulary_,
                .b_stride = width_,
                .c_stride = width_},
               gradient, x, nullptr, dw_, ComputeStream());
    }
  }

  int64_t rows_, width_, vocabulary_, chunk_;
  const T* x_;
  const T* w_;
  const int32_t* targets_;
  S* losses_;
  T* dx_;
  S* dw_;
  Tensor logits_;
  Tensor gradient_;
};

void ProjectedCrossEntropy(const Tensor& x, const Tensor& w, const Tensor& targets, Tensor& losses,
                           Tensor& dx, Tensor& dw) {
  TOST_CHECK(x.dtype() == w.dtype()) << "x is " << x.dtype() << ", w " << w.dtype();
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    ProjectedLoss<decltype(zero)>(x, w, targets, losses, dx, dw).Run();
  });
}

void ScaleGradient(const Tensor& x, const Tensor& dy, Tensor& out, bool add) {
  const auto run = [&]<class T, class Out>(T, Out) {
    const ScaledGradient<T, Out> body{
        .x = x.data<T>(), .dy = dy.data<Sum<T>>(), .add = add, .out = out.mutable_data<Out>()};
    constexpr int kPack = kPackWidth<Out>;
    LaunchElements<kPack>(PacksFit<Out>(0, body.x, body.out), x.numel(), ComputeStream(), body);
  };
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    if (x.dtype() == out.dtype()) return run(zero, zero);
    // The float32 gradient of a bfloat16 matrix whose cell is not a parameter's.
    TOST_CHECK(x.dtype() == DType::kFloat32 && out.dtype() == DType::kBFloat16)
        << "gradient of " << out.dtype() << " from " << x.dtype();
    run(float{}, bfloat16{});
  });
}

void SumLosses(const Tensor& losses, double scale, bool add, Tensor& total) {
  const auto run = [&]<class S, class Total>(S, Total) {
    gpu::Launch(&SumLossesKernel<S, Total>, dim3(1), dim3(kGroupThreads), 0, ComputeStream(),
                losses.data<S>(), losses.numel(), scale, add, total.mutable_data<Total>());
  };
  VisitDeviceSum(losses.dtype(), [&](auto zero) {
    if (total.dtype() == losses.dtype()) return run(zero, zero);
    run(zero, double{});
  });
}

}  // namespace

void InstallLossKernels() {
  using enum DeviceType;
  ops::cross_entropy_kernel.Install(kCuda, &CrossEntropyOf);
  ops::cross_entropy_backward_kernel.Install(kCuda, &CrossEntropyBackwardOf);
  ops::count_targets_kernel.Install(kCuda, &CountTargets);
  ops::soft_cross_entropy_kernel.Install(kCuda, &SoftCrossEntropyOf);
  ops::soft_cross_entropy_backward_kernel.Install(kCuda, &SoftCrossEntropyBackwardOf);
  ops::projected_cross_entropy_kernel.Install(kCuda, &ProjectedCrossEntropy);
  ops::scale_gradient_kernel.Install(kCuda, &ScaleGradient);
  ops::sum_losses_kernel.Install(kCuda, &SumLosses);
}

}  // namespace tost::cuda
