// The arithmetic of optimizers element by element, and the few numbers that all elements of an
// update share. Usable by a kernel for any device, like ops/unary_functors.h.
#ifndef TOST_OPS_OPTIMIZER_FUNCTORS_H_
#define TOST_OPS_OPTIMIZER_FUNCTORS_H_

#include <cstdint>

#include "autograd/base/bfloat16.h"
#include "ops/functor_math.h"

namespace tost::ops {

// What decides the numbers below.
struct UpdateRule {
  double clip_norm = 0;  // largest norm of the whole gradient; 0: no clipping
  double beta1 = 0;      // AdamW's, for its bias correction
  double beta2 = 0;
};

// What the kernels of one update share and only the device knows in time: the elements of a float64
// tensor [kUpdateScalars], kept from update to update.
struct UpdateScalars {
  double gradient_norm;  // before clipping
  double finite;         // 0 when the norm is not: then nothing else may change
  double clip_factor;    // min(1, clip_norm / (norm + 1e-6)), as torch's clip_grad_norm_
  double updates;        // made so far, this one included; skipped ones do not count
  double correction1;    // 1 − β1ᵗ, t = updates
  double correction2;    // 1 − β2ᵗ
};
inline constexpr int64_t kUpdateScalars = sizeof(UpdateScalars) / sizeof(double);

// The numbers of the update that follows `before`; squares = Σ g² over the whole gradient.
TOST_HD inline UpdateScalars NextUpdate(const UpdateRule& rule, double squares,
                                        const UpdateScalars& before) {
  UpdateScalars next = before;
  next.gradient_norm = functor::Sqrt(squares);
  next.finite = squares < __builtin_inf() ? 1 : 0;
  if (next.finite == 0) return next;
  const double shrunk = rule.clip_norm / (next.gradient_norm + 1e-6);
  next.clip_factor = rule.clip_norm > 0 && shrunk < 1 ? shrunk : 1;
  next.updates = before.updates + 1;
  next.correction1 = 1 - functor::Power(rule.beta1, next.updates);
  next.correction2 = 1 - functor::Power(rule.beta2, next.updates);
  return next;
}

// One step of AdamW (Loshchilov and Hutter, 2019; torch.optim.AdamW), with ĝ = clip_factor · g:
//   p ← p (1 − lr · weight_decay)
//   m ← β1 m + (1 − β1) ĝ           v ← β2 v + (1 − β2) ĝ²
//   p ← p − lr / (1 − β1ᵗ) · m / (√v / √(1 − β2ᵗ) + ε)
// With weight_decay 0 this is Adam. The betas are those of the UpdateRule.
struct AdamWStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// SGD with momentum, as torch.optim.SGD without dampening, with ĝ = clip_factor · g + weight_decay
// · p:
//   b ← momentum · b + ĝ (b = ĝ at the first update);  p ← p − lr · b
struct SgdStep {
  double learning_rate = 1e-2;
  double momentum = 0.9;
  double weight_decay = 0;
};

namespace functor {

// The factors of AdamWStep, in the type in which a kernel computes.
template <class T>
struct AdamW {
  static constexpr int kMoments = 2;

  AdamW() = default;
  TOST_HD AdamW(const AdamWStep& o, const UpdateScalars& update)
      : keep(static_cast<T>(1 - o.learning_rate * o.weight_decay)),
        beta1(static_cast<T>(o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        rest1(static_cast<T>(1 - o.beta1)),
        rest2(static_cast<T>(1 - o.beta2)),
        clip(static_cast<T>(update.clip_factor)),
        rate(static_cast<T>(o.learning_rate / update.correction1)),
        root(static_cast<T>(1 / Sqrt(update.correction2))),
        epsilon(static_cast<T>(o.epsilon)) {}

  TOST_HD void operator()(T gradient, T& value, T& first, T& second) const {
    const T g = gradient * clip;
    const T m = beta1 * first + rest1 * g;
    const T v = beta2 * second + rest2 * g * g;
    first = m;
    second = v;
    value = value * keep - rate * m / (Sqrt(v) * root + epsilon);
  }

  T keep, beta1, beta2, rest1, rest2, clip, rate, root, epsilon;
};

// Likewise of SgdStep.
template <class T>
struct Sgd {
  static constexpr int kMoments = 1;

  Sgd() = default;
  TOST_HD Sgd(const SgdStep& o, const UpdateScalars& update)
      : keep(static_cast<T>(update.updates == 1 ? 0 : o.momentum)),
        rate(static_cast<T>(o.learning_rate)),
        clip(static_cast<T>(update.clip_factor)),
        decay(static_cast<T>(o.weight_decay)) {}

  TOST_HD void operator()(T gradient, T& value, T& momentum) const {
    const T pull = clip * gradient + decay * value;
    // At the first update the buffer's contents are arbitrary and must not be read.
    momentum = keep == 0 ? pull : keep * momentum + pull;
    value -= rate * momentum;
  }

  T keep, rate, clip, decay;
};

}  // namespace functor
}  // namespace tost::ops

#endif  // TOST_OPS_OPTIMIZER_FUNCTORS_H_
