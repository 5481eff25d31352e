#include "data/random_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <ostream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "autograd/base/errors.h"
#include "data/random_draws.h"

namespace tost::data {
namespace {

using Operation = RandAugment::Operation;
using Convention = RandAugment::Convention;

// Draws of one operation: which, whether, magnitude, sign.
constexpr int64_t kBlocksPerOperation = 4;
constexpr int kMostOperations = static_cast<int>(kMostRandAugmentBlocks / kBlocksPerOperation);
constexpr int kBins = 31;

// timm's _RAND_TRANSFORMS; its _RAND_INCREASING_TRANSFORMS are in the same order.
constexpr std::array kTimmOperations = {
    Operation::kAutoContrast, Operation::kEqualize,   Operation::kInvert,      Operation::kRotate,
    Operation::kPosterize,    Operation::kSolarize,   Operation::kSolarizeAdd, Operation::kColor,
    Operation::kContrast,     Operation::kBrightness, Operation::kSharpness,   Operation::kShearX,
    Operation::kShearY,       Operation::kTranslateX, Operation::kTranslateY};

constexpr std::array kTorchvisionOperations = {
    Operation::kIdentity,     Operation::kShearX,    Operation::kShearY,     Operation::kTranslateX,
    Operation::kTranslateY,   Operation::kRotate,    Operation::kBrightness, Operation::kColor,
    Operation::kContrast,     Operation::kSharpness, Operation::kPosterize,  Operation::kSolarize,
    Operation::kAutoContrast, Operation::kEqualize};

// Bin `bin` of torch.linspace(start, end, 31): float32, counted from the nearer end.
double BinOf(float start, float end, double bin) {
  const int i = static_cast<int>(bin);
  const float step = (end - start) / static_cast<float>(kBins - 1);
  return i < kBins / 2 ? start + step * static_cast<float>(i)
                       : end - step * static_cast<float>(kBins - 1 - i);
}

// torchvision hands a shear over as an angle in degrees.
double ThroughAngle(double shear) {
  constexpr double kDegrees = 180 / std::numbers::pi;
  return std::tan(std::atan(shear) * kDegrees * (std::numbers::pi / 180));
}

double TorchvisionArgument(Operation operation, double bin, double sign, int width, int height) {
  auto pixels = [&](int extent) {
    const float most = static_cast<float>(150.0 / 331.0 * extent);
    return -std::trunc(sign * BinOf(0, most, bin));
  };
  switch (operation) {
    case Operation::kShearX:
    case Operation::kShearY:
      return ThroughAngle(sign * BinOf(0, 0.3f, bin));
    case Operation::kTranslateX:
      return pixels(width);
    case Operation::kTranslateY:
      return pixels(height);
    case Operation::kRotate:
      return sign * BinOf(0, 30, bin);
    case Operation::kBrightness:
    case Operation::kColor:
    case Operation::kContrast:
    case Operation::kSharpness:
      return 1 + sign * BinOf(0, 0.9f, bin);
    case Operation::kPosterize:
      return 8 - std::nearbyint(bin / (static_cast<float>(kBins - 1) / 4));
    case Operation::kSolarize:
      return BinOf(255, 0, bin);
    default:
      return 0;
  }
}

double TimmArgument(Operation operation, double level, bool increasing, double sign, int width,
                    int height) {
  const double share = level / 10;
  switch (operation) {
    case Operation::kRotate:
      return sign * (share * 30);
    case Operation::kPosterize: {
      const double bits = std::trunc(share * 4);
      return increasing ? 4 - bits : bits;
    }
    case Operation::kSolarize: {
      const double threshold = std::trunc(share * 256);
      return increasing ? 256 - threshold : threshold;
    }
    case Operation::kSolarizeAdd:
      return std::trunc(share * 110);
    case Operation::kColor:
    case Operation::kContrast:
    case Operation::kBrightness:
    case Operation::kSharpness:
      return increasing ? std::max(0.1, 1 + sign * (share * 0.9)) : share * 1.8 + 0.1;
    case Operation::kShearX:
    case Operation::kShearY:
      return sign * (share * 0.3);
    case Operation::kTranslateX:
      return sign * (share * 0.45) * width;
    case Operation::kTranslateY:
      return sign * (share * 0.45) * height;
    default:
      return 0;
  }
}

// What clip(m + deviation · N(0, 1)) or its uniform form comes to.
double DrawMagnitude(const RandAugment& policy, RandomDraws& draws) {
  if (policy.convention == Convention::kTorchvision) return policy.magnitude;
  const double level = std::isinf(policy.deviation)
                           ? draws.Uniform(0, policy.magnitude)
                           : policy.magnitude + policy.deviation * draws.NormalPair().first;
  return std::clamp(level, 0.0, 10.0);
}

// The name and the number of "mstd0.5".
struct Setting {
  absl::string_view name;
  double value = 0;
};

absl::StatusOr<Setting> ParseSetting(absl::string_view part, absl::string_view text) {
  const size_t digits = std::min(part.find_first_of("0123456789."), part.size());
  Setting setting{part.substr(0, digits)};
  if (!absl::SimpleAtod(part.substr(digits), &setting.value) || !(setting.value >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("RandAugment \"", text, "\": \"", part,
                     "\" is not a name and a number; write for example m9 or mstd0.5"));
  }
  return setting;
}

absl::Status CheckRange(absl::string_view text, const Setting& setting, double low, double high,
                        bool whole) {
  if (setting.value >= low && setting.value <= high &&
      (!whole || setting.value == std::trunc(setting.value))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("RandAugment \"", text, "\": ", setting.name,
                                                 " must be a ", whole ? "whole " : "",
                                                 "number from ", low, " to ", high));
}

absl::Status Apply(const Setting& setting, absl::string_view text, RandAugment& policy) {
  const bool timm = policy.convention == Convention::kTimm;
  if (setting.name == "n") {
    policy.operations = static_cast<int>(std::min<double>(setting.value, kMostOperations + 1));
    return CheckRange(text, setting, 1, kMostOperations, true);
  }
  if (setting.name == "m") {
    policy.magnitude = setting.value;
    return timm ? CheckRange(text, setting, 0, 10, false)
                : CheckRange(text, setting, 0, kBins - 1, true);
  }
  if (timm && setting.name == "mstd") {
    policy.deviation =
        setting.value > 100 ? std::numeric_limits<double>::infinity() : setting.value;
    return absl::OkStatus();
  }
  if (timm && setting.name == "inc") {
    policy.increasing = setting.value != 0;
    return CheckRange(text, setting, 0, 1, true);
  }
  if (timm && setting.name == "p") {
    policy.probability = setting.value;
    return CheckRange(text, setting, 0, 1, false);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("RandAugment \"", text, "\": there is no setting \"", setting.name, "\", only ",
                   timm ? "m, n, mstd, inc and p" : "m and n"));
}

}  // namespace

absl::StatusOr<RandAugment> ParseRandAugment(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  RandAugment policy;
  if (parts[0] == "rand") {
    policy.probability = 0.5;
  } else if (parts[0] == "torchvision") {
    policy.convention = Convention::kTorchvision;
    policy.magnitude = 9;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "RandAugment \"", text,
        "\" begins neither with \"rand\" (timm's convention) nor with \"torchvision\"; "
        "write for example rand-m9-mstd0.5-inc1 or torchvision-n2-m14"));
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    TOST_ASSIGN_OR_RETURN(const Setting setting, ParseSetting(parts[i], text));
    TOST_RETURN_IF_ERROR(Apply(setting, text, policy));
  }
  return policy;
}

std::span<const RandAugment::Operation> OperationsOf(Convention convention) {
  if (convention == Convention::kTimm) return kTimmOperations;
  return kTorchvisionOperations;
}

double ArgumentOf(const RandAugment& policy, Operation operation, double magnitude, bool negative,
                  int width, int height) {
  const double sign = negative ? -1 : 1;
  return policy.convention == Convention::kTorchvision
             ? TorchvisionArgument(operation, magnitude, sign, width, height)
             : TimmArgument(operation, magnitude, policy.increasing, sign, width, height);
}

Image ApplyOperation(Operation operation, double argument, const Geometry& geometry, Image image) {
  auto affine = [&](const std::array<double, 6>& matrix) {
    return Affine(image, matrix, geometry.filter, geometry.fill);
  };
  switch (operation) {
    case Operation::kIdentity:
      return image;
    case Operation::kAutoContrast:
      return AutoContrast(std::move(image));
    case Operation::kEqualize:
      return Equalize(std::move(image));
    case Operation::kInvert:
      return Invert(std::move(image));
    case Operation::kRotate:
      return Rotate(image, argument, geometry.filter, geometry.fill);
    case Operation::kPosterize:
      return Posterize(std::move(image), static_cast<int>(argument));
    case Operation::kSolarize:
      return Solarize(std::move(image), argument);
    case Operation::kSolarizeAdd:
      return SolarizeAdd(std::move(image), static_cast<int>(argument));
    case Operation::kColor:
      return AdjustColor(std::move(image), argument);
    case Operation::kContrast:
      return AdjustContrast(std::move(image), argument);
    case Operation::kBrightness:
      return AdjustBrightness(std::move(image), argument);
    case Operation::kSharpness:
      return AdjustSharpness(std::move(image), argument);
    case Operation::kShearX:
      return affine({1, argument, 0, 0, 1, 0});
    case Operation::kShearY:
      return affine({1, 0, 0, argument, 1, 0});
    case Operation::kTranslateX:
      return affine({1, 0, argument, 0, 1, 0});
    case Operation::kTranslateY:
      return affine({1, 0, 0, 0, 1, argument});
  }
  return image;
}

std::vector<DrawnOperation> DrawOperations(const RandAugment& policy, const RandomKey& key,
                                           int64_t block) {
  TOST_CHECK_LE(policy.operations, kMostOperations) << "RandAugment";
  const std::span<const Operation> all = OperationsOf(policy.convention);
  std::vector<DrawnOperation> drawn;
  for (int i = 0; i < policy.operations; ++i, block += kBlocksPerOperation) {
    RandomDraws draws(key, block);
    const size_t index = static_cast<size_t>(draws.Below(static_cast<int64_t>(all.size())));
    const bool applied = draws.Chance(policy.probability);
    const bool negative = draws.Chance(0.5);
    if (applied) drawn.push_back({all[index], DrawMagnitude(policy, draws), negative});
  }
  return drawn;
}

Image ApplyRandAugment(const RandAugment& policy, const Geometry& geometry, const RandomKey& key,
                       int64_t block, Image image) {
  for (const DrawnOperation& drawn : DrawOperations(policy, key, block)) {
    const double argument = ArgumentOf(policy, drawn.operation, drawn.magnitude, drawn.negative,
                                       image.width, image.height);
    image = ApplyOperation(drawn.operation, argument, geometry, std::move(image));
  }
  return image;
}

}  // namespace tost::data
