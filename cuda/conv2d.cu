#include "cuda/conv2d.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/conv2d.h"

namespace tost::cuda {
namespace {

ConvProblem ProblemOf(const ops::Conv2dDims& dims) {
  const auto number = [](int64_t extent) { return static_cast<int>(extent); };
  return {.batch = dims.batch,
          .height = number(dims.height),
          .width = number(dims.width),
          .channels = number(dims.channels),
          .out_height = number(dims.out_height),
          .out_width = number(dims.out_width),
          .kernel = number(dims.kernel),
          .stride = number(dims.stride),
          .padding = number(dims.padding)};
}

void Unfold(const ops::Conv2dDims& dims, const Tensor& x, Tensor& patches) {
  if (patches.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = patches.mutable_data<T>();
    VisitPack<T>(PacksFit<T>(dims.channels, x.data<T>(), out), [&]<int kPack>() {
      LaunchUnfold<T, kPack>(ProblemOf(dims), x.data<T>(), out, ComputeStream());
    });
  });
}

void Fold(const ops::Conv2dDims& dims, const Tensor& patches, bool add, Tensor& x) {
  if (x.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = x.mutable_data<T>();
    VisitPack<T>(PacksFit<T>(dims.channels, patches.data<T>(), out), [&]<int kPack>() {
      LaunchFold<T, kPack>(ProblemOf(dims), patches.data<T>(), add, out, ComputeStream());
    });
  });
}

// Filters are [Cout, Cin, K, K] on the official side, [Cout, K, K, Cin] in patches. Reads and
// writes them once.
void RearrangeConvWeight(const ops::Conv2dDims& dims, const ops::ConvWeightLayout& layout,
                         const Tensor& from, Tensor& to) {
  if (to.numel() == 0) return;
  const int64_t window = dims.kernel * dims.kernel;
  const int64_t inner = layout.back ? window : dims.channels;
  const int64_t outer = layout.back ? dims.channels : window;
  AxisWalk<1> walk;
  walk.AddOutermost(1, {1});  // neighbours in `to` are none in `from`
  walk.AddOutermost(inner, {outer});
  walk.AddOutermost(outer, {1});
  walk.AddOutermost(dims.out_channels, {dims.patch_size()});
  VisitDeviceFloat(from.dtype(), [&](auto from_zero) {
    VisitDeviceFloat(to.dtype(), [&](auto to_zero) {
      Map(walk, to.numel(), Scaled{1}, layout.add, to.mutable_data<decltype(to_zero)>(),
          ComputeStream(), from.data<decltype(from_zero)>());
    });
  });
}

}  // namespace

void InstallConv2dKernels() {
  ops::unfold_kernel.Install(DeviceType::kCuda, &Unfold);
  ops::fold_kernel.Install(DeviceType::kCuda, &Fold);
  ops::rearrange_conv_weight_kernel.Install(DeviceType::kCuda, &RearrangeConvWeight);
}

}  // namespace tost::cuda
