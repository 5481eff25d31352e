// Where `tost import` takes a model from, whatever kind of model it is.
#ifndef TOST_TRAINERS_IMPORT_SOURCE_H_
#define TOST_TRAINERS_IMPORT_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/parameter.h"
#include "trainers/checkpoint.h"
#include "trainers/weight_file.h"

namespace tost::train {

struct ImportOptions {
  // A file of weights (safetensors or PyTorch), or a folder as Hugging Face lays it out:
  // config.json with model.safetensors or pytorch_model.bin. Exports of ours are such folders.
  std::string from;
  std::string output;
  int heads = 0;          // 0: as the source says
  std::string tokenizer;  // of a language model: "gpt2", "none" or a folder; "": as the source says
  int64_t image_size = 0;  // of an image classifier, in pixels; 0: as the source says
  bool overwrite = false;
};

// Where the weights lie, and the folder of the files that go with them, if any.
struct ImportSource {
  std::string weights;
  std::string folder;  // ends in '/'; "": the weights stand alone
};
absl::StatusOr<ImportSource> ImportSourceOf(const std::string& from);

// Opens the weights. An error, naming --run and --init, for a checkpoint of ours.
absl::StatusOr<WeightFile> OpenForImport(const ImportSource& source);

// What a source says of its architecture: config.json in its folder, and the metadata of its
// weights.
struct Description {
  std::string json;
  std::string source;  // for errors
};
absl::StatusOr<std::vector<Description>> DescriptionsOf(const ImportSource& source,
                                                        const WeightFile& file);

bool FileExists(const std::string& path);

// A line of the report on standard output: "source       model.safetensors (safetensors)".
std::string ReportLine(absl::string_view what, absl::string_view text);

// Makes the run folder, saves the weights as its first checkpoint, and prints the report.
absl::Status WriteImportedRun(const ImportOptions& options, const ParameterSet& params,
                              const CheckpointState& state, const std::vector<std::string>& report);

}  // namespace tost::train

#endif  // TOST_TRAINERS_IMPORT_SOURCE_H_
