// Every kernel slot of ops/ has a kernel on the counting device.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::roofline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string TextOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What the first group of `pattern` matches in the headers ops/*.h with names that end in `ending`.
std::set<std::string> NamesIn(const std::string& ending, const std::string& pattern) {
  std::set<std::string> names;
  const std::regex regex(pattern);
  const std::filesystem::path folder = std::filesystem::path(TOST_SOURCE_DIR) / "ops";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(ending)) continue;
    const std::string text = TextOf(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
      names.insert((*it)[1]);
    }
  }
  return names;
}

// Those of the names that no file of counts mentions as a word.
std::set<std::string> Uncounted(std::set<std::string> names) {
  const std::filesystem::path folder = std::filesystem::path(TOST_SOURCE_DIR) / "roofline";
  const std::string counts =
      TextOf(folder / "fused_counts.cc") + TextOf(folder / "primitive_counts.cc");
  std::erase_if(names, [&](const std::string& name) {
    return std::regex_search(counts, std::regex("\\b" + name + "\\b"));
  });
  return names;
}

TEST(CountingKernels, FillEverySlot) {
  const std::set<std::string> slots =
      NamesIn(".h", R"((?:extern|inline constinit) Kernel<\w+(?:<F>)?> (\w+_kernel)\b)");
  EXPECT_THAT(slots, SizeIs(::testing::Gt(60u)));
  EXPECT_THAT(Uncounted(slots), IsEmpty());
}

TEST(CountingKernels, KnowEveryFunctor) {
  const std::set<std::string> functors = NamesIn(
      "ary_functors.h", R"(struct (\w+)(?: : \w+)? \{\s+static constexpr const char\* kName)");
  EXPECT_THAT(functors, SizeIs(::testing::Gt(25u)));
  EXPECT_THAT(Uncounted(functors), IsEmpty());
  const std::set<std::string> reductions = NamesIn(
      "reduce_functors.h", R"(struct (\w+)(?: : \w+)? \{\s+static constexpr const char\* kName)");
  EXPECT_THAT(reductions, SizeIs(5u));
  EXPECT_THAT(Uncounted(reductions), IsEmpty());
}

TEST(CountingKernels, AMissingOneWouldBeSeen) {
  EXPECT_THAT(Uncounted({"gemm_kernel", "no_such_kernel"}),
              ::testing::ElementsAre("no_such_kernel"));
}

}  // namespace
}  // namespace tost::roofline
