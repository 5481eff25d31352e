// Counter-based random numbers (Philox4x32-10, Salmon et al., SC 2011), the same on host and
// device.
//
// No generator state exists anywhere: a draw is a pure function of a key and a position, so results
// do not depend on threads, on ranks, on how a batch is split, or on where a run was resumed.
#ifndef TOST_AUTOGRAD_BASE_PHILOX_H_
#define TOST_AUTOGRAD_BASE_PHILOX_H_

#include <cstdint>

#include "autograd/base/bfloat16.h"

namespace tost {

struct Philox4 {
  uint32_t word[4];
};

// Ten rounds of Philox4x32.
TOST_HD inline Philox4 Philox(Philox4 counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Names one tensor of random numbers: the `draw`-th of update `step` in the run seeded by `seed`.
// `first_row` is the global row (of the whole batch of the update) at which this tensor begins.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t draw = 0;
  int64_t first_row = 0;
};

// The four words at columns 4·block … 4·block+3 of a row.
TOST_HD inline Philox4 RandomWords(const RandomKey& key, int64_t row, int64_t block) {
  const uint64_t global_row = static_cast<uint64_t>(key.first_row + row);
  return Philox(
      {{static_cast<uint32_t>(block), static_cast<uint32_t>(global_row), key.draw, key.step}},
      static_cast<uint32_t>(key.seed),
      static_cast<uint32_t>(key.seed >> 32) ^ static_cast<uint32_t>(global_row >> 32));
}

// A word as a float in [0, 1): its upper 24 bits.
TOST_HD inline float UniformOf(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

// Uniform in [0, 1) at one element.
TOST_HD inline float Uniform(const RandomKey& key, int64_t row, int64_t column) {
  return UniformOf(RandomWords(key, row, column / 4).word[column % 4]);
}

// Hands out the keys of one update in program order. It is a value: a copy replays the same keys,
// which is how recomputation draws the same masks again.
class RandomStream {
 public:
  RandomStream() = default;
  RandomStream(uint64_t seed, uint32_t step, int64_t first_row = 0)
      : next_{seed, step, 0, first_row} {}
  RandomKey Next() {
    RandomKey key = next_;
    ++next_.draw;
    return key;
  }

 private:
  RandomKey next_;
};

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_PHILOX_H_
