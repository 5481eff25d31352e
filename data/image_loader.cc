#include "data/image_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "data/permutation.h"

namespace tost::data {
namespace {

// Keeps the draws of augmentation and mixing apart from those of the model (dropout, drop path),
// which count from 0 under the same seed and update.
constexpr uint32_t kAugmentDraw = 0x61756700;
constexpr uint32_t kMixingDraw = 0x6d697800;

// The place in the mirrored order of the global batch that a slot holds; see ImageLoader.
int64_t PlaceOf(int64_t slot, int64_t global_batch) {
  return slot % 2 == 0 ? slot / 2 : global_batch - 1 - slot / 2;
}

// The neighbour that a row is mixed with; the last of an odd number stays alone.
std::vector<int64_t> PartnersOf(int64_t rows) {
  std::vector<int64_t> partners(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t neighbour = row ^ 1;
    partners[static_cast<size_t>(row)] = neighbour < rows ? neighbour : row;
  }
  return partners;
}

Box BoxOf(const Region& region) {
  return {.x0 = static_cast<double>(region.x),
          .y0 = static_cast<double>(region.y),
          .x1 = static_cast<double>(region.x + region.width),
          .y1 = static_cast<double>(region.y + region.height)};
}

bool Mixes(const MixingOptions& mixing) {
  return mixing.probability > 0 && (mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0);
}

absl::StatusOr<ImageEpochPlan> PlanImageEpoch(const ImageDataset& data,
                                              const ImageLoaderOptions& options) {
  ImageEpochPlan plan{.pictures = data.size(), .global_batch = options.global_batch()};
  if (options.micro_batch < 1 || options.micro_steps < 1 || options.repeats < 1 ||
      options.workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batch ", options.micro_batch, ", micro-steps ", options.micro_steps,
                     ", repeated augmentation ", options.repeats, " and workers ", options.workers,
                     " must all be at least 1"));
  }
  const std::string arithmetic =
      absl::StrCat(options.micro_batch, " pictures x ", options.micro_steps, " micro-steps x ",
                   options.ranks, " ranks");
  if (Mixes(options.mixing) && options.micro_batch % 2 == 1 &&
      options.micro_batch != plan.global_batch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mixup and cutmix pair the pictures of a micro-batch, so it must be even: ", arithmetic));
  }
  plan.updates = plan.pictures / plan.global_batch;
  if (plan.updates == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan.pictures, " training pictures, but one update takes ", plan.global_batch, " (",
        arithmetic, "): 0 updates per epoch; use more pictures or a smaller batch"));
  }
  plan.leftover = plan.pictures - plan.updates * plan.global_batch;
  plan.summary = absl::StrCat(plan.pictures, " training pictures: ", plan.updates, " update",
                              plan.updates == 1 ? "" : "s", " of ", plan.global_batch,
                              " per epoch, ", plan.leftover, " left over");
  if (options.repeats > 1) {
    absl::StrAppend(&plan.summary, "; each picture ", options.repeats, " times in a row");
  }
  return plan;
}

}  // namespace

absl::StatusOr<BadImages> BadImagesNamed(absl::string_view name) {
  if (name == "fail") return BadImages::kFail;
  if (name == "skip") return BadImages::kSkip;
  return absl::InvalidArgumentError(absl::StrCat("--bad_images is fail or skip, not '", name, "'"));
}

void SkippedImages::Add(const std::string& name, const absl::Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_of_.emplace(name, std::string(why.message())).second) return;
  }
  LogWarning(absl::StrCat("skipping a bad picture: ", why.message()));
}

int64_t SkippedImages::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(reason_of_.size());
}

std::vector<std::string> SkippedImages::reasons() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> reasons;
  for (const auto& [name, reason] : reason_of_) reasons.push_back(reason);
  return reasons;
}

ImageLoader::ImageLoader(const ImageDataset& data, const ImageLoaderOptions& options,
                         ImageEpochPlan plan)
    : data_(data),
      options_(options),
      plan_(std::move(plan)),
      prefetcher_([this](int64_t call) { return Assemble(call); }, options.workers) {}

absl::StatusOr<std::unique_ptr<ImageLoader>> ImageLoader::Create(
    const ImageDataset& data, const ImageLoaderOptions& options) {
  TOST_CHECK(options.rank >= 0 && options.rank < options.ranks)
      << "rank " << options.rank << " of " << options.ranks;
  TOST_RETURN_IF_ERROR(options.augment.Validate());
  TOST_ASSIGN_OR_RETURN(ImageEpochPlan plan, PlanImageEpoch(data, options));
  return std::unique_ptr<ImageLoader>(new ImageLoader(data, options, std::move(plan)));
}

int64_t ImageLoader::PictureOf(int64_t update, int64_t slot) const {
  const Permutation order(plan_.pictures, options_.seed, static_cast<uint64_t>(EpochOf(update)));
  const int64_t position =
      (update - 1) % plan_.updates * plan_.global_batch + PlaceOf(slot, plan_.global_batch);
  return order.At(position / options_.repeats);
}

absl::StatusOr<ImageBatch> ImageLoader::Batch(int64_t update, int64_t micro_step) {
  TOST_CHECK(update >= 1 && micro_step >= 0 && micro_step < options_.micro_steps)
      << "update " << update << ", micro-step " << micro_step;
  return prefetcher_.Take((update - 1) * options_.micro_steps + micro_step);
}

absl::StatusOr<ImageBatch> ImageLoader::Assemble(int64_t call) {
  const int64_t update = call / options_.micro_steps + 1, rows = options_.micro_batch;
  const int64_t first =
      (call % options_.micro_steps * options_.ranks + options_.rank) * options_.micro_batch;
  const int64_t size = options_.augment.size, floats = size * size * 3;
  RandomKey key{.seed = options_.seed, .step = static_cast<uint32_t>(update), .draw = kAugmentDraw};
  Tensor images = Tensor::Empty({rows, size, size, 3}, DType::kFloat32);
  std::vector<int32_t> labels(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    key.first_row = first + row;
    const std::span<float> out(images.mutable_data<float>() + row * floats,
                               static_cast<size_t>(floats));
    TOST_ASSIGN_OR_RETURN(labels[static_cast<size_t>(row)],
                          Fill(PictureOf(update, first + row), key, out));
  }

  const std::vector<int64_t> partners = PartnersOf(rows);
  key.draw = kMixingDraw;
  key.first_row = 0;
  const Mixing mixing =
      DrawMixing(options_.mixing, key, static_cast<int>(size), static_cast<int>(size));
  MixImages(mixing, partners, size, size,
            std::span(images.mutable_data<float>(), static_cast<size_t>(rows * floats)));
  std::vector<int32_t> partner_labels;
  for (int64_t partner : partners) partner_labels.push_back(labels[static_cast<size_t>(partner)]);
  const std::vector<float> targets = MixedTargets(mixing.lambda, options_.label_smoothing,
                                                  options_.classes, labels, partner_labels);
  return ImageBatch{.images = std::move(images),
                    .targets = Tensor::FromHost<float>({rows, options_.classes}, targets),
                    .first_row = first};
}

absl::StatusOr<int32_t> ImageLoader::Fill(int64_t picture, const RandomKey& key,
                                          std::span<float> out) {
  for (int64_t tries = 0; tries < data_.size(); ++tries) {
    const int64_t candidate = (picture + tries) % data_.size();
    const absl::Status status = FillFrom(candidate, key, out);
    const ImageDataset::Item& item = data_.items[static_cast<size_t>(candidate)];
    if (status.ok()) return item.label;
    if (options_.bad_images == BadImages::kFail) return status;
    skipped_.Add(item.name, status);
  }
  return absl::DataLossError("none of the training pictures can be decoded");
}

absl::Status ImageLoader::FillFrom(int64_t picture, const RandomKey& key,
                                   std::span<float> out) const {
  TOST_ASSIGN_OR_RETURN(const StoredImage stored, data_.read(picture));
  const AugmentOptions& augment = options_.augment;
  if (const Image* image = std::get_if<Image>(&stored)) {
    const Region region = RandomCropRegion(augment, image->width, image->height, key);
    Augment(augment, *image, BoxOf(region), key, out);
    return absl::OkStatus();
  }
  const std::string& bytes = std::get<std::string>(stored);
  const std::string& name = data_.items[static_cast<size_t>(picture)].name;
  TOST_ASSIGN_OR_RETURN(const ImageHeader header,
                        ReadImageHeader(bytes, name, options_.orientation));
  const Region region = RandomCropRegion(augment, header.width, header.height, key);
  TOST_ASSIGN_OR_RETURN(
      const DecodedRegion decoded,
      DecodeRegion(bytes, name, options_.orientation, region, augment.size, augment.size));
  Augment(augment, decoded.image, {decoded.x0, decoded.y0, decoded.x1, decoded.y1}, key, out);
  return absl::OkStatus();
}

absl::Status LoadForEvaluation(const StoredImage& stored, absl::string_view name,
                               Orientation orientation, const EvaluationTransform& transform,
                               std::span<float> out) {
  if (const Image* image = std::get_if<Image>(&stored)) {
    PrepareForEvaluation(transform, *image, out);
    return absl::OkStatus();
  }
  TOST_ASSIGN_OR_RETURN(const Image image,
                        DecodeImage(std::get<std::string>(stored), name, orientation));
  PrepareForEvaluation(transform, image, out);
  return absl::OkStatus();
}

ImageEvaluation::ImageEvaluation(const ImageDataset& data, const ImageEvaluationOptions& options)
    : data_(data),
      options_(options),
      batches_((data.size() + options.batch * options.ranks - 1) / (options.batch * options.ranks)),
      prefetcher_([this](int64_t k) { return Assemble(k); }, options.workers) {}

absl::StatusOr<ImageEvaluationBatch> ImageEvaluation::Assemble(int64_t k) {
  const int64_t first = (k * options_.ranks + options_.rank) * options_.batch;
  const int64_t end = std::min(first + options_.batch, data_.size());
  const int64_t size = options_.transform.size, floats = size * size * 3;
  ImageEvaluationBatch batch;
  std::vector<float> pixels;
  pixels.reserve(static_cast<size_t>(std::max<int64_t>(end - first, 0) * floats));
  for (int64_t i = first; i < end; ++i) {
    const ImageDataset::Item& item = data_.items[static_cast<size_t>(i)];
    const size_t begin = pixels.size();
    pixels.resize(begin + static_cast<size_t>(floats));
    const absl::StatusOr<StoredImage> stored = data_.read(i);
    const absl::Status status =
        stored.ok() ? LoadForEvaluation(*stored, item.name, options_.orientation,
                                        options_.transform, std::span(pixels).subspan(begin))
                    : stored.status();
    if (status.ok()) {
      batch.labels.push_back(item.label);
      batch.numbers.push_back(i);
      continue;
    }
    if (options_.bad_images == BadImages::kFail) return status;
    skipped_.Add(item.name, status);
    pixels.resize(begin);
  }
  if (!batch.labels.empty()) {
    batch.images =
        Tensor::FromHost<float>({static_cast<int64_t>(batch.labels.size()), size, size, 3}, pixels);
  }
  return batch;
}

}  // namespace tost::data
