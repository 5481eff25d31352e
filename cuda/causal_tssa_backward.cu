#include "cuda/causal_tssa_backward.cuh"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "cuda/tssa_adapter.h"

namespace tost::cuda {
namespace {

void CausalTssaBackward(const ops::TssaInputs& in, const ops::TssaSaved& saved, const Tensor& dy,
                        const ops::TssaGradients& gradients) {
  Tensor later = TssaChunkSums(in), later_shares = TssaChunkSums(in);
  Tensor logit_gradients = TssaTensor(in, saved.memberships.shape());
  Tensor temp_sums = TssaTensor(in, {in.dims.batch * ExtentsOf(in.dims).chunks(), in.dims.heads});
  VisitDeviceFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const CausalTssaBackwardArguments<T> arguments{
        .extents = ExtentsOf(in.dims),
        .w = in.w.data<T>(),
        .dy = dy.data<T>(),
        .temp = in.temp.data<S>(),
        .bias = in.denom_bias.data<S>(),
        .bias_stride = in.denom_bias.shape()[1],
        .mask = DataOrNull<S>(in.mask),
        .memberships = saved.memberships.data<S>(),
        .energy = saved.energy.data<S>(),
        .weighted = saved.weighted_energy.data<S>(),
        .later = later.template mutable_data<S>(),
        .later_shares = later_shares.template mutable_data<S>(),
        .logit_gradients = logit_gradients.template mutable_data<S>(),
        .temp_sums = temp_sums.template mutable_data<S>(),
        .dw = DataOrNull<T>(gradients.w),
        .dw_add = gradients.w.add,
        .dtemp = DataOrNull<S>(gradients.temp),
        .dtemp_add = gradients.temp.add,
        .dbias = DataOrNull<S>(gradients.denom_bias),
        .dbias_add = gradients.denom_bias.add};
    const auto launch = [&](auto pack) {
      LaunchCausalTssaBackward<pack.value>(arguments, ComputeStream());
    };
    WithTssaPack<T>(in, launch, arguments.w, arguments.dy, arguments.dw, arguments.mask);
  });
}

}  // namespace

void InstallCausalTssaBackwardKernels() {
  ops::causal_tssa_backward_kernel.Install(DeviceType::kCuda, &CausalTssaBackward);
}

}  // namespace tost::cuda
