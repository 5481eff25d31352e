// RandAugment (Cubuk et al., 2020) in the two conventions that vision recipes use.
//
//   timm         15 operations, each of the n drawn ones applied with probability p, at level
//                clip(m + deviation · N(0, 1), 0, 10); with "inc", severity grows with the level
//   torchvision  14 operations, always applied, at bin m of 31
//
// Operations are drawn with replacement. What they do is Pillow's arithmetic (data/image_ops.h).
#ifndef TOST_DATA_RANDOM_AUGMENT_H_
#define TOST_DATA_RANDOM_AUGMENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/base/philox.h"
#include "data/image.h"
#include "data/image_ops.h"

namespace tost::data {

struct RandAugment {
  enum class Convention { kTimm, kTorchvision };
  enum class Operation {
    kIdentity,
    kAutoContrast,
    kEqualize,
    kInvert,
    kRotate,
    kPosterize,
    kSolarize,
    kSolarizeAdd,
    kColor,
    kContrast,
    kBrightness,
    kSharpness,
    kShearX,
    kShearY,
    kTranslateX,
    kTranslateY,
  };

  Convention convention = Convention::kTimm;
  int operations = 2;     // n
  double magnitude = 10;  // m: level 0 … 10 (timm), bin 0 … 30 (torchvision)
  double deviation = 0;   // of the level; infinite: uniform in [0, m)
  bool increasing = false;
  double probability = 1;  // p, of applying an operation that was drawn
};

// "rand-m9-mstd0.5-inc1": timm's names, m (10), n (2), mstd (0; above 100: uniform), inc (0) and
// p (0.5), in any order. "torchvision-n2-m14": n (2) and m (9). Anything else is an error that
// quotes the part it does not understand.
absl::StatusOr<RandAugment> ParseRandAugment(absl::string_view text);

// The operations that a convention draws from, in its order.
std::span<const RandAugment::Operation> OperationsOf(RandAugment::Convention convention);

// The number an operation works with at a magnitude, for a picture of these extents: shear, column
// or row offset of what is read (the matrix entry), degrees, factor, bits, threshold, addition; 0
// where it takes none. `negative` has a meaning for those with two directions only.
double ArgumentOf(const RandAugment& policy, RandAugment::Operation operation, double magnitude,
                  bool negative, int width, int height);

// How geometric operations read the picture, and what is beyond its border.
struct Geometry {
  Filter filter = Filter::kNearest;
  Color fill{};
};

Image ApplyOperation(RandAugment::Operation operation, double argument, const Geometry& geometry,
                     Image image);

// One of the operations that a key chooses.
struct DrawnOperation {
  RandAugment::Operation operation;
  double magnitude;
  bool negative;
};

// Blocks of four words that RandAugment draws at most: four for each of sixteen operations.
inline constexpr int64_t kMostRandAugmentBlocks = 64;

// Those that are to be applied, in order. Draws from row 0 of the key, from `block` on.
std::vector<DrawnOperation> DrawOperations(const RandAugment& policy, const RandomKey& key,
                                           int64_t block);

// Draws and applies.
Image ApplyRandAugment(const RandAugment& policy, const Geometry& geometry, const RandomKey& key,
                       int64_t block, Image image);

}  // namespace tost::data

#endif  // TOST_DATA_RANDOM_AUGMENT_H_
