#include "ops/cpu/loss.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::cpu {
namespace {

// log Σ exp of a row as a sum of two, so that the loss of a row with large logits does not lose
// what cancels between them.
template <class A>
struct SplitLogSum {
  A largest;  // logit
  A rest;     // log Σ exp(logit − largest)

  A sum() const { return largest + rest; }
  // −log softmax of one of the row's logits (or of the mean of several).
  A LossOf(A logit) const { return rest - (logit - largest); }
};

template <class T>
SplitLogSum<Accumulate<T>> LogSumExp(const T* __restrict row, int64_t count) {
  using A = Accumulate<T>;
  A largest = static_cast<A>(row[0]);
#pragma omp simd reduction(max : largest)
  for (int64_t v = 1; v < count; ++v) {
    const A logit = static_cast<A>(row[v]);
    largest = logit > largest ? logit : largest;
  }
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t v = 0; v < count; ++v) sum += Exp(static_cast<A>(row[v]) - largest);
  return {largest, Log(sum)};
}

// Σ (row[v] − shift)
template <class T>
Accumulate<T> Sum(const T* __restrict row, int64_t count, Accumulate<T> shift = 0) {
  using A = Accumulate<T>;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t v = 0; v < count; ++v) sum += static_cast<A>(row[v]) - shift;
  return sum;
}

int32_t CheckedTarget(const int32_t* targets, int64_t row, int64_t classes) {
  const int32_t target = targets[row];
  TOST_CHECK(target >= 0 && target < classes)
      << "target " << target << " of row " << row << " among " << classes << " classes";
  return target;
}

// Calls run(row) for all rows of x, spread by their length.
template <class Run>
void ForEachRow(int64_t rows, int64_t columns, Run&& run) {
  ParallelFor(rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run(row);
  });
}

// Writes a row's loss and, when it is wanted, the gradient of its logits, in whose place it may be.
template <class T, class A>
void LossAndGradientOfRow(const A* logits, int64_t vocabulary, int32_t target, A* loss,
                          T* gradient) {
  const SplitLogSum<A> split = LogSumExp(logits, vocabulary);
  const A log_sum = split.sum();
  *loss = split.LossOf(logits[target]);
  if (gradient == nullptr) return;
  const A at_target = Exp(logits[target] - log_sum) - A{1};
#pragma omp simd
  for (int64_t v = 0; v < vocabulary; ++v) {
    gradient[v] = static_cast<T>(Exp(logits[v] - log_sum));
  }
  gradient[target] = static_cast<T>(at_target);
}

// The operands of one chunk of rows and where its results go.
template <class T>
class ProjectedLoss {
 public:
  using A = Accumulate<T>;

  ProjectedLoss(const Tensor& x, const Tensor& w, const Tensor& targets, Tensor& losses, Tensor& dx,
                Tensor& dw)
      : rows_(x.shape().Rows()),
        width_(x.shape()[-1]),
        vocabulary_(w.shape()[0]),
        chunk_(LossChunkRows(rows_, vocabulary_, kHostLossChunk)),
        x_(x.data<T>()),
        w_(w.data<T>()),
        targets_(targets.data<int32_t>()),
        losses_(losses.mutable_data<A>()),
        dx_(dx.defined() ? dx.mutable_data<T>() : nullptr),
        dw_(dw.defined() ? dw.mutable_data<A>() : nullptr),
        logits_(Tensor::Empty({chunk_, vocabulary_}, kDTypeOf<A>)) {
    const bool gradients = dx_ != nullptr || dw_ != nullptr;
    // Where the types agree a row's gradient takes the place of its logits.
    if (gradients)
      gradient_ = std::is_same_v<T, A> ? logits_ : Tensor::Empty(logits_.shape(), kDTypeOf<T>);
  }

  void Run() {
    for (int64_t first = 0; first < rows_; first += chunk_) {
      RunChunk(first, std::min(chunk_, rows_ - first));
    }
  }

 private:
  void RunChunk(int64_t first, int64_t rows) {
    const MatrixView<T> x{x_ + first * width_, width_};
    A* logits = logits_.template mutable_data<A>();
    T* gradient = gradient_.defined() ? gradient_.template mutable_data<T>() : nullptr;
    Gemm(rows, vocabulary_, width_, x, MatrixView<T>{w_, width_, true}, false, logits, vocabulary_);
    ForEachRow(rows, vocabulary_, [&](int64_t row) {
      T* out = gradient == nullptr ? nullptr : gradient + row * vocabulary_;
      if (targets_[first + row] == CrossEntropyOptions{}.ignored_target) {
        losses_[first + row] = 0;
        if (out != nullptr) std::fill_n(out, vocabulary_, T(0));
        return;
      }
      LossAndGradientOfRow<T, A>(logits + row * vocabulary_, vocabulary_,
                                 CheckedTarget(targets_, first + row, vocabulary_),
                                 losses_ + first + row, out);
    });
    if (dx_ != nullptr) {
      Gemm(rows, width_, vocabulary_, MatrixView<T>{gradient, vocabulary_},
           MatrixView<T>{w_, width_}, false, dx_ + first * width_, width_);
    }
    if (dw_ != nullptr) {
      Gemm(vocabulary_, width_, rows, MatrixView<T>{gradient, vocabulary_, true}, x, first > 0, dw_,
           width_);
    }
  }

  int64_t rows_, width_, vocabulary_, chunk_;
  const T* x_;
  const T* w_;
  const int32_t* targets_;
  A* losses_;
  T* dx_;
  A* dw_;
  Tensor logits_;
  Tensor gradient_;
};

}  // namespace

void CrossEntropy(const CrossEntropyOptions& options, const Tensor& logits, const Tensor& targets,
                  Tensor& losses, Tensor& log_sums) {
  VisitFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = logits.shape().Rows(), classes = logits.shape()[-1];
    const T* data = logits.data<T>();
    const int32_t* ids = targets.data<int32_t>();
    A *loss = losses.mutable_data<A>(), *log_sum = log_sums.mutable_data<A>();
    const A smoothing = static_cast<A>(options.label_smoothing);
    ForEachRow(rows, classes, [&](int64_t r) {
      const T* row = data + r * classes;
      const SplitLogSum<A> split = LogSumExp(row, classes);
      log_sum[r] = split.sum();
      loss[r] = 0;
      if (ids[r] == options.ignored_target) return;
      const A hit = static_cast<A>(row[CheckedTarget(ids, r, classes)]);
      loss[r] = split.LossOf(hit);
      if (smoothing == 0) return;
      const A mean = split.rest - Sum(row, classes, split.largest) / static_cast<A>(classes);
      loss[r] += smoothing * (mean - loss[r]);
    });
  });
}

void CrossEntropyBackward(const CrossEntropyOptions& options, const Tensor& logits,
                          const Tensor& targets, const Tensor& log_sums, const Tensor& dy,
                          Tensor& dlogits, bool add) {
  VisitFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = logits.shape().Rows(), classes = logits.shape()[-1];
    const T* data = logits.data<T>();
    const int32_t* ids = targets.data<int32_t>();
    const A* log_sum = log_sums.data<A>();
    T* gradient = dlogits.mutable_data<T>();
    const A scale = *dy.data<A>();
    const A smoothing = static_cast<A>(options.label_smoothing);
    const A everywhere = smoothing / static_cast<A>(classes);
    ForEachRow(rows, classes, [&](int64_t r) {
      const T* __restrict row = data + r * classes;
      T* __restrict out = gradient + r * classes;
      const bool counts = ids[r] != options.ignored_target;
      const A factor = counts ? scale : A(0);
      const int64_t hit = counts ? ids[r] : -1;
      for (int64_t v = 0; v < classes; ++v) {
        const A target = everywhere + (v == hit ? 1 - smoothing : A(0));
        const A g = factor * (Exp(static_cast<A>(row[v]) - log_sum[r]) - target);
        out[v] = static_cast<T>(add ? static_cast<A>(out[v]) + g : g);
      }
    });
  });
}

void CountTargets(const Tensor& targets, int32_t ignored_target, Tensor& count) {
  const int32_t* ids = targets.data<int32_t>();
  const int64_t ignored = std::count(ids, ids + targets.numel(), ignored_target);
  const int64_t counted = std::max<int64_t>(targets.numel() - ignored, 1);
  VisitFloat(count.dtype(), [&](auto zero) {
    using T = decltype(zero);
    *count.mutable_data<T>() = static_cast<T>(counted);
  });
}

void SoftCrossEntropy(const Tensor& logits, const Tensor& probabilities, Tensor& losses,
                      Tensor& log_sums) {
  VisitFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = logits.shape().Rows(), classes = logits.shape()[-1];
    const T* data = logits.data<T>();
    const A* weights = probabilities.data<A>();
    A *loss = losses.mutable_data<A>(), *log_sum = log_sums.mutable_data<A>();
    ForEachRow(rows, classes, [&](int64_t r) {
      const T* __restrict row = data + r * classes;
      const A* __restrict p = weights + r * classes;
      const SplitLogSum<A> split = LogSumExp(row, classes);
      log_sum[r] = split.sum();
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t v = 0; v < classes; ++v) sum += p[v] * split.LossOf(static_cast<A>(row[v]));
      loss[r] = sum;
    });
  });
}

void SoftCrossEntropyBackward(const Tensor& logits, const Tensor& probabilities,
                              const Tensor& log_sums, double scale, const Tensor& dy,
                              Tensor& dlogits, bool add) {
  VisitFloat(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = logits.shape().Rows(), classes = logits.shape()[-1];
    const T* data = logits.data<T>();
    const A *weights = probabilities.data<A>(), *log_sum = log_sums.data<A>();
    const A factor = static_cast<A>(static_cast<double>(*dy.data<A>()) * scale);
    T* gradient = dlogits.mutable_data<T>();
    ForEachRow(rows, classes, [&](int64_t r) {
      const T* __restrict row = data + r * classes;
      const A* __restrict p = weights + r * classes;
      T* __restrict out = gradient + r * classes;
      const A mass = Sum(p, classes);  // 1, but for rounding
      for (int64_t v = 0; v < classes; ++v) {
        const A softmax = Exp(static_cast<A>(row[v]) - log_sum[r]);
        const A g = factor * (mass * softmax - p[v]);
        out[v] = static_cast<T>(add ? static_cast<A>(out[v]) + g : g);
      }
    });
  });
}

void ProjectedCrossEntropy(const Tensor& x, const Tensor& w, const Tensor& targets, Tensor& losses,
                           Tensor& dx, Tensor& dw) {
  TOST_CHECK(x.dtype() == w.dtype()) << "x is " << x.dtype() << ", w " << w.dtype();
  VisitFloat(x.dtype(), [&](auto zero) {
    ProjectedLoss<decltype(zero)>(x, w, targets, losses, dx, dw).Run();
  });
}

void ScaleGradient(const Tensor& x, const Tensor& dy, Tensor& out, bool add) {
  auto run = [&]<class T, class Out>(T, Out) {
    using A = Accumulate<T>;
    const T* from_all = x.data<T>();
    Out* to_all = out.mutable_data<Out>();
    const A factor = *dy.data<A>();
    ParallelFor(x.numel(), RowGrain(1), [&](int64_t begin, int64_t end) {
      const T* __restrict from = from_all;
      Out* __restrict to = to_all;
      for (int64_t i = begin; i < end; ++i) {
        const A value = factor * static_cast<A>(from[i]);
        to[i] = static_cast<Out>(add ? static_cast<A>(to[i]) + value : value);
      }
    });
  };
  VisitFloat(x.dtype(), [&](auto zero) {
    if (x.dtype() == out.dtype()) return run(zero, zero);
    // The float32 gradient of a bfloat16 matrix whose cell is not a parameter's.
    TOST_CHECK(x.dtype() == DType::kFloat32 && out.dtype() == DType::kBFloat16)
        << "gradient of " << out.dtype() << " from " << x.dtype();
    run(float{}, bfloat16{});
  });
}

void SumLosses(const Tensor& losses, double scale, bool add, Tensor& total) {
  double sum = 0;
  VisitFloat(losses.dtype(), [&](auto zero) {
    const auto* values = losses.data<decltype(zero)>();
    for (int64_t i = 0; i < losses.numel(); ++i) sum += static_cast<double>(values[i]);
  });
  VisitFloat(total.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = total.mutable_data<T>();
    *out = static_cast<T>(add ? static_cast<double>(*out) + sum * scale : sum * scale);
  });
}

}  // namespace tost::ops::cpu
