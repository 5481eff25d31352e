// The products of cuda/blas.h on the host, in the order of the stream, for the emulated device.
#include <vector>

#include "cuda/blas.h"
#include "ops/cpu/gemm.h"

namespace tost::cuda {
namespace {

template <class T, class Out>
void MultiplyAll(const Product& p, const void* a, const void* b, const void* bias, void* c) {
  for (int64_t i = 0; i < p.batches; ++i) {
    const T* a_matrix = static_cast<const T*>(a) + i * p.a_batch;
    const T* b_matrix = static_cast<const T*>(b) + i * p.b_batch;
    Out* c_matrix = static_cast<Out*>(c) + i * p.c_batch;
    std::vector<Accumulate<T>> sums(static_cast<size_t>(p.m * p.n));
    ops::cpu::Gemm(p.m, p.n, p.k, {a_matrix, p.a_stride, p.transpose_a},
                   ops::cpu::MatrixView<T>{b_matrix, p.b_stride, p.transpose_b}, false, sums.data(),
                   p.n);
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        Out& out = c_matrix[row * p.c_stride + column];
        Accumulate<T> sum =
            static_cast<Accumulate<T>>(p.alpha) * sums[static_cast<size_t>(row * p.n + column)];
        if (p.add) sum += static_cast<Accumulate<T>>(out);
        if (bias != nullptr) sum += static_cast<const Accumulate<T>*>(bias)[column];
        out = static_cast<Out>(sum);
      }
    }
  }
}

}  // namespace

void SetFloat32Products(Float32Products) {}

bool CanAddBias(const Product&) { return true; }

void Multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
              cudaStream_t) {
  VisitFloat(product.operands, [&](auto zero) {
    using T = decltype(zero);
    if (product.result == product.operands) {
      MultiplyAll<T, T>(product, a, b, bias, c);
    } else {
      MultiplyAll<T, Accumulate<T>>(product, a, b, bias, c);
    }
  });
}

}  // namespace tost::cuda
