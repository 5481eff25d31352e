#include "data/permutation.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tost::data {
namespace {

std::vector<int64_t> Order(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(permutation.At(i));
  return order;
}

void ExpectBijection(int64_t size, uint64_t seed, uint64_t epoch) {
  const std::vector<int64_t> order = Order(size, seed, epoch);
  const std::set<int64_t> values(order.begin(), order.end());
  ASSERT_EQ(static_cast<int64_t>(values.size()), size);
  EXPECT_EQ(*values.begin(), 0);
  EXPECT_EQ(*values.rbegin(), size - 1);
}

TEST(Permutation, IsABijectionForEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    SCOPED_TRACE(size);
    ExpectBijection(size, 1337, 0);
    ExpectBijection(size, 0, 7);
  }
  for (const int64_t size : {1023, 1024, 1025, 4097, 65535, 65537, 100003}) {
    SCOPED_TRACE(size);
    ExpectBijection(size, 42, 3);
  }
}

TEST(Permutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(Order(64, 1, 2), Order(64, 1, 2));
  EXPECT_NE(Order(64, 1, 2), Order(64, 1, 3));
  EXPECT_NE(Order(64, 1, 2), Order(64, 2, 2));
  EXPECT_NE(Order(64, uint64_t{1} << 32, 2), Order(64, 0, 2));
  EXPECT_NE(Order(64, 1, uint64_t{1} << 32), Order(64, 1, 0));
}

TEST(Permutation, EveryValueComesFirstEquallyOften) {
  constexpr int kValues = 10;
  constexpr int kEpochs = 10000;
  std::vector<int> times(kValues);
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    ++times[static_cast<size_t>(Permutation(kValues, 5, epoch).At(0))];
  }
  // Binomial: mean 1000, standard deviation 30; five of them.
  for (const int count : times) EXPECT_NEAR(count, kEpochs / kValues, 150);
}

TEST(Permutation, NeighboursDoNotStayNeighbours) {
  const std::vector<int64_t> order = Order(10000, 11, 0);
  int steps = 0;
  for (size_t i = 1; i < order.size(); ++i) steps += order[i] - order[i - 1] == 1;
  EXPECT_LT(steps, 10);  // 1 expected in a random order
}

TEST(Permutation, LargeSizes) {
  const int64_t size = (int64_t{1} << 40) + 1;
  const Permutation permutation(size, 9, 9);
  std::set<int64_t> values;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t value = permutation.At(size - 1 - i);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, size);
    values.insert(value);
  }
  EXPECT_EQ(values.size(), 1000u);
}

}  // namespace
}  // namespace tost::data
