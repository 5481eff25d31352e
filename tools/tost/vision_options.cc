#include "tools/tost/vision_options.h"

namespace tost {
namespace {

void AddImageData(Command& command, train::ImageDataOptions& o) {
  command.Add("data", o.data, "Folder or archive of a data set; several are separated by commas");
  command.Add("format", o.format,
              "cifar10, cifar100, flowers102, pets or folders; empty: told by what is there");
  command.Add("labels", o.labels, "CIFAR-100: fine or coarse");
  command.Add("protocol", o.protocol, "official, or trainval (Flowers-102); empty: official");
  command.Add(
      "validation_fraction", o.validation_fraction,
      "Share of the training pictures held out for validation where the set has no such part");
  command.Add("split_seed", o.split_seed, "Seed of what is held out");
  command.Add("any_sizes", o.any_sizes, "Accept a set whose sizes are not the official ones");
  command.Add("bad_images", o.bad_images, "fail, or skip pictures that cannot be decoded");
  command.Add("workers", o.workers, "Threads that decode and augment");
}

void AddVisionModel(Command& command, train::VisionTrainingOptions& o) {
  command.Add("init", o.init, "Run folder or checkpoint whose weights (and model) to start from");
  command.Add("reset_head", o.reset_head, "With --init: a new last layer, for other classes");
  command.Add("train_only", o.train_only, "all, or head: a linear probe");
  command.Add("model", o.model,
              "Named model: tost_cab_tiny_12_p16, … (tost inspect models); empty: that of --init, "
              "or else tost_small_pictures_p8");
  command.Add("image_size", o.image_size, "Pixels in both directions; 0: the model's");
  command.Add("drop_path", o.drop_path, "Rate at which blocks are left out (stochastic depth)");
}

void AddVisionOptimizer(Command& command, train::VisionTrainingOptions& o) {
  command.Add("epochs", o.epochs, "Passes over the training pictures");
  command.Add("steps", o.steps, "Updates in all; -1: as many as --epochs has; 0 only evaluates");
  command.Add("global_batch", o.global_batch, "Pictures per update");
  command.Add("micro_batch", o.micro_batch, "Pictures at a time; 0: the whole global batch");
  command.Add("optimizer", o.optimizer, "adamw or sgd");
  command.Add("beta1", o.beta1, "AdamW: decay of the first moment");
  command.Add("beta2", o.beta2, "AdamW: decay of the second moment");
  command.Add("momentum", o.momentum, "SGD: momentum");
  command.Add("weight_decay", o.weight_decay, "Weight decay");
  command.Add("decay", o.decay,
              "What decays: matrices, official_pretraining (temperatures too) or everything (the "
              "official fine-tuning)");
  command.Add("clip_norm", o.clip_norm, "Largest norm of the whole gradient; 0: no clipping");
  command.Add(
      "schedule", o.schedule,
      "cosine or constant, after a linear warm-up, update by update; or epoch by epoch with "
      "the lag of the official loops: official_pretraining, official_fine_tuning");
  command.Add("learning_rate", o.learning_rate, "Peak learning rate");
  command.Add("min_learning_rate", o.min_learning_rate, "Where the cosine ends");
  command.Add("warmup_epochs", o.warmup_epochs, "Epochs of linear warm-up");
  command.Add("rate_batch", o.rate_batch,
              "n > 0: the rate is for n pictures per update and scaled to the global batch");
  command.Add("layer_decay", o.layer_decay,
              "Learning rate of a layer as a multiple of that of the layer above it");
  command.Add("average_decay", o.average_decay,
              "Decay of a running average of the weights (EMA), evaluated too; 0: none");
}

void AddVisionRun(Command& command, train::VisionTrainingOptions& o) {
  command.Add("output", o.output, "Folder for the run");
  command.Add("evaluate_every", o.evaluate_every, "Epochs between evaluations; 0: at the end only");
  command.Add("select_on", o.select_on,
              "Split whose top-1 picks the best checkpoint: validation, test or none");
  command.Add("checkpoint_every", o.checkpoint_every,
              "Epochs between checkpoints; 0: at the end only");
  command.Add("keep_checkpoints", o.keep_checkpoints, "Newest checkpoints to keep; 0: all");
  command.Add("seed", o.seed, "Seed of initial values, data order, augmentation and drop path");
  command.Add("compute_dtype", o.compute_dtype, "float32, or bfloat16 with float32 master weights");
  command.Add("recompute", o.recompute, "Keep only the blocks' inputs: less memory, more time");
  command.Add("log_memory", o.log_memory, "Print live and peak bytes after every update");
}

void AddVisionAugmentation(Command& command, train::VisionTrainingOptions& o) {
  command.Add("crop", o.crop, "random_resized, padded (for small pictures) or none");
  command.Add("interpolation", o.interpolation, "bicubic or bilinear");
  command.Add("flip", o.flip, "Probability of mirroring");
  command.Add("rand_augment", o.rand_augment,
              "rand-m9-mstd0.5-inc1 (timm) or torchvision-n2-m14, say; empty: none");
  command.Add("color_jitter", o.color_jitter, "Of brightness, contrast and colour");
  command.Add("erasing", o.erasing, "Probability of erasing a rectangle");
  command.Add("mixup", o.mixup, "α of mixup; 0: none");
  command.Add("cutmix", o.cutmix, "α of CutMix; 0: none");
  command.Add("mixing_probability", o.mixing_probability, "Of mixing an update's pictures at all");
  command.Add("label_smoothing", o.label_smoothing, "Share of a label given to all classes");
  command.Add("repeats", o.repeats, "Times that an epoch takes each picture, of fewer pictures");
  command.Add("orientation", o.data.orientation,
              "upright, as EXIF says, or stored, as torchvision and timm train");
  command.Add("crop_fraction", o.crop_fraction,
              "Evaluation sees the middle of a picture whose shorter side is size / this; 0: all, "
              "squeezed into a square");
}

}  // namespace

void AddVisionSettings(Command& command, train::VisionTrainingOptions& o) {
  AddImageData(command, o.data);
  AddVisionModel(command, o);
  AddVisionOptimizer(command, o);
  AddVisionAugmentation(command, o);
  AddVisionRun(command, o);
}

}  // namespace tost
