#include "tools/tost/vision_options.h"

namespace tost {

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

}  // namespace tost
