#include "trainers/import_model.h"

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "trainers/import_language.h"
#include "trainers/import_vision.h"
#include "trainers/vision_layout.h"

namespace tost::train {

absl::Status ImportModel(const ImportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const ImportSource source, ImportSourceOf(options.from));
  TOST_ASSIGN_OR_RETURN(const WeightFile file, OpenForImport(source));
  if (LooksLikeImageClassifier(file.entries())) return ImportVision(options);
  if (options.image_size == 0) return ImportLanguage(options);
  return absl::InvalidArgumentError(absl::StrCat("--image_size is for image classifiers, and ",
                                                 file.path(), " is none by its tensors' names"));
}

}  // namespace tost::train
