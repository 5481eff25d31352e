// Embedding: the formula, absent rows, order of sums, dtypes, messages.
#include "ops/embedding.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

Tensor RandomIds(const Shape& shape, int32_t vocabulary) {
  const Tensor uniform = RandomTensor(shape, 77, 0, vocabulary);
  return Tensor::FromHost<int32_t>(shape, uniform.ToHost<int32_t>());
}

TEST(Embedding, IsTheSumOfTwoRows) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor ids = RandomIds({3, 40}, 9);
    const Tensor table = Converted(RandomTensor({9, 70}, 1), dtype);
    const Tensor positions = Converted(RandomTensor({64, 70}, 2), dtype);
    const std::vector<float> y = Embedding(ids, table, positions, 5).ToHost();
    const std::vector<float> rows = table.ToHost(), places = positions.ToHost();
    const std::vector<int32_t> id = ids.ToHost<int32_t>();
    for (size_t token = 0; token < id.size(); ++token) {
      for (size_t c = 0; c < 70; ++c) {
        const float word = rows[static_cast<size_t>(id[token]) * 70 + c];
        ASSERT_FLOAT_EQ(y[token * 70 + c], word + places[(5 + token % 40) * 70 + c]);
      }
    }
  }
}

TEST(Embedding, Bf16TableWritesIntoTheFloat32MasterCell) {
  const Tensor master = Leaf(Converted(RandomTensor({4, 6}, 1), DType::kFloat32));
  const Tensor table = Converted(master, DType::kBFloat16).WithGrad(master.grad());
  const Tensor ids = Tensor::FromHost<int32_t>({1000}, std::vector<int32_t>(1000, 2));
  Tape tape;
  const Tensor y = Embedding(ids, table);
  ASSERT_EQ(y.dtype(), DType::kBFloat16);
  tape.BackwardFrom(y, Converted(Tensor::FromHost<float>({1000, 6}, std::vector<float>(6000, 1)),
                                 DType::kBFloat16));
  std::vector<float> expected(24, 0.0f);
  for (size_t c = 12; c < 18; ++c) expected[c] = 1000;  // in bfloat16 the sum would stop at 256
  EXPECT_EQ(master.grad()->value().ToHost(), expected);
}

TEST(Embedding, RowsThatNoTokenNamesGetAZeroGradient) {
  const Tensor table = Leaf(Converted(RandomTensor({9000, 3}, 1), DType::kFloat32));
  const Tensor positions = Leaf(Converted(RandomTensor({8, 3}, 2), DType::kFloat32));
  // What a bucket holds before a step is arbitrary.
  table.grad()->BindTo(Tensor::FromHost<float>({27000}, std::vector<float>(27000, 5)));
  positions.grad()->BindTo(Tensor::FromHost<float>({24}, std::vector<float>(24, 5)));
  const Tensor ids = Tensor::FromHost<int32_t>({1, 2}, std::vector<int32_t>{8999, 4096});
  Tape tape;
  const Tensor y = Embedding(ids, table, positions, 6);
  tape.BackwardFrom(y, Tensor::FromHost<float>({1, 2, 3}, std::vector<float>(6, 1)));
  std::vector<float> expected(27000, 0.0f), expected_positions(24, 0.0f);
  for (size_t c = 0; c < 3; ++c) expected[8999 * 3 + c] = expected[4096 * 3 + c] = 1;
  for (size_t c = 18; c < 24; ++c) expected_positions[c] = 1;
  EXPECT_EQ(table.grad()->value().ToHost(), expected);
  EXPECT_EQ(positions.grad()->value().ToHost(), expected_positions);
}

TEST(Embedding, SameBitsWithAnyNumberOfThreads) {
  auto run = [](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor table = Leaf(Converted(RandomTensor({17, 200}, 1), DType::kFloat32));
    const Tensor positions = Leaf(Converted(RandomTensor({64, 200}, 2), DType::kFloat32));
    Tape tape;
    const Tensor y = Embedding(RandomIds({9, 64}, 17), table, positions);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 4), DType::kFloat32));
    SetThreadCount(before);
    return std::vector<std::vector<float>>{y.ToHost(), table.grad()->value().ToHost(),
                                           positions.grad()->value().ToHost()};
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

TEST(EmbeddingShape, NamesTheRuleAndTheValues) {
  EXPECT_EQ(*EmbeddingShape({2, 3}, {9, 4}, Shape{8, 4}, 5), (Shape{2, 3, 4}));
  EXPECT_EQ(EmbeddingShape({2, 3}, {9, 4}, Shape{8, 4}, 6).status().message(),
            "Embedding: positions 6 to 9 are asked for but there are 8 (ids [2, 3], positions "
            "[8, 4])");
  EXPECT_EQ(EmbeddingShape({2, 3}, {9, 4}, Shape{8, 5}).status().message(),
            "Embedding: positions [8, 5] do not fit the table [9, 4]");
  EXPECT_FALSE(EmbeddingShape({}, {9, 4}).ok());
}

TEST(EmbeddingDeathTest, AnIdOutsideTheTableIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor table = Tensor::Zeros({9, 4}, DType::kFloat32);
  const Tensor ids = Tensor::FromHost<int32_t>({2}, std::vector<int32_t>{3, 9});
  EXPECT_DEATH(Embedding(ids, table), "id 9 at token 1 is outside \\[0, 9\\)");
}

}  // namespace
}  // namespace tost::ops
