// A keyed permutation of [0, n): the order in which an epoch visits its blocks, without an array.
//
// At(i) is computed on its own in constant time and memory, so any rank, thread or resumed run can
// ask for any position of any epoch.
#ifndef TOST_DATA_PERMUTATION_H_
#define TOST_DATA_PERMUTATION_H_

#include <bit>
#include <cstdint>

#include "autograd/base/errors.h"
#include "autograd/base/philox.h"

namespace tost::data {

// A Feistel network over the smallest even number of bits that holds n, with Philox as its round
// function: a bijection of [0, 2^(2k)) for every key. Values >= n are sent through it again until
// one is < n (cycle walking), which makes it a bijection of [0, n). As 2^(2k) < 4n, that takes
// less than four passes on average.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t epoch)
      : size_(static_cast<uint64_t>(size)), seed_(seed), epoch_(epoch) {
    TOST_CHECK(size > 0 && size <= (int64_t{1} << 62)) << "a permutation of " << size << " values";
    half_bits_ = (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2;
  }

  int64_t size() const { return static_cast<int64_t>(size_); }

  // The value at position `i` in [0, size()).
  int64_t At(int64_t i) const {
    TOST_CHECK(i >= 0 && i < size()) << "position " << i << " of " << size();
    uint64_t value = static_cast<uint64_t>(i);
    do {
      value = Pass(value);
    } while (value >= size_);
    return static_cast<int64_t>(value);
  }

 private:
  // Small domains have few distinct round functions; eight rounds mix even those well.
  static constexpr uint32_t kRounds = 8;

  uint64_t Pass(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Philox4 words =
          Philox({{static_cast<uint32_t>(right), round, static_cast<uint32_t>(epoch_),
                   static_cast<uint32_t>(epoch_ >> 32)}},
                 static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
      const uint64_t mixed = left ^ (words.word[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_;
  uint64_t seed_;
  uint64_t epoch_;
  int half_bits_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_PERMUTATION_H_
