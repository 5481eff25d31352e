// A register-blocked product of tiles that fit into a core's caches: the inner loop of attention.
// The GEMM library's set-up costs more than such a product itself.
#ifndef TOST_OPS_CPU_TILE_PRODUCT_H_
#define TOST_OPS_CPU_TILE_PRODUCT_H_

#include <algorithm>
#include <cstdint>

namespace tost::ops::cpu {

// Width of the machine's vectors, and how many of them it can name.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes), may_alias));
};

// Left operand of a tile product: element (i, k) lies at data[i · row + k · column].
template <class T>
struct TileView {
  const T* data;
  int64_t row;
  int64_t column;
};

// Columns that one pass over the left operand covers, in vectors, and the rows that then still have
// registers for their sums.
inline constexpr int kPanelVectors = kVectorRegisters == 32 ? 4 : 2;
constexpr int RowsInRegisters(int vectors) {
  return std::min(12, (kVectorRegisters - vectors - 2) / vectors);
}

// c[kRows, kVectors] (+)= a · b, sums held in registers over the whole depth.
template <class T, int kRows, int kVectors>
inline void RegisterTile(int64_t depth, TileView<T> a, const T* b, int64_t b_stride, bool add, T* c,
                         int64_t c_stride) {
  using Vector = typename VectorOf<T>::Type;
  Vector sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector* from = reinterpret_cast<const Vector*>(c + i * c_stride) + v;
      sum[i][v] = add ? *from : Vector{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Vector* row = reinterpret_cast<const Vector*>(b + k * b_stride);
    const T* column = a.data + k * a.column;
    for (int i = 0; i < kRows; ++i) {
      const T x = column[i * a.row];
      for (int v = 0; v < kVectors; ++v) sum[i][v] += x * row[v];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      reinterpret_cast<Vector*>(c + i * c_stride)[v] = sum[i][v];
    }
  }
}

template <class T, int kVectors>
void PanelProduct(int64_t rows, int64_t depth, TileView<T> a, const T* b, int64_t b_stride,
                  bool add, T* c, int64_t c_stride) {
  constexpr int kRows = RowsInRegisters(kVectors);
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    RegisterTile<T, kRows, kVectors>(depth, {a.data + i * a.row, a.row, a.column}, b, b_stride, add,
                                     c + i * c_stride, c_stride);
  }
  for (; i < rows; ++i) {
    RegisterTile<T, 1, kVectors>(depth, {a.data + i * a.row, a.row, a.column}, b, b_stride, add,
                                 c + i * c_stride, c_stride);
  }
}

// c[rows, columns] = a[rows, depth] · b[depth, columns], added to c when `add`. `columns` and both
// strides are multiples of kLanes<T>; b and c are aligned to kVectorBytes. Every sum runs over k in
// ascending order.
template <class T>
void TileProduct(int64_t rows, int64_t columns, int64_t depth, TileView<T> a, const T* b,
                 int64_t b_stride, bool add, T* c, int64_t c_stride) {
  int64_t vectors = columns / kLanes<T>;
  for (; vectors >= kPanelVectors; vectors -= kPanelVectors) {
    PanelProduct<T, kPanelVectors>(rows, depth, a, b, b_stride, add, c, c_stride);
    b += kPanelVectors * kLanes<T>;
    c += kPanelVectors * kLanes<T>;
  }
  if (vectors == 3) PanelProduct<T, 3>(rows, depth, a, b, b_stride, add, c, c_stride);
  if (vectors == 2) PanelProduct<T, 2>(rows, depth, a, b, b_stride, add, c, c_stride);
  if (vectors == 1) PanelProduct<T, 1>(rows, depth, a, b, b_stride, add, c, c_stride);
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_TILE_PRODUCT_H_
