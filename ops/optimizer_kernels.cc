#include "ops/optimizer_kernels.h"

#include <cstring>
#include <vector>

#include "ops/cpu/optimizer_kernels.h"

namespace tost::ops {

constinit Kernel<SquaredNormFn> squared_norm_kernel{"squared norm", &cpu::SquaredNorm};
constinit Kernel<BeginUpdateFn> begin_update_kernel{"begin update", &cpu::BeginUpdate};
constinit Kernel<AdamWFn> adamw_kernel{"adamw", &cpu::AdamW};
constinit Kernel<SgdFn> sgd_kernel{"sgd", &cpu::Sgd};
constinit Kernel<ExponentialMovingAverageFn> exponential_moving_average_kernel{
    "exponential moving average", &cpu::ExponentialMovingAverage};

namespace {

void RequireSameSize(const Tensor& a, const Tensor& b, const char* what) {
  TOST_CHECK_EQ(a.numel(), b.numel()) << what;
  TOST_CHECK(a.dtype() == b.dtype()) << what << ": " << a.dtype() << " and " << b.dtype();
}

void RequireScalars(const Tensor& tensor, int64_t count, const char* what) {
  TOST_CHECK(tensor.dtype() == DType::kFloat64 && tensor.numel() == count)
      << what << " is " << tensor.dtype() << " " << tensor.shape() << ", expected " << count
      << " float64";
}

}  // namespace

void SquaredNorm(const Tensor& x, bool add, Tensor& sum) {
  RequireScalars(sum, 1, "SquaredNorm: the sum");
  squared_norm_kernel.On(x.device().type)(x, add, sum);
}

Tensor NewUpdateScalars(Device device, int64_t updates) {
  const UpdateScalars scalars{.gradient_norm = 0,
                              .finite = 1,
                              .clip_factor = 1,
                              .updates = static_cast<double>(updates),
                              .correction1 = 1,
                              .correction2 = 1};
  std::vector<double> values(kUpdateScalars);
  std::memcpy(values.data(), &scalars, sizeof(scalars));
  return Tensor::FromHost<double>({kUpdateScalars}, values, device);
}

UpdateScalars ReadUpdateScalars(const Tensor& update) {
  RequireScalars(update, kUpdateScalars, "ReadUpdateScalars: the tensor");
  UpdateScalars scalars;
  std::memcpy(&scalars, update.ToHost<double>().data(), sizeof(scalars));
  return scalars;
}

void BeginUpdate(const UpdateRule& rule, const Tensor& squares, Tensor& update) {
  RequireScalars(squares, 1, "BeginUpdate: the squared norm");
  RequireScalars(update, kUpdateScalars, "BeginUpdate: the update");
  begin_update_kernel.On(update.device().type)(rule, squares, update);
}

void AdamW(const AdamWStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
           Tensor& first, Tensor& second, Tensor& compute) {
  RequireScalars(update, kUpdateScalars, "AdamW: the update");
  RequireSameSize(value, gradient, "AdamW: value and gradient");
  RequireSameSize(value, first, "AdamW: value and first moment");
  RequireSameSize(value, second, "AdamW: value and second moment");
  TOST_CHECK(!compute.defined() || compute.numel() == value.numel()) << "AdamW: compute copy";
  adamw_kernel.On(value.device().type)(options, update, gradient, value, first, second, compute);
}

void Sgd(const SgdStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
         Tensor& momentum, Tensor& compute) {
  RequireScalars(update, kUpdateScalars, "Sgd: the update");
  RequireSameSize(value, gradient, "Sgd: value and gradient");
  RequireSameSize(value, momentum, "Sgd: value and momentum");
  TOST_CHECK(!compute.defined() || compute.numel() == value.numel()) << "Sgd: compute copy";
  sgd_kernel.On(value.device().type)(options, update, gradient, value, momentum, compute);
}

void ExponentialMovingAverage(double decay, const Tensor& update, const Tensor& value,
                              Tensor& average) {
  RequireSameSize(value, average, "ExponentialMovingAverage");
  exponential_moving_average_kernel.On(value.device().type)(decay, update, value, average);
}

}  // namespace tost::ops
