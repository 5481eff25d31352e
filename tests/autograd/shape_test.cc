#include "autograd/shape.h"

#include <string>

#include "gtest/gtest.h"

namespace tost {
namespace {

std::string Message(const absl::StatusOr<Shape>& shape) {
  return std::string(shape.status().message());
}

TEST(Shape, ScalarHasOneElement) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().Rows(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(Shape, PrintsItsExtents) { EXPECT_EQ((Shape{8, 1024, 768}).ToString(), "[8, 1024, 768]"); }

TEST(Shape, ExtentsCountFromBothEnds) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.Axis(-3), 0);
}

TEST(Shape, ProductsAroundAnAxis) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(shape.numel(), 120);
  EXPECT_EQ(shape.Before(2), 6);
  EXPECT_EQ(shape.After(1), 20);
  EXPECT_EQ(shape.Before(0), 1);
  EXPECT_EQ(shape.After(-1), 1);
  EXPECT_EQ(shape.Rows(), 24);
}

TEST(Shape, CountsPastThirtyTwoBits) {
  EXPECT_EQ((Shape{1 << 16, 1 << 16, 4}).numel(), int64_t{1} << 34);
}

TEST(Shape, DerivedShapes) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.WithLast(9), (Shape{2, 3, 9}));
  EXPECT_EQ(shape.Without(1), (Shape{2, 4}));
  EXPECT_EQ(shape.Without(-1), (Shape{2, 3}));
  EXPECT_EQ(shape.Appended(7), (Shape{2, 3, 4, 7}));
}

TEST(Shape, EqualityLooksAtRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
}

TEST(ShapeDeathTest, RefusesAbsentAxesAndSevenExtents) {
  EXPECT_DEATH((Shape{2, 3})[2], "axis 2 of shape \\[2, 3\\]");
  EXPECT_DEATH((Shape{2, 3}).Axis(-3), "axis -3 of shape");
  EXPECT_DEATH((Shape{1, 1, 1, 1, 1, 1, 1}), "at most 6 extents");
  EXPECT_DEATH((Shape{1, 1, 1, 1, 1, 1}).Appended(1), "at most 6 extents");
}

TEST(BroadcastShape, AlignsAtTheLastAxis) {
  EXPECT_EQ(*BroadcastShape({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(*BroadcastShape({3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(*BroadcastShape({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(*BroadcastShape({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(*BroadcastShape({1}, {1, 1}), (Shape{1, 1}));
}

TEST(BroadcastShape, AnEmptyExtentMeetsOnlyItselfAndOne) {
  EXPECT_EQ(*BroadcastShape({0}, {1}), Shape{0});
  EXPECT_FALSE(BroadcastShape({0}, {2}).ok());
}

TEST(BroadcastShape, MessageNamesBothShapesAndTheExtents) {
  EXPECT_EQ(Message(BroadcastShape({2, 3}, {4})),
            "shapes [2, 3] and [4] do not broadcast: extents 3 and 4");
}

TEST(BroadcastStrides, RepeatWithStrideZero) {
  EXPECT_EQ(BroadcastStrides({2, 3}, {2, 3}), (Shape{3, 1}));
  EXPECT_EQ(BroadcastStrides({3}, {2, 3}), (Shape{0, 1}));
  EXPECT_EQ(BroadcastStrides({2, 1}, {2, 3}), (Shape{1, 0}));
  EXPECT_EQ(BroadcastStrides({2, 1, 4}, {5, 2, 3, 4}), (Shape{0, 4, 0, 1}));
  EXPECT_EQ(BroadcastStrides({}, {2, 3}), (Shape{0, 0}));
}

TEST(BroadcastStridesDeathTest, RefusesWhatDoesNotBroadcast) {
  EXPECT_DEATH(BroadcastStrides({2}, {3}), "\\[2\\] does not broadcast to \\[3\\]");
  EXPECT_DEATH(BroadcastStrides({1, 3}, {3}), "does not broadcast");
}

}  // namespace
}  // namespace tost
