// Resizing and the operations of RandAugment against Pillow 9.4's pixels, normalisation and mixing
// against NumPy's values. Pixels are compared with ==.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "data/augment.h"
#include "data/image_ops.h"
#include "data/image_resize.h"
#include "data/mixing.h"
#include "data/random_augment.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden.h"

namespace tost::data {
namespace {

using golden::GoldenFile;
using nlohmann::json;

// Of float32 arithmetic on values of about 1.
constexpr double kFloatBound = 1e-6;

std::string PathOf(const std::string& name) {
  return absl::StrCat(golden::GoldenFolder(), "/images/", name);
}

Image ImageOf(const GoldenFile& file, const std::string& tensor) {
  const Shape shape = file.ShapeOf(tensor);
  Image image(static_cast<int>(shape[1]), static_cast<int>(shape[0]));
  image.pixels = file.Values<uint8_t>(tensor);
  return image;
}

std::string FirstDifference(const Image& actual, const Image& expected) {
  if (actual.width != expected.width || actual.height != expected.height) {
    return absl::StrCat(actual.width, "x", actual.height, " pixels instead of ", expected.width,
                        "x", expected.height);
  }
  int64_t different = 0;
  std::string first;
  for (size_t i = 0; i < expected.pixels.size(); ++i) {
    if (actual.pixels[i] == expected.pixels[i]) continue;
    if (different++ == 0) {
      first = absl::StrCat("byte ", i, " is ", static_cast<int>(actual.pixels[i]), " instead of ",
                           static_cast<int>(expected.pixels[i]));
    }
  }
  return different == 0 ? "" : absl::StrCat(different, " bytes differ; ", first);
}

// Calls `check` with each tensor that has parameters, its source picture and what it should be.
template <class Check>
void ForEachTensor(const std::string& name, Check&& check) {
  const GoldenFile file = GoldenFile::Read(PathOf(name));
  int64_t tensors = 0;
  for (const std::string& tensor : file.TensorNames()) {
    if (tensor.starts_with("source_")) continue;
    SCOPED_TRACE(tensor);
    const json parameters = json::parse(file.Text(tensor));
    const std::string source = parameters.value("source", "p");
    const Image actual = check(parameters, ImageOf(file, absl::StrCat("source_", source)));
    EXPECT_EQ(FirstDifference(actual, ImageOf(file, tensor)), "");
    ++tensors;
  }
  EXPECT_GT(tensors, 50);
}

Filter FilterOf(const json& parameters) {
  const std::string name = parameters.at("filter");
  if (name == "nearest") return Filter::kNearest;
  if (name == "box") return Filter::kBox;
  if (name == "bilinear") return Filter::kBilinear;
  if (name == "bicubic") return Filter::kBicubic;
  EXPECT_EQ(name, "lanczos");
  return Filter::kLanczos;
}

Image Resized(const json& p, const Image& source) {
  const std::string op = p.at("op");
  if (op == "horizontal flip") return FlipHorizontally(source);
  if (op == "vertical flip") {
    return Affine(source, {1, 0, 0, 0, -1, static_cast<double>(source.height)}, Filter::kNearest,
                  {});
  }
  if (op.starts_with("zero pad 4")) return PadAndCrop(source, 4, p.at("left"), p.at("top"));
  if (op.starts_with("shorter side")) {
    return ResizeShorterAndCrop(source, p.at("resize_to"), p.at("crop"), FilterOf(p));
  }
  const int width = p.at("size_wh").at(0), height = p.at("size_wh").at(1);
  if (op.starts_with("crop then resize")) {
    const double x = p.at("left"), y = p.at("top");
    const Box box{x, y, x + p.at("width").get<double>(), y + p.at("height").get<double>()};
    return CropAndResize(source, box, width, height, FilterOf(p));
  }
  if (!p.contains("box_ltrb")) return Resize(source, width, height, FilterOf(p));
  const auto box = p.at("box_ltrb").get<std::vector<double>>();
  return Resize(source, width, height, FilterOf(p), {box[0], box[1], box[2], box[3]});
}

using Operation = RandAugment::Operation;

// "BrightnessIncreasing", "translate_x" and "TranslateXRel" without case, dashes and suffixes.
Operation OperationNamed(std::string name) {
  std::erase(name, '_');
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string suffix : {"increasing", "original", "rel"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  static const std::map<std::string, Operation> names = {
      {"identity", Operation::kIdentity},     {"autocontrast", Operation::kAutoContrast},
      {"equalize", Operation::kEqualize},     {"invert", Operation::kInvert},
      {"rotate", Operation::kRotate},         {"posterize", Operation::kPosterize},
      {"solarize", Operation::kSolarize},     {"solarizeadd", Operation::kSolarizeAdd},
      {"color", Operation::kColor},           {"contrast", Operation::kContrast},
      {"brightness", Operation::kBrightness}, {"sharpness", Operation::kSharpness},
      {"shearx", Operation::kShearX},         {"sheary", Operation::kShearY},
      {"translatex", Operation::kTranslateX}, {"translatey", Operation::kTranslateY}};
  EXPECT_EQ(names.count(name), 1u) << name;
  return names.at(name);
}

Geometry GeometryOf(const json& p) {
  if (!p.contains("filter")) return {};
  return {FilterOf(p), p.at("fill").get<Color>()};
}

// What the file says that the operation works with; nothing where it takes no argument.
std::optional<double> ArgumentIn(const json& p, Operation operation) {
  if (p.contains("matrix")) {
    const auto matrix = p.at("matrix").get<std::vector<double>>();
    if (operation == Operation::kShearX) return matrix[1];
    if (operation == Operation::kShearY) return matrix[3];
    return operation == Operation::kTranslateX ? matrix[2] : matrix[5];
  }
  for (const char* key : {"angle_degrees", "factor", "bits", "threshold", "value"}) {
    // SolarizeAdd has a threshold too, which never changes.
    if (operation == Operation::kSolarizeAdd) return p.at("add").get<double>();
    if (p.contains(key)) return p.at(key).get<double>();
  }
  return std::nullopt;
}

// Applies the operation with the file's argument, which must also be what its magnitude gives.
Image Augmented(const RandAugment& policy, const std::string& magnitude, const json& p,
                const Image& source) {
  const std::string name = p.at("op");
  const Operation operation = OperationNamed(name);
  const std::optional<double> expected = ArgumentIn(p, operation);
  double argument = expected.value_or(0);
  // PosterizeOriginal is another policy's; some pictures are enhanced by a given factor.
  if (p.contains(magnitude) && name != "PosterizeOriginal") {
    const double sign_of = p.value("signed_magnitude", p.value("value", argument - 1));
    argument =
        ArgumentOf(policy, operation, p.at(magnitude), sign_of < 0, source.width, source.height);
    EXPECT_EQ(argument, expected.value_or(0)) << p;
  }
  return ApplyOperation(operation, argument, GeometryOf(p), source);
}

TEST(AugmentGolden, TorchvisionRandAugment) {
  const RandAugment policy{.convention = RandAugment::Convention::kTorchvision};
  ForEachTensor("randaugment_torchvision.safetensors", [&](const json& p, const Image& source) {
    return Augmented(policy, "bin", p, source);
  });
}

TEST(AugmentGolden, TimmRandAugment) {
  ForEachTensor("randaugment_timm.safetensors", [&](const json& p, const Image& source) {
    const std::string name = p.at("op");
    const RandAugment policy{.increasing = name.ends_with("Increasing")};
    return Augmented(policy, "level", p, source);
  });
}

TEST(AugmentGolden, Resize) { ForEachTensor("resize.safetensors", Resized); }

TEST(AugmentGolden, Normalise) {
  const GoldenFile file = GoldenFile::Read(PathOf("normalise.safetensors"));
  for (const std::string& tensor : file.TensorNames()) {
    if (tensor.starts_with("source_")) continue;
    SCOPED_TRACE(tensor);
    const json p = json::parse(file.Text(tensor));
    Normalization constants;
    if (tensor.ends_with("half")) constants = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
    if (tensor.ends_with("cifar")) {
      constants = {{0.4914f, 0.4822f, 0.4465f}, {0.2023f, 0.1994f, 0.2010f}};
    }
    if (p.contains("mean")) constants = {p.at("mean"), p.at("std")};
    const Image source = ImageOf(file, absl::StrCat("source_", tensor.substr(0, tensor.find('_'))));
    std::vector<float> out(source.pixels.size());
    Normalize(source, constants, out);
    // The file holds [3, height, width].
    const std::vector<float> expected = file.Values<float>(tensor);
    ASSERT_EQ(expected.size(), out.size());
    const size_t plane = out.size() / 3;
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], expected[i % 3 * plane + i / 3]) << i;
  }
}

json MixingValues() {
  std::ifstream in(PathOf("mixup_cutmix.json"));
  return json::parse(in);
}

TEST(AugmentGolden, CutMixBoxes) {
  const json values = MixingValues();
  for (const json& p : values.at("cutmix")) {
    const Mixing mixing = CutmixBox(p.at("lambda"), p.at("centre_x"), p.at("centre_y"),
                                    p.at("width"), p.at("height"));
    const int x0 = p.at("x0"), y0 = p.at("y0"), x1 = p.at("x1"), y1 = p.at("y1");
    EXPECT_EQ(mixing.box, (Region{x0, y0, x1 - x0, y1 - y0})) << p;
    EXPECT_NEAR(mixing.lambda, p.at("lambda_corrected"), kFloatBound) << p;
  }
}

TEST(AugmentGolden, MixedLabels) {
  const json values = MixingValues();
  for (const json& p : values.at("labels")) {
    const auto labels = p.at("targets").get<std::vector<int32_t>>();
    const std::vector<int32_t> partners(labels.rbegin(), labels.rend());
    const int64_t classes = p.at("classes");
    const std::vector<float> targets =
        MixedTargets(p.at("lambda"), p.at("label_smoothing"), classes, labels, partners);
    ASSERT_EQ(targets.size(), labels.size() * static_cast<size_t>(classes));
    for (size_t i = 0; i < targets.size(); ++i) {
      const size_t row = i / static_cast<size_t>(classes), k = i % static_cast<size_t>(classes);
      const json& mixed = p.at("mixed").at(row);
      const double expected =
          mixed.at("values_at").value(absl::StrCat(k), mixed.at("all_other_classes").get<double>());
      EXPECT_NEAR(targets[i], expected, kFloatBound) << "row " << row << ", class " << k;
    }
  }
}

// The numbers of nested lists, in order.
std::vector<float> Flat(const json& nested) {
  if (!nested.is_array()) return {nested.get<float>()};
  std::vector<float> values;
  for (const json& part : nested) {
    const std::vector<float> inner = Flat(part);
    values.insert(values.end(), inner.begin(), inner.end());
  }
  return values;
}

TEST(AugmentGolden, MixedPixels) {
  const json p = MixingValues().at("mixup_pixels");
  std::vector<float> images = Flat(p.at("x"));
  const std::vector<float> expected = Flat(p.at("mixed"));
  MixImages({Mixing::Kind::kMixup, p.at("lambda")}, std::vector<int64_t>{1, 0}, 1,
            static_cast<int64_t>(images.size()) / 6, images);
  ASSERT_EQ(images.size(), expected.size());
  for (size_t i = 0; i < images.size(); ++i) EXPECT_NEAR(images[i], expected[i], kFloatBound) << i;
}

}  // namespace
}  // namespace tost::data
