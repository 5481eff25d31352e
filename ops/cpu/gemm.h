// Matrix products on the CPU. gemm.cc is the only caller of the GEMM library.
#ifndef TOST_OPS_CPU_GEMM_H_
#define TOST_OPS_CPU_GEMM_H_

#include <cstdint>
#include <string>

#include "autograd/base/bfloat16.h"

namespace tost::ops::cpu {

// A row-major operand: `stride` elements from one stored row to the next. With `transposed` the
// product sees the transpose of what is stored.
template <class T>
struct MatrixView {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

// c[m, n] = a[m, k] · b[k, n], added to what is in c when `add`. `c_stride` elements per row of c.
// T is float, double or bfloat16; bfloat16 products are summed in float and rounded once, after the
// addition to c. The order of every element's sum depends on m, n and k only, never on the number
// of threads. Called inside a ParallelFor it runs on the calling thread.
template <class T>
void Gemm(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, bool add, T* c,
          int64_t c_stride);

// The product of bfloat16 operands as float, not rounded.
void Gemm(int64_t m, int64_t n, int64_t k, MatrixView<bfloat16> a, MatrixView<bfloat16> b, bool add,
          float* c, int64_t c_stride);

// Name and version of the library behind the float product: "oneDNN 2.6.3".
std::string GemmLibrary();

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_GEMM_H_
