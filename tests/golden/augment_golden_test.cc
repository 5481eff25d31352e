// Resizing and the operations of RandAugment against Pillow 9.4's pixels, normalisation and mixing
// against NumPy's values. Pixels are compared with ==.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "data/image_ops.h"
#include "data/image_resize.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden.h"

namespace tost::data {
namespace {

using golden::GoldenFile;
using nlohmann::json;

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

TEST(AugmentGolden, Resize) { ForEachTensor("resize.safetensors", Resized); }

}  // namespace
}  // namespace tost::data
