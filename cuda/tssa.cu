#include "cuda/install.h"
#include "cuda/runtime.h"
#include "cuda/tssa.cuh"
#include "cuda/tssa_adapter.h"

namespace tost::cuda {
namespace {

void Tssa(const ops::TssaInputs& in, Tensor& y, ops::TssaSaved& saved) {
  saved.memberships = TssaTensor(in, {in.dims.batch, in.dims.tokens, in.dims.heads});
  if (in.normalized) saved.energy = TssaSequenceSums(in);
  saved.weighted_energy = TssaSequenceSums(in);  // with the mass in the same rows
  Tensor chunk_sums = TssaChunkSums(in);
  VisitDeviceFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const TssaArguments<T> arguments{
        .extents = ExtentsOf(in.dims),
        .w = in.w.data<T>(),
        .temp = in.temp.data<S>(),
        .mask = DataOrNull<S>(in.mask),
        .y = y.mutable_data<T>(),
        .memberships = saved.memberships.template mutable_data<S>(),
        .energy = in.normalized ? saved.energy.template mutable_data<S>() : nullptr,
        .weighted = saved.weighted_energy.template mutable_data<S>(),
        .chunk_sums = chunk_sums.template mutable_data<S>()};
    const auto launch = [&](auto pack) { LaunchTssa<pack.value>(arguments, ComputeStream()); };
    WithTssaPack<T>(in, launch, arguments.w, arguments.y, arguments.mask);
  });
}

}  // namespace

void InstallTssaKernels() { ops::tssa_kernel.Install(DeviceType::kCuda, &Tssa); }

}  // namespace tost::cuda
