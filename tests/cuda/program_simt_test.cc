// The whole program on the emulated device: what `--device cuda` trains, evaluates and writes is
// what the CPU does.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/bfloat16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"
#include "tests/data/test_sets.h"
#include "trainers/metrics.h"

namespace tost::acceptance {
namespace {

// Sums in another order, and other elementary functions: five updates keep within this relative to
// the loss.
constexpr double kFloat32Tolerance = 1e-5;
// The two devices round the same float32 numbers to bfloat16, except near a rounding boundary,
// where a last bit decides: a step of 2⁻⁸ in few activations, which moves the mean loss by less
// than one rounding of it.
constexpr double kBFloat16Tolerance = kBFloat16Epsilon;

double Tolerance(const std::string& dtype) {
  return dtype == "float32" ? kFloat32Tolerance : kBFloat16Tolerance;
}

std::vector<std::string> With(std::vector<std::string> arguments, const std::string& more) {
  for (const std::string& word : Words(more)) arguments.push_back(word);
  return arguments;
}

void ExpectDone(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
}

// The training loss of every update, and the validation loss.
std::vector<double> Losses(const std::string& run) {
  const auto records = train::ReadMetrics(run + "/metrics.jsonl");
  EXPECT_TRUE(records.ok()) << records.status();
  std::vector<double> losses;
  for (const train::MetricsRecord& record : *records) losses.push_back(record.Get("loss"));
  return losses;
}

void ExpectSameCurve(const std::vector<double>& actual, const std::vector<double>& expected,
                     double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_GE(expected.size(), 5u);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * expected[i]) << "record " << i;
  }
}

// `training(folder)` with five updates on both devices, and with each update as a graph.
template <class Training>
void ExpectTrainsAsOnTheCpu(const std::string& name, const Training& training, double tolerance) {
  const std::string host = FreshFolder(name + "_cpu"), device = FreshFolder(name + "_cuda"),
                    graph = FreshFolder(name + "_graph");
  ExpectDone(RunTost(With(training(host), "--device cpu")));
  ExpectDone(RunTost(With(training(device), "--device cuda")));
  ExpectDone(RunTost(With(training(graph), "--device cuda --cuda_graph")));
  ExpectSameCurve(Losses(device), Losses(host), tolerance);
  const std::string checkpoint = "/checkpoints/checkpoint_0000005.safetensors";
  EXPECT_EQ(TensorBytes(graph + checkpoint), TensorBytes(device + checkpoint));
}

TEST(Program, TrainsALanguageModelAsOnTheCpu) {
  for (const std::string model : {"tost_char", "gpt2_char"}) {
    for (const std::string dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(model + " " + dtype);
      ExpectTrainsAsOnTheCpu(
          "language",
          [&](const std::string& folder) {
            return TinyTraining(folder, Words("--steps 5 --dropout 0.1 --micro_batch 2 --model " +
                                              model + " --compute_dtype " + dtype));
          },
          Tolerance(dtype));
    }
  }
}

TEST(Program, TrainsAVisionModelAsOnTheCpu) {
  const std::string pictures = FreshFolder("cifar");
  Members files{{"test_batch.bin", CifarRecords(10)}};
  for (int i = 1; i <= 5; ++i)
    files.emplace_back(absl::StrCat("data_batch_", i, ".bin"), CifarRecords(10));
  WriteTree(pictures, files);
  for (const std::string dtype : {"float32", "bfloat16"}) {
    SCOPED_TRACE(dtype);
    ExpectTrainsAsOnTheCpu(
        "vision",
        [&](const std::string& folder) {
          return With({"train", "vision", "--data", pictures, "--any_sizes", "--output", folder},
                      "--model tost_cab_tiny_12_p8 --image_size 16 --crop padded --crop_fraction 1 "
                      "--global_batch 4 --evaluate_every 0 --checkpoint_every 0 --steps 5 "
                      "--validation_fraction 0.1 --compute_dtype " +
                          dtype);
        },
        Tolerance(dtype));
  }
}

TEST(Program, SamplesTheSameText) {
  const std::string run = FreshFolder("sampled");
  ExpectDone(RunTost(TinyTraining(run, Words("--steps 5 --device cpu"))));
  const std::vector<std::string> sample = {"sample", "--run", run, "--tokens", "20"};
  const Outcome host = RunTost(With(sample, "--device cpu"));
  const Outcome device = RunTost(With(sample, "--device cuda"));
  ExpectDone(host);
  ExpectDone(device);
  EXPECT_EQ(device.out, host.out);
}

}  // namespace
}  // namespace tost::acceptance
