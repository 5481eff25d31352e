// A set of labelled pictures as a run uses it: training, validation and test part, by a protocol
// that is named.
#ifndef TOST_DATA_IMAGE_SETS_H_
#define TOST_DATA_IMAGE_SETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image_dataset.h"

namespace tost::data {

struct ImageSetOptions {
  // Folders, archives, or files: those of one set.
  std::vector<std::string> data;
  // cifar10, cifar100, flowers102, pets, folders; empty: told by the files that are there.
  std::string format;
  // CIFAR-100's: fine or coarse.
  std::string labels = "fine";
  // official, or trainval: Flowers-102's validation part is for training too. Empty: official.
  std::string protocol;
  // Of the training part, for validation, when the set has no validation part of its own. 0 holds
  // nothing out.
  double validation_fraction = 0.1;
  uint64_t seed = 0;  // which pictures are held out
  // Go on with a warning when sizes or classes are not those of the set.
  bool any_sizes = false;
};

struct ImageSets {
  std::string format;
  // What a result file names: "cifar10, official; validation: 0.1 of train, seed 0".
  std::string protocol;
  std::vector<std::string> classes;
  ImageDataset train;
  ImageDataset validation;  // may be empty
  ImageDataset test;        // may be empty
  // Lines for the log: the sizes and where they come from; those that begin with "warning: " say
  // what is unusual.
  std::vector<std::string> notes;
};

// Opens a set and checks what can be told without decoding pictures.
//
// Splits: CIFAR, Pets and class folders: validation is held out of train, the same share of every
// class, by a draw that the seed, the class and its size decide. Class folders: val is the test
// part, as ImageNet's labelled validation set usually is, unless there is a test folder too; then
// val is for validation. Flowers-102: the authors' three parts; "trainval" trains on the first two
// but for what is held out.
//
// Errors, each of one line: see the readers of the formats; files of several formats or of none; a
// part whose size is not the official one, or in which a class is absent (both only warned of with
// any_sizes; the sizes of popular repacks are recognised); options that are out of range.
absl::StatusOr<ImageSets> OpenImageSets(const ImageSetOptions& options);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_SETS_H_
