// Files for tests: a folder that goes with the test, bytes in and out, messages of one line.
#ifndef TOST_TESTS_DATA_TEST_FILES_H_
#define TOST_TESTS_DATA_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tost {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;
  // Names in the folder, sorted.
  std::vector<std::string> Names() const;

 private:
  std::string path_;
};

void WriteBytes(const std::string& path, absl::string_view bytes);
std::string ReadBytes(const std::string& path);

// Numbers as they lie in a file.
template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// An llm.c file: 256 header words, of which three are given, then the ids.
std::string LlmCBytes(uint32_t magic, uint32_t version, uint32_t count, absl::string_view ids);

// Expects a failure whose message is one line that contains every one of `parts`.
void ExpectOneLine(const absl::Status& status, const std::vector<std::string>& parts);

}  // namespace tost

#endif  // TOST_TESTS_DATA_TEST_FILES_H_
