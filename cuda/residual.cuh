// The residual connection with LayerScale (ops/residual.h).
#ifndef TOST_CUDA_RESIDUAL_CUH_
#define TOST_CUDA_RESIDUAL_CUH_

#include "cuda/column_sums.cuh"
#include "cuda/elements.cuh"

namespace tost::cuda {

// z = x + γ ⊙ y, or x + y without γ
template <class T>
struct ScaledResidualBody {
  int64_t columns;
  const T* x;
  const Sum<T>* gamma;
  const T* y;
  T* z;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    Numbers<Sum<T>, n> sum = LoadPack<n>(x + offset);
    const Numbers<Sum<T>, n> branch = LoadPack<n>(y + offset);
    if (gamma != nullptr) {
      const Numbers<Sum<T>, n> factor = LoadNumbers<n>(gamma + offset % columns);
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += factor[i] * branch[i];
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += branch[i];
    }
    StorePack<n>(z + offset, sum);
  }
};

// Reads x and y once, writes z once.
template <class T>
void ScaledResidual(const T* x, const Sum<T>* gamma, const T* y, int64_t rows, int64_t columns,
                    T* z, cudaStream_t stream) {
  LaunchElements<kPackWidth<T>>(PacksFit<T>(columns, x, gamma, y, z), rows * columns, stream,
                                ScaledResidualBody<T>{columns, x, gamma, y, z});
}

// The terms dz ⊙ y of dγ; on the way dy (+)= γ ⊙ dz where dy is given. y is null when only dy is
// wanted: the terms are then worthless.
template <class T>
struct ScaledResidualTerms {
  int64_t columns;
  const Sum<T>* gamma;
  const T* y;
  const T* dz;
  bool add;
  T* dy;

  template <int n>
  __device__ __forceinline__ Numbers<Sum<T>, n> Term(int64_t row, int64_t column) const {
    const int64_t offset = row * columns + column;
    const Numbers<Sum<T>, n> gradient = LoadPack<n>(dz + offset);
    if (dy != nullptr) StoreOrAdd<n>(dy + offset, Scaled(gradient, column), add);
    Numbers<Sum<T>, n> term = LoadPack<n>(y + offset);
#pragma unroll
    for (int i = 0; i < n; ++i) term[i] *= gradient[i];
    return term;
  }

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    StoreOrAdd<n>(dy + offset, Scaled(LoadPack<n>(dz + offset), offset % columns), add);
  }

 private:
  template <int n>
  __device__ __forceinline__ Numbers<Sum<T>, n> Scaled(Numbers<Sum<T>, n> gradient,
                                                       int64_t column) const {
    const Numbers<Sum<T>, n> factor = LoadNumbers<n>(gamma + column);
#pragma unroll
    for (int i = 0; i < n; ++i) gradient[i] *= factor[i];
    return gradient;
  }
};

// `sums` is null or receives [ranges.count, columns] partial sums of dγ. Reads dz once, y once for
// the sums, writes dy once (and reads it to add).
template <class T>
void ScaledResidualBackward(const ScaledResidualTerms<T>& terms, int64_t rows,
                            const RowRanges& ranges, Sum<T>* sums, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  const bool fit = PacksFit<T>(terms.columns, terms.gamma, terms.y, terms.dz, terms.dy, sums);
  if (sums != nullptr) {
    LaunchColumnSums<kPack>(fit, rows, terms.columns, ranges, false, stream, terms, sums);
  } else {
    LaunchElements<kPack>(fit, rows * terms.columns, stream, terms);
  }
}

// out = x, or out += x
template <class T, class Out>
struct CopyOrAddBody {
  const T* x;
  bool add;
  Out* out;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    StoreOrAdd<n>(out + offset, LoadNumbers<n>(x + offset), add);
  }
};

// Reads x once (and out to add), writes out once.
template <class T, class Out>
void CopyOrAdd(const T* x, int64_t count, bool add, Out* out, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T> < kPackWidth<Out> ? kPackWidth<T> : kPackWidth<Out>;
  LaunchElements<kPack>(PacksFit<T>(kPackWidth<T>, x, out), count, stream,
                        CopyOrAddBody<T, Out>{x, add, out});
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_RESIDUAL_CUH_
