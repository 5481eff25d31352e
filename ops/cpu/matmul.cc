#include "ops/cpu/matmul.h"

#include <array>
#include <vector>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/gemm.h"
#include "ops/matmul_products.h"

namespace tost::ops::cpu {
namespace {

template <class T, class Out>
void Run(const MatmulProducts& p, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  const int64_t a_columns = a.shape()[-1], b_columns = b.shape()[-1];
  const int64_t a_size = a.shape()[-2] * a_columns, b_size = b.shape()[-2] * b_columns;
  const int64_t c_size = c.shape()[-2] * c.shape()[-1];
  const T *const a_data = a.data<T>(), *const b_data = b.data<T>();
  Out* const c_data = c.mutable_data<Out>();
  auto multiply = [&](const std::array<int64_t, 3>& offsets, bool add) {
    Gemm(p.m, p.n, p.k, MatrixView<T>{a_data + offsets[0] * a_size, a_columns, form.transpose_a},
         MatrixView<T>{b_data + offsets[1] * b_size, b_columns, form.transpose_b}, add,
         c_data + offsets[2] * c_size, p.n);
  };
  if (p.Sums()) {
    // One after the other, the parallelism being inside each product.
    std::vector<bool> written(static_cast<size_t>(c.numel() / c_size), form.add);
    for (int64_t i = 0; i < p.count; ++i) {
      const std::array<int64_t, 3> offsets = p.Offsets(i);
      const auto target = static_cast<size_t>(offsets[2]);
      multiply(offsets, written[target]);
      written[target] = true;
    }
    return;
  }
  // Multiply-adds from which one product keeps all threads busy by itself.
  constexpr int64_t kLarge = int64_t{1} << 25;
  const int64_t work = p.m * p.n * p.k;
  if (work >= kLarge) {
    for (int64_t i = 0; i < p.count; ++i) multiply(p.Offsets(i), form.add);
    return;
  }
  ParallelFor(p.count, RowGrain(work / 16), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) multiply(p.Offsets(i), form.add);
  });
}

}  // namespace

void Matmul(MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  if (c.numel() == 0) return;
  const MatmulProducts products(form.transpose_a, form.transpose_b, a.shape(), b.shape(),
                                c.shape());
  VisitFloat(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(c.dtype(), [&](auto out) { Run<T, decltype(out)>(products, form, a, b, c); });
  });
}

}  // namespace tost::ops::cpu
