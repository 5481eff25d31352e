#include "autograd/base/philox.h"

#include <array>
#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace tost {
namespace {

std::array<uint32_t, 4> Words(const Philox4& random) {
  return {random.word[0], random.word[1], random.word[2], random.word[3]};
}

using Four = std::array<uint32_t, 4>;

// The known-answer vectors of the authors' library Random123 (file kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Words(Philox({{0, 0, 0, 0}}, 0, 0)),
            (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Words(Philox({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes)),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      Words(Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
      (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomWords, EveryPartOfTheKeyMatters) {
  const RandomKey key{.seed = 1, .step = 2, .draw = 3, .first_row = 4};
  std::set<Four> distinct{Words(RandomWords(key, 0, 0)), Words(RandomWords(key, 1, 0)),
                          Words(RandomWords(key, 0, 1)),
                          // Rows past 2^32 differ from their lower halves.
                          Words(RandomWords(key, int64_t{1} << 32, 0))};
  for (RandomKey other : {RandomKey{9, 2, 3, 4}, RandomKey{uint64_t{1} << 40 | 1, 2, 3, 4},
                          RandomKey{1, 9, 3, 4}, RandomKey{1, 2, 9, 4}, RandomKey{1, 2, 3, 9}}) {
    distinct.insert(Words(RandomWords(other, 0, 0)));
  }
  EXPECT_EQ(distinct.size(), 9u);
}

TEST(RandomWords, AShareOfTheBatchSeesTheRowsOfTheWhole) {
  const RandomKey whole{.seed = 5, .step = 6, .draw = 7, .first_row = 0};
  RandomKey share = whole;
  share.first_row = 100;
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(Words(RandomWords(share, row, 3)), Words(RandomWords(whole, row + 100, 3)));
  }
}

TEST(Uniform, LiesInTheHalfOpenInterval) {
  EXPECT_EQ(UniformOf(0), 0.0f);
  EXPECT_LT(UniformOf(0xffffffff), 1.0f);
}

TEST(Uniform, HasMeanAndVarianceOfTheUniformDistribution) {
  constexpr int kRows = 100, kColumns = 1000;
  double sum = 0, squares = 0;
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const double u = static_cast<double>(Uniform({.seed = 11}, row, column));
      sum += u;
      squares += u * u;
    }
  }
  constexpr double kCount = kRows * kColumns;
  const double mean = sum / kCount;
  // Five standard errors of each estimate: 5·sqrt(1/12/n) and 5·sqrt(1/180/n).
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1 / 12.0 / kCount));
  EXPECT_NEAR(squares / kCount - mean * mean, 1 / 12.0, 5 * std::sqrt(1 / 180.0 / kCount));
}

TEST(RandomStream, HandsOutADrawAfterTheOther) {
  RandomStream stream(/*seed=*/3, /*step=*/4, /*first_row=*/5);
  for (uint32_t draw = 0; draw < 3; ++draw) {
    const RandomKey key = stream.Next();
    EXPECT_EQ(key.seed, 3u);
    EXPECT_EQ(key.step, 4u);
    EXPECT_EQ(key.draw, draw);
    EXPECT_EQ(key.first_row, 5);
  }
}

TEST(RandomStream, ACopyReplaysAndLeavesTheOriginalAlone) {
  RandomStream stream(3, 4);
  stream.Next();
  RandomStream copy = stream;
  EXPECT_EQ(copy.Next().draw, 1u);
  EXPECT_EQ(copy.Next().draw, 2u);
  EXPECT_EQ(stream.Next().draw, 1u);
}

}  // namespace
}  // namespace tost
