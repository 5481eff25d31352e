// A language model small enough for tests, with weights large enough that a wrong token or position
// is seen in its losses.
#ifndef TOST_TESTS_MODELS_TINY_MODEL_H_
#define TOST_TESTS_MODELS_TINY_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "models/language_model.h"

namespace tost::models {

struct TinyModel {
  struct Options {
    Mixer mixer = Mixer::kTssa;
    int64_t context = 40;
    int64_t vocabulary = 37;
    DType compute_dtype = DType::kFloat32;
  };
  explicit TinyModel(const Options& options)
      : params(Device::Cpu(), 5),
        model(params.Root(), {.mixer = options.mixer,
                              .layers = 2,
                              .heads = 3,
                              .width = 24,
                              .context = options.context,
                              .vocabulary = options.vocabulary,
                              .bias = true,
                              .layer_scale = 0.7f}) {
    params.Finalize(options.compute_dtype);
    for (const Parameter& parameter : params.parameters()) {
      const bool bias = parameter.name().ends_with("denom_bias");
      Tensor values = parameter.value();
      float* value = values.mutable_data<float>();
      for (int64_t i = 0; i < values.numel(); ++i) {
        if (bias) value[i] = 0.02f * static_cast<float>(i % 11);
        if (parameter.decay() == Decay::kYes) value[i] *= 5;
      }
    }
    if (options.compute_dtype == DType::kBFloat16) params.RefreshComputeCopies();
  }

  ParameterSet params;
  LanguageModel model;
};

// Ids below `vocabulary` without a pattern.
inline std::vector<int32_t> SomeIds(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>((i * i + 7 * i + i / 5 + 3) % vocabulary));
  }
  return ids;
}

}  // namespace tost::models

#endif  // TOST_TESTS_MODELS_TINY_MODEL_H_
