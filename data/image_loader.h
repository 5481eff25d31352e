// Batches of augmented pictures as pure functions of the update number, and of evaluated pictures.
//
// Which pictures an update trains on, and what is done to them, depends on the seed, the update
// number and the global batch only: not on ranks, micro-steps, worker threads or restarts.
#ifndef TOST_DATA_IMAGE_LOADER_H_
#define TOST_DATA_IMAGE_LOADER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"
#include "data/augment.h"
#include "data/image_dataset.h"
#include "data/image_decode.h"
#include "data/mixing.h"
#include "data/prefetcher.h"

namespace tost::data {

// What happens when a picture cannot be read or decoded.
enum class BadImages {
  kFail,  // an error that names it
  kSkip,  // training takes the next picture of the split instead; evaluation leaves it out
};

// "fail" or "skip".
absl::StatusOr<BadImages> BadImagesNamed(absl::string_view name);

// The pictures that were skipped, each with its reason; filled by worker threads.
class SkippedImages {
 public:
  // Remembers and logs a picture that was not known before.
  void Add(const std::string& name, const absl::Status& why);
  int64_t count() const;
  std::vector<std::string> reasons() const;  // sorted by name

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> reason_of_;
};

struct ImageLoaderOptions {
  AugmentOptions augment;
  MixingOptions mixing;
  float label_smoothing = 0;
  int64_t classes = 0;
  int repeats = 1;  // repeated augmentation: copies of each picture that an epoch's order holds
  Orientation orientation = Orientation::kUpright;
  BadImages bad_images = BadImages::kFail;
  int64_t micro_batch = 64;  // b, pictures per rank and micro-step
  int64_t micro_steps = 1;
  int rank = 0;
  int ranks = 1;
  int workers = 1;  // threads that decode and augment
  uint64_t seed = 0;

  int64_t global_batch() const { return micro_batch * micro_steps * ranks; }
};

// In host memory, like a TokenBatch.
struct ImageBatch {
  Tensor images;      // [b, S, S, 3] float32, normalised
  Tensor targets;     // [b, classes] float32, probabilities
  int64_t first_row;  // row 0's place in the global batch, for RandomKey
};

// What an epoch of pictures comes to.
struct ImageEpochPlan {
  int64_t pictures = 0;      // in the split
  int64_t global_batch = 0;  // pictures per update
  int64_t updates = 0;       // per epoch: floor(pictures / global_batch)
  int64_t leftover = 0;      // pictures of an epoch that no update of it sees
  std::string summary;       // one line
};

// With G the global batch and n = updates per epoch, update u (from 1) belongs to epoch
// e = (u − 1)/n and takes the positions p = ((u − 1) mod n) · G + i, i in [0, G), of that epoch's
// order: picture Permutation(pictures, seed, e).At(p / repeats). Micro-step m of rank r holds the
// slots (m · ranks + r) · b + row, and slots 2k and 2k + 1 hold i = k and G − 1 − k: the two that
// timm's mixing (each picture with the one at the mirrored place of the batch) brings together lie
// next to each other, so that however the batch is divided into parts of even size, no part needs
// another's pictures.
class ImageLoader {
 public:
  // `data` must outlive the loader. Errors: zero updates per epoch, with the arithmetic; mixing
  // with an odd micro-batch that is not the whole batch.
  static absl::StatusOr<std::unique_ptr<ImageLoader>> Create(const ImageDataset& data,
                                                             const ImageLoaderOptions& options);

  // `update` counts from 1, `micro_step` from 0; the next ones in order are made meanwhile.
  absl::StatusOr<ImageBatch> Batch(int64_t update, int64_t micro_step);

  const ImageEpochPlan& plan() const { return plan_; }
  const ImageLoaderOptions& options() const { return options_; }
  // Epoch of an update, from 0.
  int64_t EpochOf(int64_t update) const { return (update - 1) / plan_.updates; }
  // Number of the picture in a slot of the update's global batch.
  int64_t PictureOf(int64_t update, int64_t slot) const;
  const SkippedImages& skipped() const { return skipped_; }

 private:
  ImageLoader(const ImageDataset& data, const ImageLoaderOptions& options, ImageEpochPlan plan);
  absl::StatusOr<ImageBatch> Assemble(int64_t call);
  // Augments the picture (or, if skipping, the next good one) into `out` and returns its label.
  absl::StatusOr<int32_t> Fill(int64_t picture, const RandomKey& key, std::span<float> out);
  absl::Status FillFrom(int64_t picture, const RandomKey& key, std::span<float> out) const;

  const ImageDataset& data_;
  ImageLoaderOptions options_;
  ImageEpochPlan plan_;
  SkippedImages skipped_;
  Prefetcher<ImageBatch> prefetcher_;  // the last member: its threads use the others
};

struct ImageEvaluationOptions {
  EvaluationTransform transform;
  Orientation orientation = Orientation::kUpright;
  BadImages bad_images = BadImages::kFail;
  int64_t batch = 64;  // pictures per rank and call
  int rank = 0;
  int ranks = 1;
  int workers = 1;
};

struct ImageEvaluationBatch {
  Tensor images;                 // [b, S, S, 3] float32; undefined when no picture is left
  std::vector<int32_t> labels;   // b
  std::vector<int64_t> numbers;  // b, of the pictures
};

// Every picture of a split exactly once, on any number of ranks. All ranks make the same number of
// calls; a batch may be short or empty.
class ImageEvaluation {
 public:
  // `data` must outlive it.
  ImageEvaluation(const ImageDataset& data, const ImageEvaluationOptions& options);
  int64_t batches() const { return batches_; }
  absl::StatusOr<ImageEvaluationBatch> Batch(int64_t k) { return prefetcher_.Take(k); }
  const SkippedImages& skipped() const { return skipped_; }

 private:
  absl::StatusOr<ImageEvaluationBatch> Assemble(int64_t k);

  const ImageDataset& data_;
  ImageEvaluationOptions options_;
  int64_t batches_;
  SkippedImages skipped_;
  Prefetcher<ImageEvaluationBatch> prefetcher_;  // the last member: its threads use the others
};

// A picture as evaluation sees it: [S, S, 3] into `out`.
absl::Status LoadForEvaluation(const StoredImage& stored, absl::string_view name,
                               Orientation orientation, const EvaluationTransform& transform,
                               std::span<float> out);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_LOADER_H_
