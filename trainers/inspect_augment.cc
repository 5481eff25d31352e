#include "trainers/inspect_augment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/contact_sheet.h"
#include "data/image_loader.h"
#include "data/image_resize.h"
#include "data/image_write.h"
#include "trainers/trainer.h"
#include "trainers/vision_settings.h"

namespace tost::train {
namespace {

constexpr int kColumns = 8;
constexpr int kSmallestTile = 96;  // pixels; smaller pictures are enlarged to it
constexpr size_t kShownLabels = 2;

// The inverse of normalisation, rounded; values beyond a byte are clipped.
data::Image PictureOf(std::span<const float> values, int size,
                      const data::Normalization& normalization) {
  data::Image image(size, size);
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i] * normalization.deviation[i % 3] + normalization.mean[i % 3];
    image.pixels[i] = static_cast<uint8_t>(std::clamp(std::lround(255 * value), 0L, 255L));
  }
  if (size >= kSmallestTile) return image;
  const int times = (kSmallestTile + size - 1) / size;
  return data::Resize(image, size * times, size * times, data::Filter::kNearest);
}

// "cat 0.72, dog 0.28": the largest shares.
std::string Caption(std::span<const float> shares, const std::vector<std::string>& classes) {
  std::vector<size_t> order(shares.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return shares[a] > shares[b]; });
  std::string caption;
  for (size_t i = 0; i < std::min(order.size(), kShownLabels); ++i) {
    // Label smoothing alone gives every class the same small share.
    if (i > 0 && shares[order[i]] <= shares[order.back()]) break;
    absl::StrAppendFormat(&caption, "%s%s %.2f", i == 0 ? "" : ", ", classes[order[i]],
                          shares[order[i]]);
  }
  return caption;
}

// The settings of the augmentation, for the title.
std::string Describe(const VisionTrainingOptions& options, int64_t update) {
  std::string text = absl::StrCat("update ", update, ", crop ", options.crop, ", ",
                                  options.interpolation, ", flip ", options.flip);
  const auto add = [&](const char* name, float value) {
    if (value > 0) absl::StrAppend(&text, ", ", name, " ", value);
  };
  if (!options.rand_augment.empty()) absl::StrAppend(&text, ", ", options.rand_augment);
  add("jitter", options.color_jitter);
  add("erasing", options.erasing);
  add("mixup", options.mixup);
  add("cutmix", options.cutmix);
  add("smoothing", options.label_smoothing);
  return text;
}

}  // namespace

absl::Status InspectAugment(const VisionTrainingOptions& options, int64_t update,
                            const std::string& sheet) {
  if (update < 1) return absl::InvalidArgumentError("--update counts from 1");
  TOST_ASSIGN_OR_RETURN(const data::ImageSets sets, OpenImages(options.data));
  VisionTrainingOptions fresh = options;
  fresh.reset_head = false;
  TOST_ASSIGN_OR_RETURN(const models::ImageClassifierConfig config,
                        ConfigOf(fresh, static_cast<int64_t>(sets.classes.size())));
  TOST_ASSIGN_OR_RETURN(const int micro_steps,
                        MicroSteps(options.global_batch, options.micro_batch));
  TOST_ASSIGN_OR_RETURN(const data::ImageLoaderOptions loader_options,
                        LoaderOptionsOf(options, config, micro_steps));
  TOST_ASSIGN_OR_RETURN(const std::unique_ptr<data::ImageLoader> loader,
                        data::ImageLoader::Create(sets.train, loader_options));
  const int size = loader_options.augment.size;
  const auto floats = static_cast<size_t>(size) * static_cast<size_t>(size) * 3;
  std::vector<data::Tile> tiles;
  for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
    TOST_ASSIGN_OR_RETURN(const data::ImageBatch batch, loader->Batch(update, micro_step));
    const std::vector<float> images = batch.images.ToHost(), targets = batch.targets.ToHost();
    for (size_t row = 0; row * floats < images.size(); ++row) {
      tiles.push_back(
          {PictureOf(std::span(images).subspan(row * floats, floats), size,
                     loader_options.augment.normalization),
           Caption(std::span(targets).subspan(row * sets.classes.size(), sets.classes.size()),
                   sets.classes)});
    }
  }
  TOST_RETURN_IF_ERROR(
      data::WritePng(sheet, data::ContactSheet(tiles, kColumns, Describe(options, update))));
  std::printf("%s: %d pictures of update %lld\n", sheet.c_str(), static_cast<int>(tiles.size()),
              static_cast<long long>(update));
  return absl::OkStatus();
}

}  // namespace tost::train
