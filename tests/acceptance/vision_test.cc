// Acceptance of image classifiers as a user trains, evaluates and asks them; the names are those of
// the acceptance statements.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "data/image_write.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/acceptance/run_tost.h"
#include "tests/data/test_images.h"
#include "trainers/metrics.h"

namespace tost::acceptance {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A picture in the colour of its class, with stripes that differ from picture to picture.
data::Image ClassPicture(int label, int number, int size) {
  data::Image image(size, size);
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      uint8_t* pixel = image.Pixel(x, y);
      const int stripe = (x * (number % 5 + 1) + y) % 8 * 6;
      pixel[0] = static_cast<uint8_t>(label % 2 * 180 + stripe);
      pixel[1] = static_cast<uint8_t>(label / 2 % 3 * 90 + stripe);
      pixel[2] = static_cast<uint8_t>(label / 6 * 180 + stripe);
    }
  }
  return image;
}

std::string CifarFile(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const data::Image image = ClassPicture(i % 10, i, 32);
    bytes.push_back(static_cast<char>(i % 10));
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t p = channel; p < image.pixels.size(); p += 3) {
        bytes.push_back(static_cast<char>(image.pixels[p]));
      }
    }
  }
  return bytes;
}

// A set in the format of CIFAR-10: 100 training pictures in five files, 20 test pictures.
std::string CifarData() {
  static const std::string folder = [] {
    const std::string made = FreshFolder("cifar");
    for (int i = 1; i <= 5; ++i) {
      WriteFile(absl::StrCat(made, "/data_batch_", i, ".bin"), CifarFile(20));
    }
    WriteFile(made + "/test_batch.bin", CifarFile(20));
    return made;
  }();
  return folder;
}

// Class folders with `classes` classes of 8 training and 4 test JPEGs each.
std::string FolderData(int classes) {
  const std::string made = FreshFolder("folders");
  for (int label = 0; label < classes; ++label) {
    for (int i = 0; i < 12; ++i) {
      const std::string folder = absl::StrCat(made, i < 8 ? "/train" : "/val", "/class", label);
      std::filesystem::create_directories(folder);
      WriteFile(absl::StrCat(folder, "/", i, ".jpg"),
                EncodeJpeg(ClassPicture(label, i, 40 + label)));
    }
  }
  return made;
}

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> Training(const std::string& data, const std::string& output,
                                  const std::string& more = "") {
  return With({"train", "vision", "--data", data, "--any_sizes", "--output", output},
              With(Words("--crop padded --crop_fraction 1 --global_batch 16 --evaluate_every 0 "
                         "--checkpoint_every 0 --steps 4 --validation_fraction 0.2"),
                   Words(more)));
}

void ExpectDone(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
}

std::string Checkpoint(const std::string& run, const std::string& update) {
  return run + "/checkpoints/checkpoint_" + update + ".safetensors";
}

json ResultOf(const std::string& run) { return json::parse(ReadFile(run + "/result.json")); }

std::vector<double> MetricOf(const std::string& run, const std::string& name) {
  const auto records = train::ReadMetrics(run + "/metrics.jsonl");
  EXPECT_TRUE(records.ok()) << records.status();
  std::vector<double> values;
  for (const train::MetricsRecord& record : *records) {
    if (record.kind == "train") values.push_back(record.Get(name));
  }
  return values;
}

// C3 and C6 for pictures: 4 + 4 updates across an epoch border equal 8, whatever is switched on and
// whatever the threads.
TEST(C6, ResumedVisionRunsEqualUndisturbedOnesBitForBit) {
  const std::string everything =
      "--steps 8 --checkpoint_every 0.8 --keep_checkpoints 0 --rand_augment rand-m9-mstd0.5-inc1 "
      "--erasing 0.5 --mixup 0.8 --cutmix 1 --label_smoothing 0.1 --drop_path 0.1 --repeats 2 "
      "--average_decay 0.9 --layer_decay 0.8 --micro_batch 8 --select_on none ";
  for (const std::string special :
       {"--learning_rate 1.23456789e-3", "--optimizer sgd --learning_rate 0.012345678",
        "--compute_dtype bfloat16 --recompute"}) {
    SCOPED_TRACE(special);
    const bool recomputes = special.find("recompute") != std::string::npos;
    const std::string run = FreshFolder("run");
    ExpectDone(RunTost(With({"--threads", "2"}, Training(CifarData(), run, everything + special))));
    const std::string straight = TensorBytes(Checkpoint(run, "0000008"));
    EXPECT_NE(TensorBytes(Checkpoint(run, "0000004")), straight);
    const std::string resumed = FreshFolder("resumed");
    std::filesystem::copy(run, resumed,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(Checkpoint(resumed, "0000008"));
    ExpectDone(RunTost({"--threads", recomputes ? "2" : "1", "train", "vision", "--resume", resumed,
                        "--workers", "3"}));
    EXPECT_TRUE(TensorBytes(Checkpoint(resumed, "0000008")) == straight);
    EXPECT_EQ(MetricOf(run, "loss"), MetricOf(resumed, "loss"));
    EXPECT_EQ(MetricOf(run, "learning_rate"), MetricOf(resumed, "learning_rate"));
  }
}

TEST(C6, ResumePathThatCannotBeReadIsOneLine) {
  ExpectOneLineError(RunTost({"train", "vision", "--resume", "/nowhere/at/all"}),
                     {"/nowhere/at/all"});
}

TEST(C5, ASettingThatContradictsTheCheckpointIsOneLine) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run)));
  ExpectOneLineError(
      RunTost({"train", "vision", "--resume", run, "--model", "xcit_small_pictures_p8"}),
      {"--model xcit_small_pictures_p8 contradicts"});
  ExpectOneLineError(RunTost({"train", "vision", "--resume", run, "--image_size", "64"}),
                     {"--image_size 64"});
}

TEST(C7, AWorseEpochAfterAResumeLeavesTheBestFileUnchanged) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run, "--steps 40 --evaluate_every 2")));
  const std::string best = run + "/best.safetensors";
  const std::string before = ReadFile(best);
  const double top1 = ResultOf(run)["validation_top1"];
  ASSERT_GT(top1, 0.3);
  // Steps far too large forget what was learnt.
  ExpectDone(RunTost({"train", "vision", "--resume", run, "--steps", "50", "--schedule", "constant",
                      "--learning_rate", "3"}));
  EXPECT_TRUE(ReadFile(best) == before);
  const json result = ResultOf(run);
  EXPECT_EQ(result["validation_top1"], top1);
  EXPECT_LE(result["selected_update"], 40);
}

TEST(C8, OtherClassesNeedResetHeadAndThenOnlyTheHeadIsNew) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run)));
  const std::string data = FolderData(3);
  ExpectOneLineError(RunTost(Training(data, FreshFolder("tuned"), "--init " + run)),
                     {"knows 10 classes", "the data have 3", "--reset_head"});
  ExpectOneLineError(RunTost(Training(data, FreshFolder("tuned"), "--reset_head")),
                     {"--reset_head is for --init"});
  const std::string tuned = FreshFolder("tuned");
  ExpectDone(RunTost(Training(data, tuned,
                              "--reset_head --global_batch 8 --train_only head --optimizer sgd "
                              "--learning_rate 0.1 --steps 6 --init " +
                                  run)));
  // A linear probe: everything but the head is as it was, running statistics included.
  const std::string from = run + "/best.safetensors", to = Checkpoint(tuned, "0000006");
  EXPECT_THAT(ResultOf(tuned)["parameters"], testing::Lt(ResultOf(run)["parameters"].get<int>()));
  const std::string body = TensorBytes(from).substr(0, 100000);
  EXPECT_TRUE(TensorBytes(to).substr(0, 100000) == body);
}

TEST(C8, WeightsOfAnotherModelAreRefused) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run)));
  ExpectOneLineError(RunTost(Training(CifarData(), FreshFolder("other"),
                                      "--model vit_small_pictures_p8 --init " + run)),
                     {"--model vit_small_pictures_p8 contradicts"});
}

TEST(D21, ABadPictureFailsOrIsSkippedAndCounted) {
  const std::string data = FolderData(2);
  const std::string bad = data + "/train/class1/bad.jpg";
  WriteFile(bad, ReadFile(data + "/train/class1/0.jpg").substr(0, 300));
  ExpectOneLineError(RunTost(Training(data, FreshFolder("run"),
                                      "--validation_fraction 0 "
                                      "--select_on none "
                                      "--global_batch 17")),
                     {"bad.jpg"});
  const std::string run = FreshFolder("run");
  const Outcome outcome = RunTost(Training(data, run,
                                           "--validation_fraction 0 --select_on none "
                                           "--global_batch 17 --bad_images skip"));
  ExpectDone(outcome);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("skipping a bad picture"), HasSubstr("bad.jpg")));
  EXPECT_EQ(ResultOf(run)["bad_images"], 1);
  EXPECT_EQ(MetricOf(run, "bad_images").back(), 1);
}

TEST(D25, TheResultNamesTheSplitThatSelectedAndItIsNeverTestUnasked) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run, "--evaluate_every 0.4")));
  json result = ResultOf(run);
  EXPECT_EQ(result["selected_on"], "validation");
  EXPECT_TRUE(result.contains("validation_top1"));
  EXPECT_TRUE(result.contains("test_top1"));
  EXPECT_THAT(result["protocol"].get<std::string>(), HasSubstr("0.2 of"));

  const std::string official = FreshFolder("official");
  const Outcome outcome =
      RunTost(Training(CifarData(), official, "--select_on test --validation_fraction 0"));
  ExpectDone(outcome);
  EXPECT_THAT(outcome.error, HasSubstr("the test split picks the best checkpoint"));
  result = ResultOf(official);
  EXPECT_EQ(result["selected_on"], "test");
  EXPECT_EQ(result["validation_pictures"], 0);

  ExpectOneLineError(RunTost(Training(CifarData(), FreshFolder("none"), "--validation_fraction 0")),
                     {"no validation split", "--validation_fraction"});
}

TEST(T15, StepsZeroOnlyEvaluates) {
  const std::string run = FreshFolder("run");
  const Outcome outcome = RunTost(Training(CifarData(), run, "--steps 0"));
  ExpectDone(outcome);
  EXPECT_THAT(outcome.error, HasSubstr("after update 0: validation top-1"));
  EXPECT_TRUE(MetricOf(run, "loss").empty());
}

TEST(T17, ARateThatIsScaledSaysBaseFactorAndResult) {
  const Outcome outcome =
      RunTost(Training(CifarData(), FreshFolder("run"), "--rate_batch 512 --learning_rate 0.0005"));
  ExpectDone(outcome);
  EXPECT_THAT(outcome.error, HasSubstr("learning rate 0.0005 x 16 / 512 = 1.5625e-05"));
}

TEST(C13, TerminationSavesAndSaysHowToGoOn) {
  const std::string run = FreshFolder("run");
  const Outcome outcome = RunTostAndSignal(Training(CifarData(), run, "--steps 1000000"), SIGTERM,
                                           /*milliseconds=*/1500);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.error;
  EXPECT_THAT(outcome.ErrorLines(),
              testing::ElementsAre(AllOf(HasSubstr("everything is saved"),
                                         HasSubstr("tost train vision --resume " + run))));
}

TEST(E1, SettingsThatMakeNoSenseAreOneLineEach) {
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"--crop magic", {"--crop is random_resized or padded or none, not 'magic'"}},
      {"--optimizer lion", {"--optimizer is adamw or sgd"}},
      {"--schedule steps", {"--schedule is"}},
      {"--decay half", {"--decay is"}},
      {"--rand_augment rand-x9", {"x9"}},
      {"--drop_path 1", {"--drop_path must be in [0, 1)"}},
      {"--average_decay -0.1", {"--average_decay must be in [0, 1)"}},
      {"--select_on luck", {"--select_on is validation, test or none"}},
      {"--train_only body", {"--train_only is all or head"}},
      {"--bad_images ask", {"--bad_images is fail or skip"}},
      {"--orientation left", {"--orientation is upright or stored"}},
      {"--interpolation cubic", {"--interpolation is bilinear or bicubic"}},
      {"--global_batch 128", {"0 updates per epoch"}},
      {"--model tost_huge", {"tost_huge"}},
  };
  for (const auto& [options, parts] : wrong) {
    SCOPED_TRACE(options);
    ExpectOneLineError(RunTost(Training(CifarData(), FreshFolder("run"), options)), parts);
  }
  ExpectOneLineError(RunTost({"train", "vision", "--output", FreshFolder("run")}),
                     {"--data is missing"});
}

// X1 for one process: figures depend neither on the batch nor on the threads.
TEST(X1, EvaluationCountsEveryPictureOnceWhateverTheBatch) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(Training(CifarData(), run, "--steps 20 --average_decay 0.5")));
  std::string first;
  for (const std::string batch : {"64", "7", "1"}) {
    const std::string file = FreshFolder("json") + "/figures.json";
    const Outcome outcome = RunTost({"evaluate", "--run", run, "--batch", batch, "--json", file,
                                     "--classes", "--confusion", run + "/confusion.png"});
    ExpectDone(outcome);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("pictures     20\n"), HasSubstr("mostly taken for")));
    if (first.empty()) first = ReadFile(file);
    EXPECT_EQ(json::parse(ReadFile(file))["top1"], json::parse(first)["top1"]);
    EXPECT_NEAR(json::parse(ReadFile(file))["loss"].get<double>(),
                json::parse(first)["loss"].get<double>(), 1e-5);
  }
  EXPECT_EQ(ReadFile(run + "/confusion.png").substr(1, 3), "PNG");
  EXPECT_EQ(json::parse(first)["top1"], ResultOf(run)["test_top1"]);
  for (const std::string weights : {"newest", "average"}) {
    ExpectDone(RunTost({"evaluate", "--run", run, "--weights", weights, "--split", "validation"}));
  }
  ExpectOneLineError(RunTost({"evaluate", "--run", run, "--split", "dev"}), {"--split is"});
  ExpectOneLineError(RunTost({"evaluate", "--run", run, "--data", FolderData(3), "--any_sizes"}),
                     {"10 classes", "3"});
}

TEST(Predict, SaysClassesWithProbabilitiesAndSkipsBadPicturesIfAsked) {
  const std::string run = FreshFolder("run"), data = FolderData(3);
  ExpectDone(RunTost(Training(data, run, "--steps 60 --global_batch 8")));
  const std::string pictures = FreshFolder("pictures");
  std::filesystem::create_directories(pictures);
  for (int label = 0; label < 3; ++label) {
    WriteFile(absl::StrCat(pictures, "/", label, ".png"),
              data::EncodePng(ClassPicture(label, 9, 50)));
  }
  const Outcome table = RunTost({"predict", "--run", run, "--top", "2", pictures});
  ExpectDone(table);
  EXPECT_THAT(table.out, AllOf(HasSubstr("/0.png\n"), HasSubstr(" %  class0\n")));

  const Outcome outcome = RunTost({"predict", "--run", run, "--json", pictures});
  ExpectDone(outcome);
  std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  for (int label = 0; label < 3; ++label) {
    const json prediction = json::parse(lines[static_cast<size_t>(label)]);
    EXPECT_EQ(prediction["classes"][0]["name"], absl::StrCat("class", label));
    double sum = 0;
    for (const json& entry : prediction["classes"]) sum += entry["probability"].get<double>();
    EXPECT_NEAR(sum, 1, 1e-6);
  }

  WriteFile(pictures + "/3.jpg", "no picture");
  ExpectOneLineError(RunTost({"predict", "--run", run, pictures}), {"3.jpg"});
  const Outcome skipped = RunTost({"predict", "--run", run, "--bad_images", "skip", pictures});
  ExpectDone(skipped);
  EXPECT_THAT(skipped.error, HasSubstr("3.jpg"));
}

// V3: what training sees, on one sheet; V4: equal settings give equal bytes.
TEST(V3, TheContactSheetIsDrawnAndTheSameEachTime) {
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const std::string sheet = FreshFolder("sheet") + ".png";
    ExpectDone(RunTost({"inspect", "augment", "--data", CifarData(), "--any_sizes", "--crop",
                        "padded", "--mixup", "0.8", "--global_batch", "8", "--sheet", sheet}));
    if (first.empty()) first = ReadFile(sheet);
    EXPECT_TRUE(ReadFile(sheet) == first);
  }
  EXPECT_EQ(first.substr(1, 3), "PNG");
}

}  // namespace
}  // namespace tost::acceptance
