// L4: the example in the --help of every command works, run as it stands in a folder that looks
// like a checkout of tost whose user has the data sets. Only what takes minutes is cut short.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/image_write.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

namespace fs = std::filesystem;

const char kSource[] = TOST_SOURCE_DIR;

// The words of a command line; double quotes hold one together.
std::vector<std::string> ShellWords(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// The command lines below "Example:" of a help text, without the program's name.
std::vector<std::vector<std::string>> ExamplesOf(const std::string& help) {
  std::vector<std::vector<std::string>> examples;
  const std::string mark = "  tost ";
  const size_t begin = help.find("Example:\n");
  EXPECT_NE(begin, help.npos) << help;
  for (size_t at = begin; (at = help.find(mark, at)) != help.npos;) {
    const size_t end = std::min(help.find('\n', at), help.size());
    examples.push_back(ShellWords(help.substr(at + mark.size(), end - at - mark.size())));
    at = end;
  }
  return examples;
}

std::string ClozeQuestion() {
  std::string block;
  for (int i = 1; i <= 20; ++i) block += std::to_string(i) + " The cat saw the dog .\n";
  return block + "21 Then the XXXXX ran away .\tcat\t\tcat|dog|cow|hen|fox|owl|bee|ant|rat|pig\n\n";
}

// Files of CIFAR-10 with a hundredth of its records, every class among them.
void MakeCifar(const fs::path& folder) {
  constexpr int kRecords = 100, kPixels = 3072;
  fs::create_directory(folder);
  std::string records;
  for (int i = 0; i < kRecords; ++i) {
    records.push_back(static_cast<char>(i % 10));
    records.append(kPixels, static_cast<char>(i));
  }
  for (const char* file : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    WriteFile(folder / (std::string(file) + ".bin"), records);
  }
}

// A folder with what the examples name, which becomes the working folder.
void EnterCheckout() {
  const fs::path folder = FreshFolder("checkout");
  for (const char* name : {"data", "trainers", "tests"}) {
    fs::create_directory_symlink(fs::path(kSource) / name, folder / name);
  }
  for (const char* name : {"lambada", "wikitext-2-raw", "CBTest"}) {
    fs::create_directory(folder / name);
  }
  WriteFile(folder / "notes.txt", "To be, or not to be: that is the question.\n");
  WriteFile(folder / "lambada/lambada_test.jsonl",
            "{\"text\": \"The cat saw the dog and the dog saw the cat\"}\n");
  std::string article = " \n = Title = \n \n";
  for (int i = 0; i < 100; ++i) article += " The cat saw the dog , and the dog saw the cat . \n";
  WriteFile(folder / "wikitext-2-raw/wiki.test.raw", article);
  WriteFile(folder / "CBTest/cbtest_CN_valid_2000ex.txt", ClozeQuestion());
  const data::Image first(8, 8), second(9, 8);
  for (const char* label : {"n01440764", "n02102040"}) {
    for (const char* part : {"train", "val"}) {
      const fs::path pictures = folder / "imagenette2-160" / part / label;
      fs::create_directories(pictures);
      WriteFile(pictures / "1.JPEG", data::EncodePng(first));
      WriteFile(pictures / "2.JPEG", data::EncodePng(second));
    }
  }
  MakeCifar(folder / "cifar-10-batches-bin");
  fs::create_directory(folder / "photos");
  WriteFile(folder / "photo.jpg", data::EncodePng(first));
  WriteFile(folder / "photos/1.png", data::EncodePng(second));
  fs::current_path(folder);
}

// A tiny model of GPT-2 tokens in the place of one that took days.
void TrainBaseModel() {
  const Outcome outcome = RunTost(
      Words("train language --data runs/shakespeare_gpt2/data --output runs/tost_base --layers 1 "
            "--heads 1 --width 16 --context 256 --global_batch 2 --steps 2 --warmup 1 "
            "--evaluation random_windows --evaluation_batches 1"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
}

TEST(L4, EveryExampleWorks) {
  EnterCheckout();
  const std::map<std::string, std::vector<std::string>> shortened = {
      {"train language", Words("--steps 3 --evaluation random_windows --evaluation_batches 1")},
      {"bench step", Words("--repeats 1")},
      {"bench decode", Words("--repeats 1")},
      {"train vision", Words("--steps 3 --any_sizes --validation_fraction 0.5 --global_batch 2")},
      {"inspect augment", Words("--any_sizes")},
      {"evaluate", Words("--batch 64")},
  };
  // In the order in which one needs what another makes.
  for (const std::string command :
       {"prepare characters", "prepare text", "data check", "train language", "train vision",
        "evaluate", "predict", "sample", "inspect parameters", "inspect models", "inspect augment",
        "export", "import", "bench step", "bench tssa", "bench decode", "info"}) {
    SCOPED_TRACE(command);
    if (command == "evaluate") {
      ASSERT_NO_FATAL_FAILURE(TrainBaseModel());
    }
    std::vector<std::string> help = Words(command);
    help.push_back("--help");
    const auto examples = ExamplesOf(RunTost(help).out);
    EXPECT_FALSE(examples.empty());
    for (std::vector<std::string> example : examples) {
      if (const auto more = shortened.find(command); more != shortened.end()) {
        example.insert(example.end(), more->second.begin(), more->second.end());
      }
      const Outcome outcome = RunTost(example);
      EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(example) << outcome.error;
      EXPECT_NE(outcome.out + outcome.error, "");
    }
  }
}

}  // namespace
}  // namespace tost::acceptance
