// `tost train vision`: from pictures to a trained or fine-tuned classifier.
#ifndef TOST_TRAINERS_TRAIN_VISION_H_
#define TOST_TRAINERS_TRAIN_VISION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "autograd/device.h"

namespace tost::train {

// Where the pictures are and how they are read; training and evaluation share these.
struct ImageDataOptions {
  std::string data;                     // folder or archive; several are separated by commas
  std::string format;                   // "": told by what is there
  std::string labels = "fine";          // or "coarse", of CIFAR-100
  std::string protocol;                 // "": the official split
  double validation_fraction = 0.1;     // of the training pictures, held out where no split says so
  uint64_t split_seed = 0;              // of what is held out
  bool any_sizes = false;               // accept splits of unknown sizes
  std::string bad_images = "fail";      // or "skip"
  std::string orientation = "upright";  // or "stored", as torchvision and timm
  int workers = 1;                      // threads that decode and augment
};

// The settings of a run, as the command line, a recipe and the run's config.toml name them.
struct VisionTrainingOptions {
  ImageDataOptions data;
  std::string output;  // run folder
  std::string resume;  // run folder to go on with
  bool overwrite = false;

  std::string init;                // run folder or checkpoint whose weights to start from
  bool reset_head = false;         // begin with a new last layer, for other classes than init's
  std::string train_only = "all";  // or "head": a linear probe

  std::string model;       // "": init's, or else tost_small_pictures_p8
  int64_t image_size = 0;  // pixels; 0: the model's
  float drop_path = 0;

  double epochs = 10;
  int64_t steps = -1;  // updates in all; -1: as many as `epochs` has; 0 only evaluates
  int64_t global_batch = 64;
  int64_t micro_batch = 0;  // pictures at a time; 0: the whole global batch

  std::string optimizer = "adamw";  // or "sgd"
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float momentum = 0.9f;  // sgd
  float weight_decay = 0.05f;
  // "matrices": weight matrices; "official_pretraining": temperatures too; "everything": the
  // official fine-tuning
  std::string decay = "matrices";
  float clip_norm = 0;  // 0: no clipping
  // "cosine", "constant" (both after a linear warm-up, update by update); "official_pretraining"
  // and "official_fine_tuning", epoch by epoch with the lag of the official loops
  std::string schedule = "cosine";
  float learning_rate = 1e-3f;
  float min_learning_rate = 1e-5f;
  double warmup_epochs = 0;
  int64_t rate_batch = 0;   // n > 0: the rate is that of n pictures per update, scaled by the batch
  float layer_decay = 1;    // a layer's rate is this times that of the layer above it
  float average_decay = 0;  // of the running average of weights (EMA); 0: none

  std::string crop = "random_resized";    // or "padded" (for small pictures), "none"
  std::string interpolation = "bicubic";  // or "bilinear"
  float flip = 0.5f;
  std::string rand_augment;  // "rand-m9-mstd0.5-inc1" (timm), "torchvision-n2-m14", "": none
  float color_jitter = 0;
  float erasing = 0;  // probability
  float mixup = 0;    // α
  float cutmix = 0;   // α
  float mixing_probability = 1;
  float label_smoothing = 0;
  int repeats = 1;  // repeated augmentation

  // What is seen of a picture in evaluation: its shorter side resized to size / crop_fraction and
  // the centre cut out; 0: all of it, squeezed into a square.
  float crop_fraction = 0.875f;
  double evaluate_every = 1;  // epochs; 0: at the end only
  // The split whose top-1 picks the best checkpoint: "validation", "test" (as the official
  // fine-tuning does; named in the result), "none"
  std::string select_on = "validation";
  double checkpoint_every = 1;  // epochs; 0: at the end only
  int keep_checkpoints = 2;     // 0: all

  uint64_t seed = 1337;
  std::string compute_dtype = "float32";  // or "bfloat16"
  bool recompute = false;
  bool log_memory = false;
  bool cuda_graph = false;  // TrainerOptions
  bool tf32 = false;        // products of float32 through TF32, on a device that has it
  Device device;            // a choice of the moment: a run goes on wherever it is resumed
};

// Trains until all updates are done, then measures the best checkpoint on the test split and writes
// result.json. `settings` is the text of config.toml for the run folder. Every failure that a user
// can cause is one line; Cancelled when a signal asked to stop.
absl::Status TrainVision(const VisionTrainingOptions& options, const std::string& settings);

}  // namespace tost::train

#endif  // TOST_TRAINERS_TRAIN_VISION_H_
