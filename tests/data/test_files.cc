#include "tests/data/test_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {

TemporaryFolder::TemporaryFolder() : path_(testing::TempDir() + "tost_XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder " << path_;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string TemporaryFolder::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::vector<std::string> TemporaryFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void WriteBytes(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string LlmCBytes(uint32_t magic, uint32_t version, uint32_t count, absl::string_view ids) {
  std::vector<uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return absl::StrCat(BytesOf(header), ids);
}

void ExpectOneLine(const absl::Status& status, const std::vector<std::string>& parts) {
  ASSERT_FALSE(status.ok());
  const std::string message(status.message());
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  for (const std::string& part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
}

}  // namespace tost
