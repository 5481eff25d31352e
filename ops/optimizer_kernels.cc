#include "ops/optimizer_kernels.h"

#include "ops/cpu/optimizer_kernels.h"

namespace tost::ops {

constinit Kernel<SquaredNormFn> squared_norm_kernel{"squared norm", &cpu::SquaredNorm};
constinit Kernel<AdamWFn> adamw_kernel{"adamw", &cpu::AdamW};
constinit Kernel<SgdFn> sgd_kernel{"sgd", &cpu::Sgd};
constinit Kernel<ExponentialMovingAverageFn> exponential_moving_average_kernel{
    "exponential moving average", &cpu::ExponentialMovingAverage};

namespace {

void RequireSameSize(const Tensor& a, const Tensor& b, const char* what) {
  TOST_CHECK_EQ(a.numel(), b.numel()) << what;
  TOST_CHECK(a.dtype() == b.dtype()) << what << ": " << a.dtype() << " and " << b.dtype();
}

}  // namespace

double SquaredNorm(const Tensor& x) { return squared_norm_kernel.On(x.device().type)(x); }

void AdamW(const AdamWStep& options, const Tensor& gradient, Tensor& value, Tensor& first,
           Tensor& second, Tensor& compute) {
  RequireSameSize(value, gradient, "AdamW: value and gradient");
  RequireSameSize(value, first, "AdamW: value and first moment");
  RequireSameSize(value, second, "AdamW: value and second moment");
  TOST_CHECK(!compute.defined() || compute.numel() == value.numel()) << "AdamW: compute copy";
  adamw_kernel.On(value.device().type)(options, gradient, value, first, second, compute);
}

void Sgd(const SgdStep& options, const Tensor& gradient, Tensor& value, Tensor& momentum,
         Tensor& compute) {
  RequireSameSize(value, gradient, "Sgd: value and gradient");
  RequireSameSize(value, momentum, "Sgd: value and momentum");
  sgd_kernel.On(value.device().type)(options, gradient, value, momentum, compute);
}

void ExponentialMovingAverage(double decay, const Tensor& value, Tensor& average) {
  RequireSameSize(value, average, "ExponentialMovingAverage");
  exponential_moving_average_kernel.On(value.device().type)(decay, value, average);
}

}  // namespace tost::ops
