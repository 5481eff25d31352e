// Whole tiny models train on the device as they train on the CPU.
#include <cmath>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "models/image_classifier.h"
#include "models/language_model.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "tests/cuda/device_test.h"
#include "trainers/optimizer.h"

namespace tost {
namespace {

constexpr int kUpdates = 5;
constexpr float kLearningRate = 1e-3f;

// What a training run leaves: the loss of every update and the weights after the last.
struct Curve {
  std::vector<double> losses;
  std::vector<double> weights;
};

// `loss_of(pass)` is the mean loss of an update, whose dropout is drawn from pass.random.
template <class LossOf>
Curve Train(ParameterSet& params, DType compute_dtype, const LossOf& loss_of) {
  train::AdamW optimizer(params, {});
  Curve curve;
  for (int update = 1; update <= kUpdates; ++update) {
    models::Pass pass{.training = true,
                      .dropout = 0.1f,
                      .compute_dtype = compute_dtype,
                      .random = RandomStream(7, static_cast<uint32_t>(update))};
    params.StartStep();
    Tape tape;
    const Tensor loss = loss_of(pass);
    tape.Backward(loss);
    optimizer.Step(kLearningRate);
    EXPECT_FALSE(optimizer.Result().skipped) << "update " << update;
    curve.losses.push_back(loss.Item());
  }
  for (const Parameter& parameter : params.parameters()) {
    const std::vector<double> values = parameter.value().ToHost<double>();
    curve.weights.insert(curve.weights.end(), values.begin(), values.end());
  }
  return curve;
}

// Largest difference of two curves' losses, relative to the loss.
double Distance(const Curve& a, const Curve& b) {
  double worst = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    const double difference = std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]);
    worst = std::max(worst, std::isnan(difference) ? INFINITY : difference);
  }
  return worst;
}

// Equal in every thread order bit for bit, and to the CPU's within the tolerance.
template <class TrainOn>
void ExpectSameCurve(const TrainOn& train_on, double tolerance) {
  const Curve expected = train_on(Device::Cpu());
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  Curve first;
  ForEachThreadOrder([&](const std::string& order) {
    SCOPED_TRACE(order);
    const Curve actual = train_on(CudaDevice());
    EXPECT_LE(Distance(actual, expected), tolerance);
    if (first.losses.empty()) first = actual;
    EXPECT_EQ(actual.losses, first.losses);
    EXPECT_EQ(actual.weights, first.weights);
  });
}

// Same as float32 on the CPU, where sums are formed in another order.
constexpr double kFloat32Tolerance = 1e-5;

// bfloat16 rounds each activation to 2⁻⁹ of it at most. The two devices round the same values,
// except where sums of other order fall on the other side of a rounding boundary: a difference of
// 2⁻⁸ in few elements, whose effect on the mean loss stays below one rounding of the loss.
constexpr double kBFloat16Tolerance = kBFloat16Epsilon;

// Ids with a pattern that `shift` moves.
Tensor Ids(Shape shape, int64_t classes, size_t shift, Device device) {
  std::vector<int32_t> ids(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * 7 + i * i % 5 + shift) % static_cast<size_t>(classes));
  }
  return Tensor::FromHost(shape, ids, device);
}

Curve TrainLanguage(models::Mixer mixer, DType dtype, Device device) {
  const int64_t context = SmallShapesOnly() ? 6 : 40;
  const models::LanguageConfig config{.mixer = mixer,
                                      .layers = 2,
                                      .heads = 2,
                                      .width = 16,
                                      .context = context,
                                      .vocabulary = 19,
                                      .bias = true};
  ParameterSet params(device, /*seed=*/3);
  const models::LanguageModel model(params.Root(), config);
  params.Finalize(dtype);
  return Train(params, dtype, [&](models::Pass& pass) {
    const Tensor tokens = Ids({3, context}, 19, 0, device);
    const Tensor targets = Ids({3, context}, 19, 1, device);
    return model.Loss(tokens, targets, pass) * (1.0 / static_cast<double>(3 * context));
  });
}

TEST(TinyLanguageModel, TrainsAsOnTheCpu) {
  for (const models::Mixer mixer : {models::Mixer::kTssa, models::Mixer::kAttention}) {
    ExpectSameCurve([&](Device device) { return TrainLanguage(mixer, DType::kFloat32, device); },
                    kFloat32Tolerance);
    ExpectSameCurve([&](Device device) { return TrainLanguage(mixer, DType::kBFloat16, device); },
                    kBFloat16Tolerance);
  }
}

Curve TrainVision(const models::VisionConfig& config, DType dtype, Device device) {
  ParameterSet params(device, /*seed=*/3);
  const models::ImageClassifier model(params.Root(), config);
  params.Finalize(dtype);
  constexpr int64_t kPictures = 3;
  const Shape shape{kPictures, config.image_size, config.image_size, 3};
  const Tensor images = As(DType::kFloat32, RandomTensor(shape, 11)).To(device);
  const Tensor labels = Ids({kPictures}, config.classes, 0, device);
  return Train(params, dtype, [&](models::Pass& pass) {
    return ops::CrossEntropy(model.Logits(images, pass), labels, {.label_smoothing = 0.1});
  });
}

TEST(TinyVisionModel, TrainsAsOnTheCpu) {
  for (const models::VisionMixer mixer :
       {models::VisionMixer::kTssa, models::VisionMixer::kAttention,
        models::VisionMixer::kCrossCovariance}) {
    models::VisionConfig config{.mixer = mixer,
                                .image_size = SmallShapesOnly() ? 8 : 20,
                                .patch = 4,
                                .width = 16,
                                .depth = 1,
                                .heads = 2,
                                .class_blocks = 1,
                                .classes = 5};
    const auto in = [&](DType dtype) {
      return [&config, dtype](Device device) { return TrainVision(config, dtype, device); };
    };
    ExpectSameCurve(in(DType::kFloat32), kFloat32Tolerance);
    ExpectSameCurve(in(DType::kBFloat16), kBFloat16Tolerance);
    config.feed_forward = models::FeedForward::kIsta;
    ExpectSameCurve(in(DType::kFloat32), kFloat32Tolerance);
  }
}

}  // namespace
}  // namespace tost
