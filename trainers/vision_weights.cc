#include "trainers/vision_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/image_classifier.h"

namespace tost::train {
namespace {

constexpr char kPositions[] = "pos_embedding";

// The two old places between which a new one lies, and the share of the second.
struct Between {
  int64_t first;
  int64_t second;
  float share;
};

Between PlaceOf(int64_t index, int64_t old_side, int64_t new_side) {
  const double ratio = static_cast<double>(old_side) / static_cast<double>(new_side);
  const double place = std::clamp((static_cast<double>(index) + 0.5) * ratio - 0.5, 0.0,
                                  static_cast<double>(old_side - 1));
  const auto first = static_cast<int64_t>(place);
  return {first, std::min(first + 1, old_side - 1),
          static_cast<float>(place - static_cast<double>(first))};
}

// n of 1 + n² tokens; 0 when there is none.
int64_t SideOf(int64_t tokens) {
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(tokens - 1))));
  return tokens > 1 && side * side == tokens - 1 ? side : 0;
}

}  // namespace

std::vector<float> ResampledPositions(std::span<const float> positions, int64_t old_side,
                                      int64_t new_side, int64_t width) {
  const auto old_row = [&](int64_t y, int64_t x) {
    return positions.data() + (1 + y * old_side + x) * width;
  };
  std::vector<float> result(positions.begin(), positions.begin() + width);
  for (int64_t y = 0; y < new_side; ++y) {
    const Between rows = PlaceOf(y, old_side, new_side);
    for (int64_t x = 0; x < new_side; ++x) {
      const Between columns = PlaceOf(x, old_side, new_side);
      for (int64_t c = 0; c < width; ++c) {
        const auto along = [&](int64_t row) {
          return std::lerp(old_row(row, columns.first)[c], old_row(row, columns.second)[c],
                           columns.share);
        };
        result.push_back(std::lerp(along(rows.first), along(rows.second), rows.share));
      }
    }
  }
  return result;
}

absl::Status LoadStartingWeights(const Checkpoint& checkpoint, bool reset_head,
                                 ParameterSet& params) {
  LoadOptions options;
  if (reset_head) options.keeps = &models::IsHead;
  options.adapt = [](absl::string_view name, const TensorEntry& entry,
                     const std::vector<float>& values,
                     const Shape& wanted) -> std::optional<std::vector<float>> {
    if (name != kPositions || entry.shape.size() != 3 || wanted.rank() != 3) return std::nullopt;
    const int64_t old_side = SideOf(entry.shape[1]), new_side = SideOf(wanted[1]);
    if (old_side == 0 || new_side == 0 || entry.shape[2] != wanted[2]) return std::nullopt;
    return ResampledPositions(values, old_side, new_side, wanted[2]);
  };
  return checkpoint.LoadWeights(params, options);
}

}  // namespace tost::train
