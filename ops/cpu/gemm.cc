#include "ops/cpu/gemm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "autograd/base/parallel.h"
#include "autograd/tensor.h"
#include "dnnl.h"

namespace tost::ops::cpu {
namespace {

// How a product is cut into calls of the GEMM library, from m, n and k alone.
struct Tiling {
  int64_t rows;
  int64_t columns;
  int64_t depth;  // of a K split; k when there is none
};

// Up to here a product is bound by reading b rather than by arithmetic.
constexpr int64_t kFewRows = 32;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `extent` cut into equal pieces of about `target`, each a multiple of 16 (the library's
// registers).
int64_t Piece(int64_t extent, int64_t target) {
  const int64_t pieces = std::max<int64_t>(1, (extent + target / 2) / target);
  return std::max<int64_t>(16, CeilDivide(CeilDivide(extent, pieces), 16) * 16);
}

// Each call packs its operands anew, so a tile should be large; but a product should give every
// core something to do. Measured on one thread, in per cent of the whole product in one call: tiles
// of 512 x 768 and 256 x 384 cost 3 and 5 where b is transposed, nothing elsewhere; sums cut into
// depths of 1024 and 512 cost 1 and 3.
Tiling ChooseTiling(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kTasks = 8, kWorkPerTask = 1 << 19, kLeastDepth = 512, kLeastExtent = 64;
  Tiling tile{m, n, k};
  auto tasks = [&] { return CeilDivide(m, tile.rows) * CeilDivide(n, tile.columns); };
  // With few rows the time goes into reading b, as if there were eight more.
  const int64_t wanted = std::min(kTasks, (m + 8) * n * k / kWorkPerTask);
  if (wanted <= 1) return tile;
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1024, 768}, {512, 768}, {256, 384}}) {
    tile.rows = Piece(m, rows);
    tile.columns = Piece(n, columns);
    if (tasks() >= wanted) return tile;
  }
  const int64_t splits = std::min(CeilDivide(wanted, tasks()), k / kLeastDepth);
  if (splits > 1 && m > kFewRows) {
    tile.depth = Piece(k, CeilDivide(k, splits));
    return tile;
  }
  while (tasks() < wanted && std::max(tile.rows, tile.columns) > kLeastExtent) {
    int64_t& longer = tile.rows > tile.columns ? tile.rows : tile.columns;
    longer = Piece(longer, CeilDivide(longer, 2));
  }
  return tile;
}

const float* At(const MatrixView<float>& x, int64_t row, int64_t column) {
  return x.transposed ? x.data + column * x.stride + row : x.data + row * x.stride + column;
}

// One call of the library on the calling thread. It may split sums over its threads, and then the
// bits would depend on their number.
void Sgemm(int64_t m, int64_t n, int64_t k, const float* a, const MatrixView<float>& view_a,
           const float* b, const MatrixView<float>& view_b, bool add, float* c, int64_t c_stride) {
  const int threads = ThreadCount();
  SetThreadCount(1);
  const dnnl_status_t status =
      dnnl_sgemm(view_a.transposed ? 'T' : 'N', view_b.transposed ? 'T' : 'N', m, n, k, 1.0f, a,
                 view_a.stride, b, view_b.stride, add ? 1.0f : 0.0f, c, c_stride);
  SetThreadCount(threads);
  TOST_CHECK(status == dnnl_success)
      << "sgemm of " << m << " x " << n << " x " << k << " failed with status " << status;
}

// c = Σ partial sums in the order of their number, each a dense [m, n].
void AddPartialSums(int64_t m, int64_t n, int64_t splits, const float* partial, bool add, float* c,
                    int64_t c_stride) {
  ParallelFor(m, RowGrain(n * splits), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* __restrict out = c + i * c_stride;
      for (int64_t s = 0; s < splits; ++s) {
        const float* __restrict in = partial + (s * m + i) * n;
        if (s == 0 && !add) {
          std::copy(in, in + n, out);
        } else {
          for (int64_t j = 0; j < n; ++j) out[j] += in[j];
        }
      }
    }
  });
}

void TiledGemm(int64_t m, int64_t n, int64_t k, const MatrixView<float>& a,
               const MatrixView<float>& b, bool add, float* c, int64_t c_stride) {
  const Tiling tile = ChooseTiling(m, n, k);
  const int64_t row_tiles = CeilDivide(m, tile.rows);
  const int64_t column_tiles = CeilDivide(n, tile.columns);
  const int64_t splits = CeilDivide(k, tile.depth);
  Tensor scratch;
  float* partial = nullptr;
  if (splits > 1) {
    scratch = Tensor::Empty({splits, m, n}, DType::kFloat32);
    partial = scratch.mutable_data<float>();
  }
  ParallelFor(splits * row_tiles * column_tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task / column_tiles % row_tiles * tile.rows;
      const int64_t j = task % column_tiles * tile.columns;
      const int64_t split = task / (row_tiles * column_tiles);
      const int64_t p = split * tile.depth;
      float* out = splits > 1 ? partial + (split * m + i) * n + j : c + i * c_stride + j;
      Sgemm(std::min(tile.rows, m - i), std::min(tile.columns, n - j), std::min(tile.depth, k - p),
            At(a, i, p), a, At(b, p, j), b, splits == 1 && add, out, splits > 1 ? n : c_stride);
    }
  });
  if (splits > 1) AddPartialSums(m, n, splits, partial, add, c, c_stride);
}

// The double product, for gradient checks: c's rows gather b's rows, four at a time.
void LoopGemm(int64_t m, int64_t n, int64_t k, const MatrixView<double>& a, const double* b,
              int64_t b_stride, bool add, double* c, int64_t c_stride) {
  ParallelFor(m, RowGrain(n * std::max<int64_t>(1, k / 4)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double* __restrict out = c + i * c_stride;
      auto a_at = [&](int64_t p) {
        return a.transposed ? a.data[p * a.stride + i] : a.data[i * a.stride + p];
      };
      if (!add) std::fill(out, out + n, 0.0);
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        const double a0 = a_at(p), a1 = a_at(p + 1), a2 = a_at(p + 2), a3 = a_at(p + 3);
        const double* __restrict b0 = b + p * b_stride;
        const double* __restrict b1 = b0 + b_stride;
        const double* __restrict b2 = b1 + b_stride;
        const double* __restrict b3 = b2 + b_stride;
        for (int64_t j = 0; j < n; ++j) {
          out[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
        }
      }
      for (; p < k; ++p) {
        const double a0 = a_at(p);
        const double* __restrict b0 = b + p * b_stride;
        for (int64_t j = 0; j < n; ++j) out[j] += a0 * b0[j];
      }
    }
  });
}

// The stored rows of x as dense floats.
Tensor Widened(const MatrixView<bfloat16>& x, int64_t rows, int64_t columns) {
  if (x.transposed) std::swap(rows, columns);
  Tensor wide = Tensor::Empty({rows, columns}, DType::kFloat32);
  float* data = wide.mutable_data<float>();
  ParallelFor(rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const bfloat16* __restrict from = x.data + i * x.stride;
      float* __restrict to = data + i * columns;
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j];
    }
  });
  return wide;
}

void Store(int64_t m, int64_t n, const float* sums, bool add, bfloat16* c, int64_t c_stride) {
  ParallelFor(m, RowGrain(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* __restrict from = sums + i * n;
      bfloat16* __restrict to = c + i * c_stride;
      if (add) {
        for (int64_t j = 0; j < n; ++j) to[j] = static_cast<float>(to[j]) + from[j];
      } else {
        for (int64_t j = 0; j < n; ++j) to[j] = from[j];
      }
    }
  });
}

// A product with few rows (decoding) is bound by reading b, stored as [n, k]: its rows are widened
// block by block into a core's cache, so that memory is read once and at half of float's width.
void FewRowsGemm(int64_t m, int64_t n, int64_t k, const MatrixView<float>& a,
                 const MatrixView<bfloat16>& b, bool add, float* c, int64_t c_stride) {
  constexpr int64_t kElementsPerTask = 65536;
  const int64_t block = std::max<int64_t>(16, kElementsPerTask / k / 16 * 16);
  ParallelFor(n, block, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const Tensor wide = Widened({b.data + begin * b.stride, b.stride}, count, k);
    const MatrixView<float> view{wide.data<float>(), k, /*transposed=*/true};
    Sgemm(m, count, k, a.data, a, view.data, view, add, c + begin, c_stride);
  });
}

// What an empty sum leaves in c.
template <class T>
void EmptySum(int64_t m, int64_t n, bool add, T* c, int64_t c_stride) {
  if (add) return;
  for (int64_t i = 0; i < m; ++i) std::fill(c + i * c_stride, c + i * c_stride + n, T(0));
}

}  // namespace

template <>
void Gemm<float>(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b,
                 bool add, float* c, int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) return EmptySum(m, n, add, c, c_stride);
  TiledGemm(m, n, k, a, b, add, c, c_stride);
}

template <>
void Gemm<double>(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b,
                  bool add, double* c, int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (!b.transposed) return LoopGemm(m, n, k, a, b.data, b.stride, add, c, c_stride);
  Tensor scratch = Tensor::Empty({std::max<int64_t>(k, 1), n}, DType::kFloat64);
  double* straight = scratch.mutable_data<double>();
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) straight[p * n + j] = b.data[j * b.stride + p];
  }
  LoopGemm(m, n, k, a, straight, n, add, c, c_stride);
}

void Gemm(int64_t m, int64_t n, int64_t k, MatrixView<bfloat16> a, MatrixView<bfloat16> b, bool add,
          float* c, int64_t c_stride) {
  const Tensor wide_a = Widened(a, m, k);
  const MatrixView<float> view_a{wide_a.data<float>(), wide_a.shape()[1], a.transposed};
  if (m <= kFewRows && b.transposed && k > 0) {
    return FewRowsGemm(m, n, k, view_a, b, add, c, c_stride);
  }
  const Tensor wide_b = Widened(b, k, n);
  Gemm(m, n, k, view_a, {wide_b.data<float>(), wide_b.shape()[1], b.transposed}, add, c, c_stride);
}

template <>
void Gemm<bfloat16>(int64_t m, int64_t n, int64_t k, MatrixView<bfloat16> a, MatrixView<bfloat16> b,
                    bool add, bfloat16* c, int64_t c_stride) {
  Tensor scratch = Tensor::Empty({m, n}, DType::kFloat32);
  float* sums = scratch.mutable_data<float>();
  Gemm(m, n, k, a, b, /*add=*/false, sums, n);
  Store(m, n, sums, add, c, c_stride);
}

std::string GemmLibrary() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

}  // namespace tost::ops::cpu
