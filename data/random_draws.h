// Random numbers in sequence, for algorithms that reject and draw again. A sequence is a pure
// function of a key and a starting block: sequences that start far enough apart share no draw, so
// that what one purpose uses does not shift another's.
#ifndef TOST_DATA_RANDOM_DRAWS_H_
#define TOST_DATA_RANDOM_DRAWS_H_

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "autograd/base/philox.h"

namespace tost::data {

class RandomDraws {
 public:
  // Row 0 of `key`, from the columns of `block` on. Each draw uses up one block of four words.
  RandomDraws(const RandomKey& key, int64_t block) : key_(key), block_(block) {}

  // In [0, 1), a multiple of 2^-53.
  double Uniform() {
    const uint64_t bits = Next64();
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  bool Chance(double probability) { return Uniform() < probability; }
  // In [0, count). With 64 bits the bias is below count / 2^64.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(Next64() % static_cast<uint64_t>(count));
  }
  // Two independent standard normals (Box-Muller).
  std::pair<double, double> NormalPair() {
    const Philox4 random = RandomWords(key_, 0, block_++);
    const double radius = std::sqrt(-2 * std::log((random.word[0] + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * (random.word[1] * 0x1p-32);
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  uint64_t Next64() {
    const Philox4 random = RandomWords(key_, 0, block_++);
    return uint64_t{random.word[0]} << 32 | random.word[1];
  }

  RandomKey key_;
  int64_t block_;
};

}  // namespace tost::data

#endif  // TOST_DATA_RANDOM_DRAWS_H_
