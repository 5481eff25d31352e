#include "cuda/install.h"
#include "cuda/runtime.h"
#include "cuda/tssa_adapter.h"
#include "cuda/tssa_backward.cuh"

namespace tost::cuda {
namespace {

void TssaBackward(const ops::TssaInputs& in, const ops::TssaSaved& saved, const Tensor& dy,
                  const ops::TssaGradients& gradients) {
  Tensor chunk_sums = TssaChunkSums(in);
  Tensor correlation = TssaSequenceSums(in), shares = TssaSequenceSums(in);
  Tensor logit_gradients = TssaTensor(in, saved.memberships.shape());
  VisitDeviceFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const TssaBackwardArguments<T> arguments{
        .extents = ExtentsOf(in.dims),
        .w = in.w.data<T>(),
        .dy = dy.data<T>(),
        .temp = in.temp.data<S>(),
        .mask = DataOrNull<S>(in.mask),
        .memberships = saved.memberships.data<S>(),
        .energy = DataOrNull<S>(saved.energy),
        .weighted = saved.weighted_energy.data<S>(),
        .chunk_sums = chunk_sums.template mutable_data<S>(),
        .correlation = correlation.template mutable_data<S>(),
        .shares = shares.template mutable_data<S>(),
        .logit_gradients = logit_gradients.template mutable_data<S>(),
        .dw = DataOrNull<T>(gradients.w),
        .dw_add = gradients.w.add,
        .dtemp = DataOrNull<S>(gradients.temp),
        .dtemp_add = gradients.temp.add};
    const auto launch = [&](auto pack) {
      LaunchTssaBackward<pack.value>(arguments, ComputeStream());
    };
    WithTssaPack<T>(in, launch, arguments.w, arguments.dy, arguments.dw, arguments.mask);
  });
}

}  // namespace

void InstallTssaBackwardKernels() {
  ops::tssa_backward_kernel.Install(DeviceType::kCuda, &TssaBackward);
}

}  // namespace tost::cuda
