// What ptxas says of every kernel: registers and spills within the table of resources.txt.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tost::cuda {
namespace {

struct KernelResources {
  std::string name;  // demangled
  std::string architecture;
  int registers = 0;
  int spilled_bytes = 0;
};

std::string Demangled(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

std::vector<KernelResources> Parse(std::istream& log) {
  static const std::regex entry("Compiling entry function '([^']+)' for '([^']+)'");
  static const std::regex spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex registers("Used ([0-9]+) registers");
  std::vector<KernelResources> kernels;
  std::smatch match;
  for (std::string line; std::getline(log, line);) {
    if (std::regex_search(line, match, entry)) {
      kernels.push_back({.name = Demangled(match[1]), .architecture = match[2]});
    } else if (kernels.empty()) {
      continue;
    } else if (std::regex_search(line, match, spills)) {
      kernels.back().spilled_bytes = std::stoi(match[1]) + std::stoi(match[2]);
    } else if (std::regex_search(line, match, registers)) {
      kernels.back().registers = std::stoi(match[1]);
    }
  }
  return kernels;
}

struct Limit {
  std::string kernel;  // its name without tost::cuda:: and template arguments
  int registers = 0;
  int spilled_bytes = 0;
  bool used = false;
};

std::vector<Limit> Limits() {
  std::ifstream file(std::string(TOST_SOURCE_DIR) + "/tests/cuda/resources.txt");
  std::vector<Limit> limits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Limit limit;
    if (line.starts_with("#") ||
        !(words >> limit.kernel >> limit.registers >> limit.spilled_bytes)) {
      continue;
    }
    limits.push_back(limit);
  }
  return limits;
}

// "void tost::cuda::LayerNormKernel<float, 4>(…)" gives "LayerNormKernel".
std::string ShortName(const std::string& kernel) {
  static const std::string scope = "tost::cuda::";
  const size_t begin = kernel.find(scope);
  if (begin == std::string::npos) return kernel;
  const size_t name = begin + scope.size();
  return kernel.substr(name, kernel.find_first_of("<(", name) - name);
}

void Check(const KernelResources& kernel, std::vector<Limit>& limits) {
  const std::string what = kernel.name + " on " + kernel.architecture;
  const auto limit = std::ranges::find(limits, ShortName(kernel.name), &Limit::kernel);
  if (limit == limits.end()) {
    ADD_FAILURE() << what << " uses " << kernel.registers << " and has no row in resources.txt";
    return;
  }
  limit->used = true;
  EXPECT_LE(kernel.registers, limit->registers) << what;
  EXPECT_LE(kernel.spilled_bytes, limit->spilled_bytes) << what;
}

TEST(Resources, AreReadFromWhatPtxasSays) {
  std::istringstream log(
      "ptxas info    : Compiling entry function '_ZN4tost4cuda1KIfEEvPf' for 'sm_90'\n"
      "ptxas info    : Function properties for _ZN4tost4cuda1KIfEEvPf\n"
      "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 28 registers, used 1 barriers, 384 bytes smem\n");
  const std::vector<KernelResources> kernels = Parse(log);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "void tost::cuda::K<float>(float*)");
  EXPECT_EQ(ShortName(kernels[0].name), "K");
  EXPECT_EQ(kernels[0].architecture, "sm_90");
  EXPECT_EQ(kernels[0].registers, 28);
  EXPECT_EQ(kernels[0].spilled_bytes, 12);
}

TEST(Resources, EveryKernelKeepsWithinTheTable) {
  std::vector<Limit> limits = Limits();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TOST_CUDA_OBJECTS)) {
    if (entry.path().extension() != ".resources") continue;
    std::ifstream log(entry.path());
    for (const KernelResources& kernel : Parse(log)) Check(kernel, limits);
  }
  for (const Limit& limit : limits) {
    EXPECT_TRUE(limit.used) << "resources.txt has a row for " << limit.kernel
                            << ", of which nothing was compiled under " << TOST_CUDA_OBJECTS;
  }
}

}  // namespace
}  // namespace tost::cuda
