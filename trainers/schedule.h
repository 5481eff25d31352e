// Learning rates as pure functions of the update (or epoch) number: nothing to save, nothing to
// step.
#ifndef TOST_TRAINERS_SCHEDULE_H_
#define TOST_TRAINERS_SCHEDULE_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tost::train {

// Linear warm-up, then half a cosine from `peak` to `floor`; the official language recipe
// (nanoGPT's get_lr):
//   peak · i / warmup                                          i < warmup
//   floor                                                      i > total
//   floor + ½ (1 + cos(π (i − warmup)/(total − warmup))) (peak − floor)     otherwise
// Our updates count from 1, so the first warm-up update has rate peak/warmup and the last of
// `total` updates the floor. The official loop evaluates the same function from 0, so that its
// first update does nothing. A warm-up that reaches `total` is followed by the peak at i = warmup =
// total and by the floor beyond. With floor = peak the rate is constant after the warm-up.
struct WarmupCosine {
  float peak = 0;
  float floor = 0;
  int64_t warmup = 0;
  int64_t total = 0;

  float At(int64_t i) const {
    if (i < warmup)
      return static_cast<float>(peak * static_cast<double>(i) / static_cast<double>(warmup));
    if (i > total) return floor;
    if (total == warmup) return peak;
    const double progress = static_cast<double>(i - warmup) / static_cast<double>(total - warmup);
    const double weight = 0.5 * (1 + std::cos(std::numbers::pi * progress));
    return static_cast<float>(floor + weight * (static_cast<double>(peak) - floor));
  }
};

// The official vision pretraining recipe, constant inside an epoch (timm's CosineLRScheduler):
//   start + e (peak − start)/warmup                            e < warmup
//   floor + ½ (peak − floor)(1 + cos(π e / epochs))            otherwise
// Epochs count from 0. The official loop sets the rate after each epoch, so that epoch e trains
// with At(max(e − 1, 0)): `AsOfficialLoop`.
struct VisionSchedule {
  float peak = 1e-3f;
  float start = 1e-6f;
  float floor = 1e-5f;
  int64_t warmup = 5;
  int64_t epochs = 400;

  float At(int64_t epoch) const {
    const double e = static_cast<double>(epoch);
    if (epoch < warmup) {
      return static_cast<float>(start + e * (static_cast<double>(peak) - start) /
                                            static_cast<double>(warmup));
    }
    if (epoch >= epochs) return floor;
    return static_cast<float>(
        floor + 0.5 * (static_cast<double>(peak) - floor) *
                    (1 + std::cos(std::numbers::pi * e / static_cast<double>(epochs))));
  }
  float AsOfficialLoop(int64_t epoch) const { return At(epoch > 0 ? epoch - 1 : 0); }
};

// The official fine-tuning recipe: ½ peak (1 + cos(π e / epochs)), per epoch from 0. Its loop sets
// the rate of epoch e ≥ 1 with argument e − 2: `AsOfficialLoop`.
struct FineTuneSchedule {
  float peak = 1e-4f;
  int64_t epochs = 200;

  float At(int64_t epoch) const {
    const double angle =
        std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(epochs);
    return static_cast<float>(0.5 * static_cast<double>(peak) * (1 + std::cos(angle)));
  }
  float AsOfficialLoop(int64_t epoch) const { return At(epoch == 0 ? 0 : epoch - 2); }
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_SCHEDULE_H_
