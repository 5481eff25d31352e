// `tost train language`: from token files to a trained language model.
#ifndef TOST_TRAINERS_TRAIN_LANGUAGE_H_
#define TOST_TRAINERS_TRAIN_LANGUAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "autograd/device.h"

namespace tost::train {

// The settings of a run, as the command line, a recipe and the run's config.toml name them.
// 0 or "" in the model's part means: what the named model has.
struct LanguageTrainingOptions {
  std::string data;    // folder with train.bin and val.bin (tost prepare)
  std::string output;  // run folder
  std::string resume;  // run folder to go on with
  bool overwrite = false;

  std::string tokenizer;  // of data without vocabulary.json: "gpt2", a folder of tables, or none
  std::string init;       // run folder or checkpoint whose weights to start from

  std::string model;  // "": init's, or else tost_char
  int layers = 0;
  int heads = 0;
  int width = 0;
  int64_t context = 0;
  int64_t vocabulary = 0;  // rows of the embedding; 0: the data's vocabulary
  bool bias = false;

  int64_t steps = 5000;
  int64_t global_batch = 64;             // sequences per update
  int64_t micro_batch = 0;               // sequences at a time; 0: the whole global batch
  std::string sampling = "permutation";  // or "random_windows", the official sampling

  std::string schedule = "cosine";  // or "constant"
  float learning_rate = 1e-3f;
  float min_learning_rate = 1e-4f;
  int64_t warmup = 100;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;  // 0: no clipping
  float dropout = 0.0f;
  // The official loop to the letter: its updates count from 0, so the first has rate 0 and does
  // nothing, and one more than `steps` is made.
  bool official_loop = false;

  int64_t evaluate_every = 500;
  std::string evaluation = "whole";  // or "random_windows", the official estimate
  int64_t evaluation_batches = 200;  // of random_windows
  int64_t checkpoint_every = 1000;
  int keep_checkpoints = 2;  // 0: all

  uint64_t seed = 1337;
  std::string compute_dtype = "float32";  // or "bfloat16"
  bool recompute = false;
  bool log_memory = false;
  bool cuda_graph = false;  // TrainerOptions
  bool tf32 = false;        // products of float32 through TF32, on a device that has it
  Device device;            // a choice of the moment: a run goes on wherever it is resumed
};

// Trains until `steps` updates are done. `settings` is the text of config.toml for the run folder.
// Every failure that a user can cause is one line; Cancelled when a signal asked to stop.
absl::Status TrainLanguage(const LanguageTrainingOptions& options, const std::string& settings);

}  // namespace tost::train

#endif  // TOST_TRAINERS_TRAIN_LANGUAGE_H_
