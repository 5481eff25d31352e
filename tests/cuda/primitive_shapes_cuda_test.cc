// Primitive ops over the shapes that decide which way their kernels take: packs that fit or do not,
// addresses that are not aligned, axes that merge or do not, rows and columns that are cut into
// parts, one element, none.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "tests/cuda/primitive_checks.h"

namespace tost {
namespace {

using Inputs = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor Random(const Shape& shape, uint64_t seed = 1) { return RandomTensor(shape, seed, -2, 2); }

struct Pair {
  Shape a, b;
};
struct Along {
  Shape shape;
  int axis;
};

// `small` and, where not every access is checked one by one, `large`.
template <class Case>
std::vector<Case> Cases(std::vector<Case> small, const std::vector<Case>& large) {
  if (!SmallShapesOnly()) small.insert(small.end(), large.begin(), large.end());
  return small;
}

// ---- Elementwise ----

Tensor Product(const Inputs& x) { return x[0] * x[1]; }
// The gradients of both operands are added to.
Tensor ProductAndSum(const Inputs& x) { return x[0] * x[1] + x[0] + x[1]; }

TEST(Elementwise, PacksTailsAndBroadcasting) {
  for (const int64_t columns : Cases<int64_t>({1, 7, 8, 31}, {64, 1027})) {
    SCOPED_TRACE(columns);
    const Tensor x = Random({5, columns}, 1), row = Random({columns}, 2),
                 column = Random({5, 1}, 3);
    ExpectInAllTypes(Product, {x, x});
    ExpectInAllTypes(Product, {x, row});
    ExpectInAllTypes(Product, {column, x});
    ExpectInAllTypes([](const Inputs& in) { return ops::Gelu(in[0]); }, {x});
    ExpectAsParameters([](const Inputs& in) { return ops::Gelu(in[0]) * in[1]; }, {x, row});
  }
}

TEST(Elementwise, AxesThatRepeat) {
  for (const Pair& p :
       Cases<Pair>({{{3, 1, 8}, {3, 5, 8}},
                    {{3, 1, 7}, {1, 5, 1}},
                    {{2, 3, 1, 16}, {3, 2, 1}},
                    {{2, 1, 3, 1, 2, 4}, {1, 2, 1, 3, 1, 4}},
                    {{1, 1, 1}, {1, 1}}},
                   {{{17, 1, 40}, {9, 1}}, {{4, 1, 3, 1, 5, 1}, {3, 1, 2, 1, 9}}})) {
    SCOPED_TRACE(p.a.ToString() + " and " + p.b.ToString());
    ExpectInAllTypes(ProductAndSum, {Random(p.a, 1), Random(p.b, 2)});
  }
}

TEST(Elementwise, Misaligned) {
  for (const Shape& shape : {Shape{1}, Shape{64}, Shape{3, 16}}) {
    SCOPED_TRACE(shape.ToString());
    ExpectInAllTypesMisaligned(ProductAndSum, {Random(shape, 1), Random({shape[-1]}, 2)});
  }
}

TEST(Elementwise, NoElements) {
  for (const Pair& p : {Pair{{0}, {0}}, Pair{{3, 0}, {0}}, Pair{{0, 5}, {5}}, Pair{{0, 5}, {}}}) {
    SCOPED_TRACE(p.a.ToString() + " and " + p.b.ToString());
    ExpectInAllTypes(ProductAndSum, {Random(p.a, 1), Random(p.b, 2)});
  }
}

TEST(Elementwise, Comparisons) {
  const Tensor x = Tensor::FromHost<double>({2, 4}, {1, 2, 3, std::nan(""), 0, -0.0, 5, 7});
  const Tensor y = Tensor::FromHost<double>({4}, {2, 2, 2, 2});
  for (const auto compare :
       {&ops::Less, &ops::LessEqual, &ops::Greater, &ops::GreaterEqual, &ops::Equal}) {
    ExpectInAllTypes([compare](const Inputs& in) { return compare(in[0], in[1]); }, {x, y});
    ExpectInAllTypes([compare](const Inputs& in) { return compare(in[0], in[0]); }, {x});
  }
}

TEST(Elementwise, LimitsOfNumbers) {
  const Tensor x = Tensor::FromHost<double>(
      {9}, {kInfinity, -kInfinity, 0, -1, 1e4, -1e4, 1e-30, std::nan(""), 3e38});
  using Unary = Tensor (*)(const Tensor&);
  const Unary all[] = {&ops::Exp,  &ops::Log,     &ops::Sqrt, &ops::Rsqrt, &ops::Abs,
                       &ops::Relu, &ops::Sigmoid, &ops::Tanh, &ops::Square};
  for (size_t i = 0; i < std::size(all); ++i) {
    SCOPED_TRACE(i);
    ExpectInAllTypes([fn = all[i]](const Inputs& in) { return fn(in[0]); }, {x});
  }
  for (const auto fn : {&ops::Maximum, &ops::Minimum}) {
    ExpectInAllTypes([fn](const Inputs& in) { return fn(in[0], in[1]); }, {x, Random({2, 1})});
  }
}

// ---- Reductions ----

const std::vector<TensorFunction> kColumnReductions = {
    [](const Inputs& x) { return ops::Sum(x[0], {0}); },
    [](const Inputs& x) { return ops::Max(x[0], {0}); },
    [](const Inputs& x) { return ops::Variance(x[0], {0}); }};
const std::vector<TensorFunction> kRowReductions = {
    [](const Inputs& x) { return ops::Sum(x[0], {-1}); },
    [](const Inputs& x) { return ops::Max(x[0], {-1}); },
    [](const Inputs& x) { return ops::LogSumExp(x[0], {-1}); }};

void ExpectReductions(const std::vector<TensorFunction>& reductions, const Shape& shape) {
  for (size_t i = 0; i < reductions.size(); ++i) {
    SCOPED_TRACE(shape.ToString() + ", reduction " + std::to_string(i));
    ExpectInAllTypes(reductions[i], {Random(shape)});
  }
}

// One lane a row, a warp, a block; cut in two and more, with parts that end early.
TEST(Reduce, Rows) {
  for (const Shape& shape : Cases<Shape>({{1, 1}, {300, 1}, {70, 8}, {9, 33}, {2, 520}},
                                         {{700, 3}, {3, 2053}, {2, 9000}, {1, 20004}})) {
    ExpectReductions(kRowReductions, shape);
  }
}

// One column, fewer and more than a warp has lanes, more than a block has; cut.
TEST(Reduce, Columns) {
  for (const Shape& shape : Cases<Shape>({{1, 9}, {40, 1}, {33, 8}, {5, 130}, {600, 2}},
                                         {{1501, 3}, {3000, 16}, {70, 65}, {9, 1030}})) {
    ExpectReductions(kColumnReductions, shape);
  }
}

TEST(Reduce, AxesThatDoNotMerge) {
  for (const ops::Axes& axes : {ops::Axes{0, 2}, {1, 3}, {-2, -3}, {0, 3}, {}}) {
    SCOPED_TRACE(testing::PrintToString(axes));
    for (const Shape& shape : Cases<Shape>({{2, 5, 3, 8}}, {{3, 33, 4, 9}})) {
      ExpectInAllTypes([&](const Inputs& x) { return ops::Sum(x[0], axes); }, {Random(shape)});
      ExpectInAllTypes([&](const Inputs& x) { return ops::Variance(x[0], axes); }, {Random(shape)});
    }
  }
}

TEST(Reduce, Misaligned) {
  for (const Shape& shape : {Shape{4, 64}, Shape{9, 24}}) {
    for (const int axis : {0, 1}) {
      ExpectInAllTypesMisaligned([axis](const Inputs& x) { return ops::Sum(x[0], {axis}); },
                                 {Random(shape)});
    }
  }
}

TEST(Reduce, NoElements) {
  for (const Along& c :
       {Along{{3, 0}, 1}, Along{{3, 0}, 0}, Along{{0, 5}, 0}, Along{{2, 0, 8}, 1}}) {
    SCOPED_TRACE(c.shape.ToString());
    ExpectInAllTypes([&](const Inputs& x) { return ops::Sum(x[0], {c.axis}); }, {Random(c.shape)});
  }
}

TEST(Reduce, LimitsOfNumbers) {
  const Tensor x = Tensor::FromHost<double>(
      {6, 3}, {-kInfinity, 1, 2, -kInfinity, -kInfinity, -kInfinity, kInfinity, 1, 2, 1e30, 1e30,
               -kInfinity, kInfinity, -kInfinity, 0, std::nan(""), 1, kInfinity});
  for (const TensorFunction& reduction : kRowReductions) ExpectInAllTypes(reduction, {x});
  for (const int axis : {0, 1}) {
    ExpectInAllTypes([axis](const Inputs& in) { return ops::Cumsum(in[0], axis); }, {x});
    ExpectInAllTypes([axis](const Inputs& in) { return ops::Softmax(in[0], axis); }, {x});
    ExpectInAllTypes([axis](const Inputs& in) { return ops::LogSoftmax(in[0], axis); }, {x});
  }
}

// ---- Prefix sums ----

// Twice, so that the gradient is added to.
Tensor CumsumAlong(const Inputs& x, int axis) {
  return ops::Cumsum(x[0], axis) + ops::Cumsum(2 * x[0], axis);
}

// Rows: short ones, a chunk with and without packs, chunks of which the last is short. Columns:
// likewise.
TEST(Cumsum, RowsAndColumnsInChunks) {
  for (const Along& c : Cases<Along>(
           {{{1, 1}, 1},
            {{5, 32}, 1},
            {{3, 33}, -1},
            {{2, 64}, 1},
            {{1, 1027}, 1},
            {{129, 2}, 0},
            {{2, 7, 3}, 1}},
           {{{2, 1024}, 1}, {{2, 3076}, 1}, {{300, 7}, 0}, {{3, 257, 5}, 1}, {{700, 1}, 0}})) {
    SCOPED_TRACE(c.shape.ToString() + " along " + std::to_string(c.axis));
    ExpectInAllTypes([&](const Inputs& x) { return CumsumAlong(x, c.axis); }, {Random(c.shape)});
  }
}

// As many columns as need no cutting, longer than a chunk.
TEST(Cumsum, ManyColumns) {
  if (SmallShapesOnly()) GTEST_SKIP() << "2^16 columns";
  const Tensor x = As(DType::kFloat32, Random({130, 1 << 16}));
  std::vector<double> expected = ops::Cumsum(x, 0).ToHost<double>();
  EXPECT_EQ(ops::Cumsum(OnCuda(x), 0).ToHost<double>(), expected);
}

TEST(Cumsum, MisalignedAndWithoutElements) {
  for (const Along& c : {Along{{3, 64}, 1}, Along{{40, 4}, 0}}) {
    ExpectInAllTypesMisaligned([&](const Inputs& x) { return ops::Cumsum(x[0], c.axis); },
                               {Random(c.shape)});
  }
  for (const Along& c : {Along{{3, 0}, 1}, Along{{3, 0}, 0}, Along{{0, 3}, 0}}) {
    ExpectInAllTypes([&](const Inputs& x) { return ops::Cumsum(x[0], c.axis); }, {Random(c.shape)});
  }
}

// ---- Softmax ----

void ExpectSoftmax(const Along& c) {
  SCOPED_TRACE(c.shape.ToString() + " along " + std::to_string(c.axis));
  // Twice, so that the gradient is added to.
  ExpectInAllTypes(
      [&](const Inputs& x) { return ops::Softmax(x[0], c.axis) + ops::LogSoftmax(x[0], c.axis); },
      {Random(c.shape)});
}

// Rows of one element, of a lane, a warp and a block, with packs and without; columns likewise.
TEST(Softmax, RowsAndColumns) {
  for (const Along& c : Cases<Along>(
           {{{4, 1}, 1},
            {{300, 2}, 1},
            {{3, 33}, -1},
            {{2, 64}, 1},
            {{1, 520}, 1},
            {{1, 4}, 0},
            {{33, 5}, 0},
            {{2, 3, 70}, 1}},
           {{{4, 1500}, 1}, {{2, 2048}, 1}, {{2, 4104}, 1}, {{700, 2}, 0}, {{3, 40, 33}, 1}})) {
    ExpectSoftmax(c);
  }
}

TEST(Softmax, MisalignedAndWithoutElements) {
  ExpectInAllTypesMisaligned([](const Inputs& x) { return ops::Softmax(x[0], 1); },
                             {Random({3, 64})});
  for (const Along& c : {Along{{3, 0}, 1}, Along{{3, 0}, 0}, Along{{0, 3}, 0}}) ExpectSoftmax(c);
}

// ---- Layout ----

void ExpectPermuted(const Shape& shape, const std::vector<int>& axes) {
  SCOPED_TRACE(shape.ToString() + " by " + testing::PrintToString(axes));
  // Twice, so that the gradient is added to.
  ExpectInAllTypes(
      [&](const Inputs& x) { return ops::Permute(x[0], axes) + ops::Permute(2 * x[0], axes); },
      {Random(shape)});
}

// Whole tiles and cut ones, with and without further axes.
TEST(Permute, Tiles) {
  for (const Shape& shape :
       Cases<Shape>({{33, 3}, {1, 9}, {65, 1}, {0, 4}}, {{33, 70}, {64, 32}})) {
    ExpectPermuted(shape, {1, 0});
  }
  ExpectPermuted({5, 34, 7}, {2, 0, 1});
  ExpectPermuted({5, 34, 7}, {0, 2, 1});
  ExpectPermuted({3, 5, 2, 9}, {3, 1, 2, 0});
  ExpectPermuted({2, 3, 2, 2, 2, 3}, {5, 3, 0, 4, 1, 2});
}

TEST(Permute, KeepsTheLastAxis) {
  for (const int64_t columns : {1, 5, 8}) ExpectPermuted({2, 3, 4, columns}, {0, 2, 1, 3});
  ExpectPermuted({2, 3, 4, 2, 8}, {3, 1, 0, 2, 4});
}

TEST(CopyRange, PacksFitOrDoNot) {
  const auto parts = [](const Tensor& x, int axis, int64_t begin, int64_t end) {
    return ops::Slice(x, axis, begin, end) * 2;
  };
  // Of a range that begins in the middle of a pack, the length alone does not tell.
  for (const int64_t begin : {0, 1, 4, 8}) {
    SCOPED_TRACE(begin);
    ExpectInAllTypes([&](const Inputs& x) { return parts(x[0], 1, begin, begin + 8); },
                     {Random({3, 16})});
    ExpectInAllTypes([&](const Inputs& x) { return parts(x[0], 1, begin, begin + 3); },
                     {Random({3, 16, 5})});
    ExpectInAllTypes([&](const Inputs& x) { return parts(x[0], 0, begin, begin); },
                     {Random({16, 3})});
  }
  const auto concat = [](const Inputs& x) { return ops::Concat({x[0], x[1], x[0]}, 1); };
  ExpectInAllTypes(concat, {Random({3, 8}), Random({3, 16}, 2)});
  ExpectInAllTypes(concat, {Random({3, 8}), Random({3, 5}, 2)});
  ExpectInAllTypes(concat, {Random({3, 8}), Random({3, 0}, 2)});
  ExpectInAllTypes(concat, {Random({0, 8}), Random({0, 4}, 2)});
  ExpectInAllTypesMisaligned(concat, {Random({3, 8}), Random({3, 16}, 2)});
}

// int32 numbers in [0, below) that repeat and leave some out.
Tensor Indices(const Shape& shape, int64_t below) {
  std::vector<int32_t> indices(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int32_t>(i * i % static_cast<size_t>(below));
  }
  return Tensor::FromHost(shape, indices);
}

// Fewer and more indices than a block looks through at once, one and more columns a thread.
TEST(IndexSelect, RowsOfAllWidths) {
  struct Case {
    Shape shape;
    int axis;
    int64_t count;
  };
  for (const Case& c : Cases<Case>({{{6}, 0, 4},
                                    {{2, 5, 8}, 1, 7},
                                    {{2, 5, 3}, 1, 7},
                                    {{3, 4}, -1, 9},
                                    {{3, 4}, 0, 0},
                                    {{0, 4}, 1, 2},
                                    {{1, 3, 1}, 1, 300}},
                                   {{{7, 2}, 0, 600}, {{3, 4, 200}, 1, 5}})) {
    SCOPED_TRACE(c.shape.ToString());
    ExpectInAllTypes([&](const Inputs& x) { return ops::IndexSelect(x[0], c.axis, x[1]); },
                     {Random(c.shape), Indices({c.count}, c.shape[c.axis])});
  }
  ExpectInAllTypesMisaligned([](const Inputs& x) { return ops::IndexSelect(x[0], 0, x[1]); },
                             {Random({6, 16}), Indices({4}, 6)});
}

TEST(Gather, AlongEveryAxis) {
  for (const int axis : {0, 1, 2}) {
    for (const int64_t count : {0, 1, 9}) {
      SCOPED_TRACE(testing::Message() << count << " along " << axis);
      std::vector<int64_t> extents{3, 5, 4};
      const int64_t below = extents[static_cast<size_t>(axis)];
      extents[static_cast<size_t>(axis)] = count;
      ExpectInAllTypes([&](const Inputs& x) { return ops::Gather(x[0], axis, x[1]); },
                       {Random({3, 5, 4}), Indices(Shape(extents), below)});
    }
  }
}

// A kernel cannot stop the program for a wrong index: the element is no number, and its gradient
// goes nowhere.
TEST(IndexSelect, IndicesOutOfRangeAreNotNumbers) {
  for (const int32_t wrong : {3, -1, std::numeric_limits<int32_t>::max()}) {
    SCOPED_TRACE(wrong);
    for (const bool gather : {false, true}) {
      const Tensor x = Leaf(OnCuda(As(DType::kFloat32, Random({3}))));
      const Tensor indices = OnCuda(Tensor::FromHost<int32_t>({3}, {2, wrong, 0}));
      Tape tape;
      const Tensor y = gather ? ops::Gather(x, 0, indices) : ops::IndexSelect(x, 0, indices);
      tape.BackwardFrom(y, OnCuda(Tensor::FromHost<float>({3}, {1, 2, 4})));
      const std::vector<float> values = y.ToHost(), numbers = x.ToHost();
      EXPECT_EQ(values[0], numbers[2]);
      EXPECT_TRUE(std::isnan(values[1]));
      EXPECT_EQ(values[2], numbers[0]);
      EXPECT_EQ(x.grad()->value().ToHost(), (std::vector<float>{4, 0, 1}));
    }
  }
}

}  // namespace
}  // namespace tost
