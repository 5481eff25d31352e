#include "cuda/class_attention.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/class_attention.h"

namespace tost::cuda {
namespace {

ClassAttentionProblem ProblemOf(const ops::ClassAttentionDims& dims) {
  return {dims.batch, dims.tokens, static_cast<int>(dims.heads), static_cast<int>(dims.head_dim)};
}

void ClassAttention(const ops::ClassAttentionDims& dims, const Tensor& qkv, Tensor& y, Tensor& p) {
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = y.mutable_data<T>();
    VisitPack<T>(PacksFit<T>(dims.head_dim, qkv.data<T>(), out), [&]<int kPack>() {
      LaunchClassAttention<T, kPack>(ProblemOf(dims), qkv.data<T>(), out, p.mutable_data<Sum<T>>(),
                                     ComputeStream());
    });
  });
}

void ClassAttentionBackward(const ops::ClassAttentionDims& dims, const Tensor& qkv, const Tensor& p,
                            const Tensor& dy, bool add, Tensor& dqkv) {
  Tensor ds = Tensor::Empty(p.shape(), p.dtype(), p.device());
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = dqkv.mutable_data<T>();
    const bool packs = PacksFit<T>(dims.head_dim, qkv.data<T>(), dy.data<T>(), out);
    VisitPack<T>(packs, [&]<int kPack>() {
      LaunchClassAttentionBackward<T, kPack>(ProblemOf(dims), qkv.data<T>(), p.data<Sum<T>>(),
                                             dy.data<T>(), add, ds.mutable_data<Sum<T>>(), out,
                                             ComputeStream());
    });
  });
}

}  // namespace

void InstallClassAttentionKernels() {
  ops::class_attention_kernel.Install(DeviceType::kCuda, &ClassAttention);
  ops::class_attention_backward_kernel.Install(DeviceType::kCuda, &ClassAttentionBackward);
}

}  // namespace tost::cuda
