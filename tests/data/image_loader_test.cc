#include "data/image_loader.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_pictures.h"

namespace tost::data {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

constexpr int64_t kClasses = 5;

// Pictures of noise; those of `bad` are no image files.
ImageDataset Pictures(int count, const std::set<int64_t>& bad = {}, int size = 8) {
  ImageDataset data;
  for (int i = 0; i < count; ++i) {
    data.items.push_back({absl::StrCat("picture ", i), static_cast<int32_t>(i % kClasses)});
  }
  data.read = [bad, size](int64_t i) -> absl::StatusOr<StoredImage> {
    if (bad.contains(i)) return StoredImage(std::string("no picture"));
    return StoredImage(NoisePicture(size, size, static_cast<uint64_t>(i)));
  };
  return data;
}

ImageLoaderOptions Options(int64_t micro_batch, int64_t micro_steps = 1, int workers = 1) {
  ImageLoaderOptions options{.classes = kClasses,
                             .micro_batch = micro_batch,
                             .micro_steps = micro_steps,
                             .workers = workers,
                             .seed = 3};
  options.augment.size = 8;
  options.augment.crop = CropKind::kPadded;
  return options;
}

ImageLoaderOptions WithEverything(ImageLoaderOptions options) {
  options.augment.rand_augment = *ParseRandAugment("rand-m9-mstd0.5-inc1");
  options.augment.erase_probability = 0.5f;
  options.mixing = {.mixup_alpha = 0.8f, .cutmix_alpha = 1};
  options.label_smoothing = 0.1f;
  return options;
}

struct Values {
  std::vector<float> images, targets;
  friend bool operator==(const Values&, const Values&) = default;
};

// The whole global batch of an update, micro-step after micro-step and rank after rank.
Values UpdateOf(const ImageDataset& data, ImageLoaderOptions options, int64_t update) {
  Values values;
  for (int64_t micro_step = 0; micro_step < options.micro_steps; ++micro_step) {
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
      const auto loader = *ImageLoader::Create(data, options);
      const ImageBatch batch = *loader->Batch(update, micro_step);
      for (const auto& [tensor, out] :
           {std::pair(&batch.images, &values.images), std::pair(&batch.targets, &values.targets)}) {
        const std::vector<float> some = tensor->ToHost();
        out->insert(out->end(), some.begin(), some.end());
      }
    }
  }
  return values;
}

TEST(ImageLoader, ABatchIsTheSameHoweverItIsDividedAndByHowManyItIsMade) {
  const ImageDataset data = Pictures(40);
  for (int64_t update : {1, 4, 7}) {
    const Values whole = UpdateOf(data, WithEverything(Options(8)), update);
    EXPECT_EQ(UpdateOf(data, WithEverything(Options(8, 1, 3)), update), whole);
    EXPECT_EQ(UpdateOf(data, WithEverything(Options(4, 2)), update), whole);
    ImageLoaderOptions ranks = WithEverything(Options(2, 2));
    ranks.ranks = 2;
    EXPECT_EQ(UpdateOf(data, ranks, update), whole);
  }
  EXPECT_NE(UpdateOf(data, WithEverything(Options(8)), 1),
            UpdateOf(data, WithEverything(Options(8)), 6));  // the next epoch
}

TEST(ImageLoader, AnEpochTakesEveryPictureOnceAndTheNextInAnotherOrder) {
  const ImageDataset data = Pictures(12);
  const auto loader = *ImageLoader::Create(data, Options(4));
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t update = 1; update <= 6; ++update) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      epochs[static_cast<size_t>(loader->EpochOf(update))].push_back(
          loader->PictureOf(update, slot));
    }
  }
  std::vector<int64_t> all(12);
  for (size_t i = 0; i < 12; ++i) all[i] = static_cast<int64_t>(i);
  EXPECT_THAT(epochs[0], UnorderedElementsAreArray(all));
  EXPECT_THAT(epochs[1], UnorderedElementsAreArray(all));
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(ImageLoader, RepeatedAugmentationShowsAPictureSeveralTimesEachTimeAnew) {
  const ImageDataset data = Pictures(12);
  ImageLoaderOptions options = Options(12);
  options.repeats = 3;
  const auto loader = *ImageLoader::Create(data, options);
  std::map<int64_t, std::vector<int64_t>> slots;  // of each picture
  for (int64_t slot = 0; slot < 12; ++slot) slots[loader->PictureOf(1, slot)].push_back(slot);
  EXPECT_EQ(slots.size(), 4u);
  const std::vector<float> images = loader->Batch(1, 0)->images.ToHost();
  for (const auto& [picture, places] : slots) {
    ASSERT_EQ(places.size(), 3u);
    const auto copy = [&](size_t i) {
      const auto begin = images.begin() + places[i] * 8 * 8 * 3;
      return std::vector<float>(begin, begin + 8 * 8 * 3);
    };
    EXPECT_FALSE(copy(0) == copy(1) && copy(1) == copy(2)) << "no shift or flip told them apart";
  }
}

TEST(ImageLoader, TargetsAreProbabilitiesOfThePairThatWasMixed) {
  const ImageDataset data = Pictures(40);
  ImageLoaderOptions options = Options(8);
  options.mixing = {.mixup_alpha = 1};
  const auto loader = *ImageLoader::Create(data, options);
  const std::vector<float> targets = loader->Batch(2, 0)->targets.ToHost();
  for (int64_t slot = 0; slot < 8; ++slot) {
    const int64_t own = loader->PictureOf(2, slot) % kClasses;
    const int64_t partner = loader->PictureOf(2, slot ^ 1) % kClasses;
    float sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      const float share = targets[static_cast<size_t>(slot * kClasses + c)];
      sum += share;
      if (c != own && c != partner) {
        EXPECT_EQ(share, 0);
      }
    }
    EXPECT_FLOAT_EQ(sum, 1);
  }
}

TEST(ImageLoader, NoUpdateIsAnErrorWithItsArithmetic) {
  const ImageDataset data = Pictures(7);
  ExpectOneLine(ImageLoader::Create(data, Options(4, 2)).status(),
                {"7 training pictures", "8 (4 pictures x 2 micro-steps x 1 ranks)", "0 updates"});
  ImageLoaderOptions odd = WithEverything(Options(3, 2));
  ExpectOneLine(ImageLoader::Create(Pictures(12), odd).status(), {"must be even", "3 pictures"});
}

TEST(ImageLoader, BadPicturesFailOrGiveWayToTheNextOne) {
  const ImageDataset data = Pictures(10, {3, 4});
  ImageLoaderOptions options = Options(10);
  auto loader = *ImageLoader::Create(data, options);
  ExpectOneLine(loader->Batch(1, 0).status(), {"picture"});

  options.bad_images = BadImages::kSkip;
  loader = *ImageLoader::Create(data, options);
  const absl::StatusOr<ImageBatch> batch = loader->Batch(1, 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const std::vector<float> targets = batch->targets.ToHost();
  for (int64_t slot = 0; slot < 10; ++slot) {
    const int64_t picture = loader->PictureOf(1, slot);
    const int64_t shown = picture == 3 || picture == 4 ? 5 : picture;
    EXPECT_EQ(targets[static_cast<size_t>(slot * kClasses + shown % kClasses)], 1);
  }
  EXPECT_EQ(loader->skipped().count(), 2);
  EXPECT_THAT(loader->skipped().reasons(), Each(HasSubstr("picture")));
}

TEST(ImageLoader, NothingButBadPicturesIsAnErrorEvenWhenSkipping) {
  ImageLoaderOptions options = Options(2);
  options.bad_images = BadImages::kSkip;
  const ImageDataset data = Pictures(2, {0, 1});
  const auto loader = *ImageLoader::Create(data, options);
  ExpectOneLine(loader->Batch(1, 0).status(), {"none of the training pictures"});
}

TEST(ImageEvaluation, EveryPictureCountsOnceOnAnyNumberOfRanks) {
  const ImageDataset data = Pictures(10, {6});
  for (int ranks : {1, 2, 3, 4}) {
    std::vector<int64_t> seen;
    std::vector<int64_t> calls;
    for (int rank = 0; rank < ranks; ++rank) {
      ImageEvaluation evaluation(data, {.transform = {.size = 8},
                                        .bad_images = BadImages::kSkip,
                                        .batch = 2,
                                        .rank = rank,
                                        .ranks = ranks,
                                        .workers = 2});
      for (int64_t k = 0; k < evaluation.batches(); ++k) {
        const ImageEvaluationBatch batch = *evaluation.Batch(k);
        EXPECT_EQ(batch.images.defined(), !batch.numbers.empty());
        for (size_t i = 0; i < batch.numbers.size(); ++i) {
          EXPECT_EQ(batch.labels[i], batch.numbers[i] % kClasses);
          seen.push_back(batch.numbers[i]);
        }
      }
      calls.push_back(evaluation.batches());
    }
    EXPECT_THAT(seen, UnorderedElementsAreArray({0, 1, 2, 3, 4, 5, 7, 8, 9})) << ranks << " ranks";
    EXPECT_THAT(calls, Each(calls[0]));
  }
}

}  // namespace
}  // namespace tost::data
