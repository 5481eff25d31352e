// Patches of pictures and back (ops/conv2d.h): gathers, so that every sum has one order.
#ifndef TOST_CUDA_CONV2D_CUH_
#define TOST_CUDA_CONV2D_CUH_

#include "cuda/elementwise.cuh"
#include "cuda/gpu.h"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kConvThreads = 256;

// x [batch, height, width, channels], patches [batch, out_height, out_width, kernel, kernel,
// channels]. All extents but the batch count in 32 bits, and so does a row of patches.
struct ConvProblem {
  int64_t batch;
  int height, width, channels, out_height, out_width, kernel, stride, padding;

  __host__ __device__ int64_t patch_size() const { return int64_t{kernel} * kernel * channels; }
};

// A block is one row of patches; a thread owns every 256th of its packs.
template <class T, int kPack>
__global__ void __launch_bounds__(kConvThreads)
    UnfoldKernel(ConvProblem on, const T* x, T* patches) {
  const int64_t row = blockIdx.x, picture = row / on.out_height;
  const int i = static_cast<int>(row % on.out_height);
  const int packs = on.channels / kPack, patch_packs = on.kernel * on.kernel * packs;
  x += picture * on.height * on.width * on.channels;
  patches += row * on.out_width * on.patch_size();
  for (int at = threadIdx.x; at < on.out_width * patch_packs; at += kConvThreads) {
    const int j = at / patch_packs, within = at % patch_packs;
    const int uv = within / packs, c = within % packs * kPack;
    const int h = i * on.stride + uv / on.kernel - on.padding;
    const int w = j * on.stride + uv % on.kernel - on.padding;
    Numbers<Sum<T>, kPack> numbers{};
    if (h >= 0 && h < on.height && w >= 0 && w < on.width) {
      numbers = LoadPack<kPack>(x + (int64_t{h} * on.width + w) * on.channels + c);
    }
    StorePack<kPack>(patches + int64_t{at} * kPack, numbers);
  }
}

// The outputs i in [first, last) whose windows hold a position: i·s <= position + p < i·s + kernel.
struct Windows {
  int first, last;

  __device__ Windows(const ConvProblem& on, int position, int outputs) {
    const int padded = position + on.padding;
    first = padded < on.kernel ? 0 : (padded - on.kernel) / on.stride + 1;
    last = min(outputs, padded / on.stride + 1);
  }
};

// A block is one row of pixels; a thread owns every 256th of its packs and adds the patches that
// read them.
template <class T, int kPack>
__global__ void __launch_bounds__(kConvThreads)
    FoldKernel(ConvProblem on, const T* patches, bool add, T* x) {
  const int64_t row = blockIdx.x, picture = row / on.height;
  const int h = static_cast<int>(row % on.height), packs = on.channels / kPack;
  patches += picture * on.out_height * on.out_width * on.patch_size();
  x += row * on.width * on.channels;
  const Windows rows(on, h, on.out_height);
  for (int at = threadIdx.x; at < on.width * packs; at += kConvThreads) {
    const int w = at / packs, c = at % packs * kPack;
    const Windows columns(on, w, on.out_width);
    Numbers<Sum<T>, kPack> sums{};
    for (int i = rows.first; i < rows.last; ++i) {
      const int u = h + on.padding - i * on.stride;
      for (int j = columns.first; j < columns.last; ++j) {
        const int v = w + on.padding - j * on.stride;
        const int64_t patch = int64_t{i} * on.out_width + j;
        const auto numbers = LoadPack<kPack>(patches + patch * on.patch_size() +
                                             (u * on.kernel + v) * on.channels + c);
#pragma unroll
        for (int e = 0; e < kPack; ++e) sums[e] += numbers[e];
      }
    }
    StoreResult<kPack>(x + int64_t{at} * kPack, sums, add);
  }
}

// Reads x once for each window position over it, out of the cache but for the first; writes the
// patches once.
template <class T, int kPack>
void LaunchUnfold(const ConvProblem& on, const T* x, T* patches, cudaStream_t stream) {
  gpu::Launch(UnfoldKernel<T, kPack>, dim3(static_cast<unsigned>(on.batch * on.out_height)),
              dim3(kConvThreads), 0, stream, on, x, patches);
}

// Reads the patches once, writes x once.
template <class T, int kPack>
void LaunchFold(const ConvProblem& on, const T* patches, bool add, T* x, cudaStream_t stream) {
  gpu::Launch(FoldKernel<T, kPack>, dim3(static_cast<unsigned>(on.batch * on.height)),
              dim3(kConvThreads), 0, stream, on, patches, add, x);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CONV2D_CUH_
