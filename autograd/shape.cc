#include "autograd/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/base/errors.h"

namespace tost {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  TOST_CHECK(extents.size() <= kMaxRank) << "a shape has at most " << kMaxRank << " extents";
  std::copy(extents.begin(), extents.end(), extents_);
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (int64_t extent : extents()) product *= extent;
  return product;
}

int Shape::Axis(int axis) const {
  const int positive = axis < 0 ? axis + rank_ : axis;
  TOST_CHECK(positive >= 0 && positive < rank_) << "axis " << axis << " of shape " << *this;
  return positive;
}

int64_t Shape::Before(int axis) const {
  int64_t product = 1;
  for (int i = 0, end = Axis(axis); i < end; ++i) product *= extents_[i];
  return product;
}

int64_t Shape::After(int axis) const {
  int64_t product = 1;
  for (int i = Axis(axis) + 1; i < rank_; ++i) product *= extents_[i];
  return product;
}

int64_t Shape::Rows() const { return rank_ == 0 ? 1 : Before(-1); }

Shape Shape::WithLast(int64_t extent) const {
  Shape shape = *this;
  shape.set(-1, extent);
  return shape;
}

Shape Shape::Without(int axis) const {
  Shape shape;
  const int removed = Axis(axis);
  for (int i = 0; i < rank_; ++i) {
    if (i != removed) shape.extents_[shape.rank_++] = extents_[i];
  }
  return shape;
}

Shape Shape::Appended(int64_t extent) const {
  TOST_CHECK(rank_ < kMaxRank) << "a shape has at most " << kMaxRank << " extents";
  Shape shape = *this;
  shape.extents_[shape.rank_++] = extent;
  return shape;
}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(extents(), ", "), "]");
}

bool operator==(const Shape& a, const Shape& b) {
  return std::ranges::equal(a.extents(), b.extents());
}

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const int64_t x = longer[-i], y = shorter[-i];
    if (x != y && x != 1 && y != 1) {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(),
                                                     " do not broadcast: extents ", x, " and ", y));
    }
    result.set(-i, x == 1 ? y : x);
  }
  return result;
}

Shape BroadcastStrides(const Shape& from, const Shape& to) {
  TOST_CHECK(from.rank() <= to.rank()) << from << " does not broadcast to " << to;
  Shape strides = to;
  int64_t stride = 1;
  for (int i = 1; i <= to.rank(); ++i) {
    const int64_t extent = i <= from.rank() ? from[-i] : 1;
    TOST_CHECK(extent == to[-i] || extent == 1) << from << " does not broadcast to " << to;
    strides.set(-i, extent == 1 ? 0 : stride);
    stride *= extent;
  }
  return strides;
}

}  // namespace tost
