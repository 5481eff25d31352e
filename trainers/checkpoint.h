// Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.
//
// Tensors, all float32 and unsharded: each parameter and each state under its own name, the
// optimizer's moments as `m.<name>` and `v.<name>` (absent in a weights-only file; SGD has no v), a
// running average of the weights as `ema.<name>` if the run keeps one. Metadata: format ("tost
// checkpoint"), version, update, seed, tokens, config, vocabulary, tied, and `x.<key>` for the
// extra values.
#ifndef TOST_TRAINERS_CHECKPOINT_H_
#define TOST_TRAINERS_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/parameter.h"
#include "trainers/checkpoint_folder.h"
#include "trainers/safetensors.h"

namespace tost::train {

struct CheckpointState {
  int64_t update = 0;  // updates done
  uint64_t seed = 0;
  int64_t tokens = 0;      // trained on so far
  std::string config;      // the run's settings (TOML)
  std::string vocabulary;  // Tokenizer::ToJson; empty: the data are bare token ids
  std::map<std::string, std::string> extra;  // best values and the like
};

// The keys of CheckpointState::extra that runs of every kind have: the architecture, which
// language_run.h and vision_run.h read, and what the run was trained on.
inline constexpr char kModelKey[] = "model";
inline constexpr char kDataKey[] = "data";

// The optimizer's state: one flat float32 tensor per bucket, aligned with ParameterSet::buckets().
struct Moments {
  std::vector<Tensor> first;   // m
  std::vector<Tensor> second;  // v; empty: the optimizer has none
};

// A second set of values for a model: one flat float32 tensor per bucket, and one per state.
struct WeightValues {
  std::vector<Tensor> buckets;
  std::vector<Tensor> states;
};

// Writes `path` at once and whole, or leaves what was there (see SafetensorsWriter). Without
// `moments` the file holds weights only; `average` may be null too. A model whose head is the token
// embedding holds it once, and the metadata's `tied` says "lm_head.weight=transformer.wte.weight".
absl::Status SaveCheckpoint(const std::string& path, const ParameterSet& params,
                            const Moments* moments, const CheckpointState& state,
                            const WeightValues* average = nullptr);

// Whether a safetensors file's metadata are those of SaveCheckpoint, of any version.
bool IsCheckpoint(const std::map<std::string, std::string>& metadata);

// How weights may differ from the model that they are loaded into.
struct LoadOptions {
  // Whether a parameter keeps the value it has, whatever the file holds under its name; none: no.
  std::function<bool(absl::string_view name)> keeps;
  // The values of a tensor for a parameter or state of another shape, from what the file has:
  // nothing when they do not fit each other. None: no tensor does.
  std::function<std::optional<std::vector<float>>(absl::string_view name, const TensorEntry& entry,
                                                  const std::vector<float>& values,
                                                  const Shape& wanted)>
      adapt;
};

class Checkpoint {
 public:
  // Any safetensors file can be opened for its weights; `state` needs one of ours.
  static absl::StatusOr<Checkpoint> Open(const std::string& path);

  const SafetensorsFile& file() const { return file_; }
  // An error when the file was not written by SaveCheckpoint or by a newer version of it.
  absl::StatusOr<CheckpointState> State() const;
  bool has_moments() const { return has_moments_; }

  // Sets every parameter, and its bfloat16 copy. Names are matched after taking off the prefixes
  // that wrappers put on all of them (`_orig_mod.`, `module.`), which is logged. Missing,
  // unexpected and wrongly shaped tensors are all listed in one error, and then nothing has been
  // set. A head that the model ties to its embedding may be present if it is equal to it.
  absl::Status LoadWeights(ParameterSet& params, const LoadOptions& options = {}) const;
  // Sets the moments, which have been allocated by the optimizer. Errors likewise.
  absl::Status LoadMoments(const ParameterSet& params, Moments& moments) const;
  bool has_average() const { return has_average_; }
  // Sets the running average, which has been allocated. Errors likewise.
  absl::Status LoadAverage(const ParameterSet& params, WeightValues& average) const;

 private:
  Checkpoint(SafetensorsFile file, std::string prefix);
  // The file's tensor for a name of ours.
  const TensorEntry* Find(absl::string_view kind, absl::string_view name) const;
  // An error when the file's head and embedding, both present, differ.
  absl::Status CheckTie() const;

  SafetensorsFile file_;
  std::string prefix_;  // that every weight's name begins with
  bool has_moments_ = false;
  bool has_average_ = false;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_CHECKPOINT_H_
