// tost bench roofline: the floor of an update on a device that is not here.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

struct Result {
  std::string table;
  json figures;
};

Result Roofline(const std::string& arguments) {
  const std::string file = FreshFolder("roofline") + "/roofline.json";
  const Outcome outcome = RunTost(Words("bench roofline " + arguments + " --json " + file));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  return {outcome.out, json::parse(ReadFile(file), nullptr, /*allow_exceptions=*/false)};
}

TEST(Roofline, L2MemoryByKindForANamedDevice) {
  const Result run = Roofline("--model tost_base --batch 60 --tokens 1024 --device h200");
  EXPECT_THAT(run.table, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(run.table, HasSubstr("moments"));
  const json& memory = run.figures["memory"];
  int64_t sum = 0;
  for (const char* kind : {"parameters", "gradients", "moments", "activations"}) {
    EXPECT_GT(memory[kind], 0) << kind;
    sum += memory[kind].get<int64_t>();
  }
  EXPECT_EQ(memory["peak"], sum);
  EXPECT_LT(memory["peak"], 141e9);
  EXPECT_GT(run.figures["largest_batch"], 60);

  const Result small =
      Roofline("--model tost_base --batch 60 --tokens 1024 --device h200 --device_memory 24");
  EXPECT_LT(small.figures["largest_batch"], run.figures["largest_batch"]);
  EXPECT_EQ(small.figures["memory"], memory);
}

TEST(Roofline, KernelsAddUpToTheStep) {
  const json figures = Roofline("--model gpt2 --batch 4 --device a100").figures;
  double seconds = 0;
  std::set<std::string> kernels;
  for (const json& kernel : figures["kernels"]) {
    seconds += kernel["seconds"].get<double>();
    kernels.insert(kernel["kernel"]);
    // No faster than the memory and the tensor cores of an A100.
    const double bytes = kernel["bytes_read"].get<double>() + kernel["bytes_written"].get<double>();
    EXPECT_GE(kernel["seconds"].get<double>() * (1 + 1e-9), bytes / 2.039e12);
    EXPECT_GE(kernel["seconds"].get<double>() * (1 + 1e-9),
              kernel["bfloat16_product_flops"].get<double>() / 312e12);
  }
  EXPECT_NEAR(seconds / figures["seconds"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(figures["model_flops"].get<double>() / (seconds * 312e12),
              figures["utilisation"].get<double>(), 1e-9);
  EXPECT_LT(figures["utilisation"], 1);
  for (const char* name : {"gemm", "attention", "attention_backward", "adamw"}) {
    EXPECT_THAT(kernels, Contains(name));
  }
}

TEST(Roofline, Pictures) {
  const Result run = Roofline("--model tost_small_pictures_p8 --image_size 48 --batch 16");
  EXPECT_EQ(run.figures["image_size"], 48);
  EXPECT_FALSE(run.figures.contains("tokens"));
  EXPECT_THAT(run.table, HasSubstr("pictures/s"));
}

TEST(Roofline, RecomputationTakesLessMemoryAndMoreTime) {
  const json all = Roofline("--model tost_base --batch 4").figures;
  const json few = Roofline("--model tost_base --batch 4 --recompute").figures;
  EXPECT_LT(few["memory"]["activations"], all["memory"]["activations"]);
  EXPECT_GT(few["seconds"], all["seconds"]);
  EXPECT_EQ(few["model_flops"], all["model_flops"]);
}

TEST(Roofline, ThisMachineIsMeasured) {
  const json figures =
      Roofline("--model tost_char --batch 1 --compute_dtype float32 --device cpu").figures;
  EXPECT_GT(figures["device"]["bytes_per_second"], 1e8);
  EXPECT_GT(figures["device"]["float32_flops"], 1e8);
  EXPECT_GT(figures["device"]["memory_bytes"], 1e8);
}

TEST(Roofline, MistakesAreOneLine) {
  const auto expect = [](const std::string& arguments, const std::vector<std::string>& parts) {
    ExpectOneLineError(RunTost(Words("bench roofline " + arguments)), parts);
  };
  expect("--device h300", {"--device", "h300", "h200", "a100", "cpu"});
  expect("--model tost_huge", {"tost_huge", "tost inspect models"});
  expect("--batch 0", {"--batch", "0"});
  expect("--batch 200000 --tokens 1024", {"--batch 200000", "16777216"});
  expect("--tokens -1", {"--tokens", "-1"});
  expect("--device_memory -2", {"--device_memory", "-2"});
  expect("--compute_dtype float16", {"float16", "bfloat16"});
  expect("--model tost_char --image_size 32", {"--image_size", "--tokens"});
  expect("--model tost_small_pictures_p8 --tokens 32", {"--tokens", "--image_size"});
  expect("--model tost_char --json no/such/folder/x.json", {"no/such/folder/x.json"});
}

}  // namespace
}  // namespace tost::acceptance
