// `tost export`: a run's language model for others: official names, or Hugging Face's GPT-2.
#ifndef TOST_TRAINERS_EXPORT_LANGUAGE_H_
#define TOST_TRAINERS_EXPORT_LANGUAGE_H_

#include <string>

#include "absl/status/status.h"

namespace tost::train {

struct ExportOptions {
  std::string run;     // run folder or checkpoint file
  std::string output;  // folder
  // "official": model.safetensors with the names of ToST and nanoGPT, the head once as the
  // embedding with the tie in the metadata; config.json, our architecture; the tokenizer's files.
  // `tost import` reads it back. "huggingface": what transformers' GPT2LMHeadModel.from_pretrained
  // loads, for GPT-2 models only: linear weights transposed, zero biases where the model has none,
  // LayerScale's γ multiplied into the rows of c_proj.
  std::string format = "official";
  std::string dtype = "float32";  // or "bfloat16"
  bool check = false;
  bool overwrite = false;  // write into a folder that is not empty
};

// Writes the export and prints what it wrote. With `check` the folder is imported again, in memory,
// and the largest difference between the two models' logits on random tokens is printed; an error
// when it exceeds kFloatBound (float32) or kBFloat16Bound times the largest logit.
absl::Status ExportLanguage(const ExportOptions& options);

// Folding γ into c_proj rounds each weight once more, in every layer; some hundred roundings.
inline constexpr double kExportFloatBound = 1e-5;
// Every weight is rounded to 8 bits.
inline constexpr double kExportBFloat16Bound = 0.1;

}  // namespace tost::train

#endif  // TOST_TRAINERS_EXPORT_LANGUAGE_H_
