#include "cuda/causal_tssa.cuh"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "cuda/tssa_adapter.h"

namespace tost::cuda {
namespace {

void CausalTssa(const ops::TssaInputs& in, ops::CausalTssaState* state, Tensor& y,
                ops::TssaSaved& saved) {
  saved.memberships = TssaTensor(in, {in.dims.batch, in.dims.tokens, in.dims.heads});
  saved.energy = TssaChunkSums(in);
  saved.weighted_energy = TssaChunkSums(in);  // with the mass in the same rows
  VisitDeviceFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    CausalTssaArguments<T> arguments{.extents = ExtentsOf(in.dims),
                                     .w = in.w.data<T>(),
                                     .temp = in.temp.data<S>(),
                                     .bias = in.denom_bias.data<S>() + in.position,
                                     .bias_stride = in.denom_bias.shape()[1],
                                     .mask = DataOrNull<S>(in.mask),
                                     .y = y.mutable_data<T>(),
                                     .memberships = saved.memberships.template mutable_data<S>(),
                                     .energy = saved.energy.template mutable_data<S>(),
                                     .weighted = saved.weighted_energy.template mutable_data<S>(),
                                     .energy_carry = {},
                                     .weighted_carry = {}};
    if (state != nullptr) {
      arguments.energy_carry.channels = state->energy.template mutable_data<S>();
      arguments.weighted_carry = {state->weighted_energy.template mutable_data<S>(),
                                  state->membership.template mutable_data<S>()};
    }
    const auto launch = [&](auto pack) {
      LaunchCausalTssa<pack.value>(arguments, ComputeStream());
    };
    WithTssaPack<T>(in, launch, arguments.w, arguments.y, arguments.mask);
  });
}

void Step(const ops::TssaInputs& in, ops::CausalTssaState& state, Tensor& y) {
  VisitDeviceFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const CausalTssaStepArguments<T> arguments{
        .extents = ExtentsOf(in.dims),
        .w = in.w.data<T>(),
        .temp = in.temp.data<S>(),
        .bias = in.denom_bias.data<S>() + in.position,
        .bias_stride = in.denom_bias.shape()[1],
        .y = y.mutable_data<T>(),
        .energy = state.energy.template mutable_data<S>(),
        .weighted = state.weighted_energy.template mutable_data<S>(),
        .mass = state.membership.template mutable_data<S>()};
    LaunchCausalTssaStep(arguments, ComputeStream());
  });
}

}  // namespace

void InstallCausalTssaKernels() {
  ops::causal_tssa_kernel.Install(DeviceType::kCuda, &CausalTssa);
  ops::causal_tssa_step_kernel.Install(DeviceType::kCuda, &Step);
}

}  // namespace tost::cuda
