// The weights by which one axis of a picture is resized.
#ifndef TOST_DATA_IMAGE_TAPS_H_
#define TOST_DATA_IMAGE_TAPS_H_

#include <cstdint>
#include <vector>

#include "data/image_resize.h"

namespace tost::data {

// Weights are multiples of 2^-22 and come from doubles, rounded.
inline constexpr int kWeightBits = 22;

// [begin, end) of an axis of `inputs` pixels becomes `outputs` pixels, of which those from `first`
// on, `count` of them, are wanted.
struct Axis {
  int inputs;
  float begin;
  float end;
  int64_t outputs;
  int64_t first;
  int count;

  double scale() const { return static_cast<double>(end - begin) / static_cast<double>(outputs); }
  bool unchanged() const {
    return outputs == inputs && begin == 0 && end == static_cast<float>(inputs);
  }
};

// Which inputs make up each wanted output of an axis, with what fixed-point weights.
// Ranges point into `weights`: to be moved, not copied.
struct Taps {
  struct Range {
    int first;
    int count;
    const int32_t* weights;
  };

  Taps() = default;
  Taps(Taps&&) = default;

  std::vector<Range> outputs;
  std::vector<int32_t> weights;
};

// For every filter but kNearest.
Taps TapsOf(const Axis& axis, Filter filter);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_TAPS_H_
