#include "trainers/predict_vision.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/log.h"
#include "data/atomic_file.h"
#include "data/image_loader.h"
#include "data/text_files.h"
#include "nlohmann/json.hpp"
#include "ops/elementwise.h"
#include "ops/softmax.h"
#include "trainers/evaluate_language.h"
#include "trainers/vision_run.h"
#include "trainers/vision_settings.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

// The files that the given paths stand for; hidden ones in folders are passed over.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const size_t first = files.size();
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file(error) && !data::IsHidden(name)) files.push_back(entry.path());
    }
    if (error) return data::FileError("cannot read", path, error.value());
    if (files.size() == first) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": the folder holds no files"));
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

absl::StatusOr<std::string> BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.good() && bytes.good()) return std::move(bytes).str();
  return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
}

class Predictor {
 public:
  static absl::StatusOr<Predictor> Create(const PredictOptions& options) {
    Predictor predictor;
    TOST_ASSIGN_OR_RETURN(predictor.compute_dtype_, ComputeDTypeNamed(options.compute_dtype));
    TOST_ASSIGN_OR_RETURN(predictor.run_,
                          LoadVisionRun(options.run, predictor.compute_dtype_, options.device));
    TOST_ASSIGN_OR_RETURN(
        predictor.preprocessing_,
        PreprocessingOf(predictor.run_.state, predictor.run_.checkpoint, predictor.run_.config));
    return predictor;
  }

  int64_t classes() const { return models::classes(run_.config); }
  std::string ClassName(int64_t label) const {
    return run_.class_names.empty() ? absl::StrCat("class ", label)
                                    : run_.class_names[static_cast<size_t>(label)];
  }

  absl::StatusOr<std::vector<float>> Probabilities(const std::string& path) const {
    TOST_ASSIGN_OR_RETURN(std::string bytes, BytesOf(path));
    const int64_t size = preprocessing_.transform.size;
    Tensor image = Tensor::Empty({1, size, size, 3}, DType::kFloat32);
    TOST_RETURN_IF_ERROR(data::LoadForEvaluation(
        data::StoredImage(std::move(bytes)), path, preprocessing_.orientation,
        preprocessing_.transform,
        std::span(image.mutable_data<float>(), static_cast<size_t>(image.numel()))));
    models::Pass pass{.compute_dtype = compute_dtype_};
    const Tensor images = ops::Cast(image.To(run_.model->device()), compute_dtype_);
    const Tensor logits = run_.model->Logits(images, pass);
    return ops::Softmax(ops::Cast(logits, DType::kFloat32), 1).ToHost();
  }

 private:
  VisionRun run_;
  Preprocessing preprocessing_;
  DType compute_dtype_ = DType::kFloat32;
};

// Classes by falling probability, `top` of them.
std::vector<int64_t> Likeliest(const std::vector<float>& probabilities, int top) {
  std::vector<int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return probabilities[static_cast<size_t>(a)] > probabilities[static_cast<size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  return order;
}

void PrintTable(const Predictor& predictor, const std::string& path,
                const std::vector<float>& probabilities, int top) {
  std::printf("%s\n", path.c_str());
  for (int64_t label : Likeliest(probabilities, top)) {
    std::printf("  %5.1f %%  %s\n",
                100.0 * static_cast<double>(probabilities[static_cast<size_t>(label)]),
                predictor.ClassName(label).c_str());
  }
}

void PrintJson(const Predictor& predictor, const std::string& path,
               const std::vector<float>& probabilities, int top) {
  nlohmann::ordered_json object = {{"picture", path}};
  for (int64_t label : Likeliest(probabilities, top)) {
    object["classes"].push_back({{"label", label},
                                 {"name", predictor.ClassName(label)},
                                 {"probability", probabilities[static_cast<size_t>(label)]}});
  }
  std::printf("%s\n",
              object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

absl::Status Predict(const PredictOptions& options) {
  if (options.top < 1) return absl::InvalidArgumentError("--top must be at least 1");
  TOST_ASSIGN_OR_RETURN(const data::BadImages bad_images, data::BadImagesNamed(options.bad_images));
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(options.pictures));
  TOST_ASSIGN_OR_RETURN(const Predictor predictor, Predictor::Create(options));
  for (const std::string& path : files) {
    const absl::StatusOr<std::vector<float>> probabilities = predictor.Probabilities(path);
    if (!probabilities.ok()) {
      if (bad_images == data::BadImages::kFail) return probabilities.status();
      LogWarning(absl::StrCat("skipping a bad picture: ", probabilities.status().message()));
      continue;
    }
    (options.json ? PrintJson : PrintTable)(predictor, path, *probabilities, options.top);
  }
  return absl::OkStatus();
}

}  // namespace tost::train
