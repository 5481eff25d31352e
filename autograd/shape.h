// The extents of a tensor, and the rule by which two of them broadcast.
#ifndef TOST_AUTOGRAD_SHAPE_H_
#define TOST_AUTOGRAD_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace tost {

// Up to six extents, stored inline, outermost first. Rank 0 is a scalar (one element).
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t numel() const;

  // Extent of an axis; negative axes count from the end. CHECKs the range.
  int64_t operator[](int axis) const { return extents_[Axis(axis)]; }
  void set(int axis, int64_t extent) { extents_[Axis(axis)] = extent; }
  // `axis` as a number in [0, rank). CHECKs the range.
  int Axis(int axis) const;

  // Product of the extents before `axis`, and of those after it.
  int64_t Before(int axis) const;
  int64_t After(int axis) const;
  // Elements divided by the last extent: the number of rows. 1 for a scalar.
  int64_t Rows() const;

  Shape WithLast(int64_t extent) const;
  Shape Without(int axis) const;
  Shape Appended(int64_t extent) const;

  std::span<const int64_t> extents() const { return {extents_, static_cast<size_t>(rank_)}; }
  std::string ToString() const;  // "[8, 1024, 768]"

  friend bool operator==(const Shape& a, const Shape& b);
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.ToString();
  }

 private:
  int rank_ = 0;
  int64_t extents_[kMaxRank] = {};
};

// The common shape of two operands: aligned at the last axis, extents equal or one of them 1.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

// Strides, in elements, that read a contiguous tensor of shape `from` as if it had shape `to`
// (0 along the axes that repeat). CHECKs that `from` broadcasts to `to`.
Shape BroadcastStrides(const Shape& from, const Shape& to);

}  // namespace tost

#endif  // TOST_AUTOGRAD_SHAPE_H_
