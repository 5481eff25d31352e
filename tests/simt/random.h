// A small generator for schedules (xorshift64*, Vigna 2016).
#ifndef TOST_TESTS_SIMT_RANDOM_H_
#define TOST_TESTS_SIMT_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace tost::simt {

class Random {
 public:
  explicit Random(uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}

  size_t Below(size_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<size_t>((state_ * 0x2545f4914f6cdd1du) >> 33) % bound;
  }

 private:
  uint64_t state_;
};

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_RANDOM_H_
