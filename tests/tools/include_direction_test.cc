// Reads the include lines of the whole tree: who includes whom, root-relative paths, guards.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// docs/design.md, "Who may include whom". Every folder may include itself; tests include anything.
const std::map<std::string, std::set<std::string>>& Allowed() {
  static const auto* table = new std::map<std::string, std::set<std::string>>{
      {"autograd/base", {}},
      {"autograd", {"autograd/base"}},
      {"ops", {"autograd", "autograd/base"}},
      {"data", {"autograd", "autograd/base"}},
      // cuda/gpu.h includes the emulator where the compiler is not nvcc.
      {"cuda", {"ops", "autograd", "autograd/base", "tests"}},
      {"models", {"ops", "autograd", "autograd/base"}},
      {"roofline", {"ops", "autograd", "autograd/base"}},
      {"trainers", {"models", "ops", "data", "autograd", "autograd/base"}},
      {"tools", {"trainers", "roofline", "models", "ops", "data", "autograd", "autograd/base"}},
      {"tests",
       {"tools", "trainers", "roofline", "models", "cuda", "ops", "data", "autograd",
        "autograd/base"}},
  };
  return *table;
}

// "ops/cpu/gemm.h" lies in "ops", "autograd/base/log.h" in "autograd/base".
std::string FolderOf(const std::string& path) {
  if (path.starts_with("autograd/base/")) return "autograd/base";
  return path.substr(0, path.find('/'));
}

std::vector<std::string> QuotedIncludes(const std::string& text) {
  std::vector<std::string> includes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#include \"")) continue;
    const size_t begin = line.find('"') + 1;
    includes.push_back(line.substr(begin, line.find('"', begin) - begin));
  }
  return includes;
}

// The includes of one file that no arrow of the table allows, one message each.
std::vector<std::string> ForbiddenIncludes(const std::string& path, const std::string& text) {
  std::vector<std::string> forbidden;
  const std::string from = FolderOf(path);
  if (!Allowed().contains(from)) return {path + ": folder " + from + " is not in the table"};
  for (const std::string& include : QuotedIncludes(text)) {
    const std::string to = FolderOf(include);
    if (!Allowed().contains(to) || to == from || Allowed().at(from).contains(to)) continue;
    forbidden.push_back(path + " includes " + include);
  }
  return forbidden;
}

std::string GuardOf(std::string path) {
  for (char& c : path) {
    c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
  }
  return "TOST_" + path + "_";
}

const std::set<std::string> kExtensions = {".h", ".cc", ".cu", ".cuh"};

// Every C++ file of the folders in the table: path from the root, text.
std::map<std::string, std::string> SourceFiles() {
  const std::filesystem::path root = TOST_SOURCE_DIR;
  std::map<std::string, std::string> files;
  for (const auto& [folder, includes] : Allowed()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (!kExtensions.contains(extension)) continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files[entry.path().lexically_relative(root)] = text.str();
    }
  }
  return files;
}

TEST(IncludeDirection, PlantedViolationsAreSeen) {
  EXPECT_THAT(ForbiddenIncludes("ops/add.cc", "#include \"models/mlp.h\"\n#include <vector>\n"),
              ElementsAre("ops/add.cc includes models/mlp.h"));
  EXPECT_THAT(ForbiddenIncludes("autograd/base/log.cc", "#include \"autograd/tensor.h\"\n"),
              ElementsAre("autograd/base/log.cc includes autograd/tensor.h"));
  EXPECT_THAT(ForbiddenIncludes("data/text.cc", "#include \"ops/add.h\"\n"),
              ElementsAre("data/text.cc includes ops/add.h"));
  EXPECT_THAT(ForbiddenIncludes("trainers/train.cc", "#include \"tests/golden/golden.h\"\n"),
              ElementsAre("trainers/train.cc includes tests/golden/golden.h"));
  EXPECT_THAT(ForbiddenIncludes("helpers/a.cc", ""), ElementsAre(HasSubstr("not in the table")));
}

TEST(IncludeDirection, AllowedArrowsPass) {
  EXPECT_THAT(ForbiddenIncludes("ops/add.cc",
                                "#include \"ops/add.h\"\n#include \"autograd/base/errors.h\"\n"
                                "#include \"absl/strings/str_cat.h\"\n"),
              IsEmpty());
}

TEST(IncludeDirection, HoldsInTheWholeTree) {
  const auto files = SourceFiles();
  ASSERT_TRUE(files.contains("autograd/tape.cc"));
  for (const auto& [path, text] : files) EXPECT_THAT(ForbiddenIncludes(path, text), IsEmpty());
}

TEST(Includes, AreRootRelative) {
  const std::filesystem::path root = TOST_SOURCE_DIR;
  for (const auto& [path, text] : SourceFiles()) {
    for (const std::string& include : QuotedIncludes(text)) {
      EXPECT_FALSE(include.starts_with(".")) << path << " includes " << include;
      EXPECT_FALSE(std::filesystem::exists((root / path).parent_path() / include) &&
                   !std::filesystem::exists(root / include))
          << path << " includes its neighbour " << include << " without the folder";
    }
  }
}

TEST(Includes, EveryHeaderHasTheGuardOfItsPath) {
  EXPECT_EQ(GuardOf("ops/cpu/gemm.h"), "TOST_OPS_CPU_GEMM_H_");
  for (const auto& [path, text] : SourceFiles()) {
    if (!path.ends_with(".h") && !path.ends_with(".cuh")) continue;
    const std::string guard = GuardOf(path);
    EXPECT_THAT("\n" + text, HasSubstr("\n#ifndef " + guard + "\n#define " + guard + "\n")) << path;
  }
}

}  // namespace
}  // namespace tost
