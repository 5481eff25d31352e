// tost bench: one JSON line that says what was measured, and one line for a user's mistake.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

using nlohmann::json;

json Bench(const std::string& arguments) {
  const Outcome outcome = RunTost(Words("--threads 2 bench " + arguments + " --repeats 1"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

TEST(Bench, StepsOfBothKindsOfModels) {
  const json language = Bench("step --model tost_char --context 16 --batch 2");
  EXPECT_EQ(language["context"], 16);
  EXPECT_FALSE(language.contains("image_size"));

  const json own_size = Bench("step --model tost_small_pictures_p8 --batch 2");
  EXPECT_EQ(own_size["image_size"], 32);
  EXPECT_FALSE(own_size.contains("context"));

  const json picture = Bench("step --model tost_small_pictures_p8 --image_size 24 --batch 2");
  EXPECT_EQ(picture["model"], "tost_small_pictures_p8");
  EXPECT_EQ(picture["image_size"], 24);
  EXPECT_EQ(picture["batch"], 2);
  EXPECT_EQ(picture["threads"], 2);
  EXPECT_GT(picture["seconds"], 0);
  EXPECT_GT(picture["peak_mb"], 0);
}

TEST(Bench, BothTssaOperators) {
  for (const std::string variant : {"causal", "whole"}) {
    const json line = Bench("tssa --variant " + variant + " --tokens 5 --width 8 --heads 2");
    EXPECT_EQ(line["variant"], variant);
    EXPECT_GT(line["forward_seconds"], 0);
    EXPECT_GT(line["seconds"], 0);
    EXPECT_GT(line["peak_mb"], 0);
  }
}

TEST(Bench, MistakesAreOneLine) {
  const auto expect = [](const std::string& arguments, const std::vector<std::string>& parts) {
    ExpectOneLineError(RunTost(Words("bench " + arguments)), parts);
  };
  expect("step --model tost_cab_huge", {"tost_cab_huge", "tost inspect models"});
  expect("step --model tost_small_pictures_p8 --context 16", {"--context", "--image_size"});
  expect("step --model tost_char --image_size 32", {"--image_size", "--context"});
  expect("step --model tost_small_pictures_p8 --image_size -1", {"image_size", "-1"});
  expect("step --model tost_char --batch 0", {"--batch", "0"});
  expect("step --model tost_char --repeats 0", {"--repeats", "0"});
  expect("decode --model tost_char --repeats 0", {"--repeats", "0"});
  expect("tssa --variant both", {"--variant", "both"});
  expect("tssa --width 7 --heads 2", {"--width 7", "--heads 2"});
}

}  // namespace
}  // namespace tost::acceptance
