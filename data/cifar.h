// CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) in their binary versions: files of records without a
// header, a record being one label byte (CIFAR-10) or two, coarse and fine (CIFAR-100), and 32 x 32
// pixels as a red, a green and a blue plane, each row by row.
#ifndef TOST_DATA_CIFAR_H_
#define TOST_DATA_CIFAR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/file_tree.h"
#include "data/image.h"
#include "data/image_parts.h"

namespace tost::data {

// Which labels, and so which records.
enum class CifarLabels { kCifar10, kCifar100Fine, kCifar100Coarse };

inline constexpr int kCifarSide = 32;
inline constexpr int64_t kCifarPixels = 3 * kCifarSide * kCifarSide;
inline constexpr int64_t kCifar10Record = 1 + kCifarPixels;
inline constexpr int64_t kCifar100Record = 2 + kCifarPixels;

// The picture of a record: `planes` are its kCifarPixels bytes after the labels.
Image CifarImage(absl::string_view planes);

// Whether the tree holds files called as those of the set are.
bool LooksLikeCifar10(const FileTree& tree);   // data_batch_1.bin …
bool LooksLikeCifar100(const FileTree& tree);  // train.bin and test.bin

// Training and test part. All labels are read and checked here; pictures when they are asked for.
// Errors name the file and the record (counted from 0): a file that is missing, empty or of another
// size than whole records, or that looks like the other set; labels out of range; a list of class
// names (used when there is one) of another length. Coarse labels that are not those of the fine
// ones are an error when coarse ones are asked for, otherwise a note.
absl::StatusOr<ImageParts> OpenCifar(const std::shared_ptr<const FileTree>& tree,
                                     CifarLabels labels);

}  // namespace tost::data

#endif  // TOST_DATA_CIFAR_H_
