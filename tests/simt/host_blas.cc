// The products of cuda/blas.h on the host, in the order of the stream, for the emulated device.
#include <vector>

#include "cuda/blas.h"
#include "cuda/blas_library.h"
#include "ops/cpu/gemm.h"
#include "tests/simt/emulator.h"

namespace tost::cuda {
namespace {

// The rows of a matrix of `columns` elements each, as the device's memory checks see them.
template <class T, class Check>
void ForEachRow(T* matrix, int64_t rows, int64_t columns, int64_t stride, const Check& check) {
  for (int64_t row = 0; row < rows; ++row) {
    check(matrix + row * stride, static_cast<size_t>(columns) * sizeof(T));
  }
}

template <class T>
void CheckOperand(const T* matrix, int64_t rows, int64_t columns, int64_t stride, bool transposed) {
  ForEachRow(matrix, transposed ? columns : rows, transposed ? rows : columns, stride,
             [](const T* row, size_t bytes) { simt::DeviceReads(row, bytes); });
}

template <class T, class Out>
void MultiplyOne(const Product& p, const T* a, const T* b, const void* bias, Out* c) {
  CheckOperand(a, p.m, p.k, p.a_stride, p.transpose_a);
  CheckOperand(b, p.k, p.n, p.b_stride, p.transpose_b);
  if (p.add) CheckOperand(c, p.m, p.n, p.c_stride, false);
  std::vector<Accumulate<T>> sums(static_cast<size_t>(p.m * p.n));
  ops::cpu::Gemm(p.m, p.n, p.k, {a, p.a_stride, p.transpose_a},
                 ops::cpu::MatrixView<T>{b, p.b_stride, p.transpose_b}, false, sums.data(), p.n);
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      Out& out = c[row * p.c_stride + column];
      Accumulate<T> sum =
          static_cast<Accumulate<T>>(p.alpha) * sums[static_cast<size_t>(row * p.n + column)];
      if (p.add) sum += static_cast<Accumulate<T>>(out);
      if (bias != nullptr) sum += static_cast<const Accumulate<T>*>(bias)[column];
      out = static_cast<Out>(sum);
    }
  }
  ForEachRow(c, p.m, p.n, p.c_stride,
             [](Out* row, size_t bytes) { simt::DeviceWrites(row, bytes); });
}

template <class T, class Out>
void MultiplyAll(const Product& p, const void* a, const void* b, const void* bias, void* c) {
  if (bias != nullptr) {
    simt::DeviceReads(bias, static_cast<size_t>(p.n) * sizeof(Accumulate<T>));
  }
  for (int64_t i = 0; i < p.batches; ++i) {
    MultiplyOne(p, static_cast<const T*>(a) + i * p.a_batch,
                static_cast<const T*>(b) + i * p.b_batch, bias,
                static_cast<Out*>(c) + i * p.c_batch);
  }
}

}  // namespace

void SetFloat32Products(Float32Products) {}

absl::Status OpenBlasLibrary() { return absl::OkStatus(); }

bool CanAddBias(const Product& product, const void*, const void*, const void*) {
  return product.result != DType::kBFloat16;
}

void Multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
              cudaStream_t stream) {
  simt::Enqueue(stream, [product, a, b, bias, c] {
    VisitFloat(product.operands, [&](auto zero) {
      using T = decltype(zero);
      if (product.result == product.operands) {
        MultiplyAll<T, T>(product, a, b, bias, c);
      } else {
        MultiplyAll<T, Accumulate<T>>(product, a, b, bias, c);
      }
    });
  });
}

}  // namespace tost::cuda
