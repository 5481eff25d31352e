#include "tests/data/test_sets.h"

#include <matio.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost {
namespace {

// The first fine label of each coarse one, and so a pair that belongs together.
constexpr int kFineOfCoarse[20] = {4,  1,  54, 9,  0, 22, 5,  6,  3, 12,
                                   23, 15, 34, 26, 2, 27, 36, 47, 8, 41};

void Append(std::string& bytes, uint64_t value, int width, bool big_endian) {
  for (int i = 0; i < width; ++i) {
    const int shift = 8 * (big_endian ? width - 1 - i : i);
    bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  }
}

// An element: type, size, content, padding to eight bytes.
std::string Element(uint32_t type, std::string content, bool big_endian) {
  std::string element;
  Append(element, type, 4, big_endian);
  Append(element, content.size(), 4, big_endian);
  content.resize((content.size() + 7) / 8 * 8);
  return element + content;
}

struct Storage {
  uint32_t array_class;
  uint32_t element_type;
  int width;
};

Storage StorageOf(MatVariable::Type type) {
  switch (type) {
    case MatVariable::kUint8:
      return {9, 2, 1};
    case MatVariable::kUint16:
      return {11, 4, 2};
    case MatVariable::kDouble:
      return {6, 9, 8};
    case MatVariable::kChar:
      return {4, 4, 2};
  }
  return {};
}

std::string Variable(const MatVariable& variable, bool big_endian) {
  const Storage storage = StorageOf(variable.type);
  std::string flags, extents, values;
  Append(flags, storage.array_class, 4, big_endian);
  Append(flags, 0, 4, big_endian);
  Append(extents, static_cast<uint64_t>(variable.rows), 4, big_endian);
  Append(extents, variable.values.size() / static_cast<size_t>(variable.rows), 4, big_endian);
  for (const int value : variable.values) {
    uint64_t bits = static_cast<uint64_t>(value);
    if (variable.type == MatVariable::kDouble) {
      const double number = value;
      std::memcpy(&bits, &number, sizeof(bits));
    }
    Append(values, bits, storage.width, big_endian);
  }
  constexpr uint32_t kInt8 = 1, kInt32 = 5, kUint32 = 6, kMatrix = 14;
  return Element(kMatrix,
                 Element(kUint32, flags, big_endian) + Element(kInt32, extents, big_endian) +
                     Element(kInt8, variable.name, big_endian) +
                     Element(storage.element_type, values, big_endian),
                 big_endian);
}

}  // namespace

std::string CifarRecord(const std::vector<int>& labels, int first) {
  std::string record;
  for (const int label : labels) record.push_back(static_cast<char>(label));
  for (int i = 0; i < 3072; ++i) record.push_back(static_cast<char>((first + i) % 256));
  return record;
}

std::string CifarRecords(int count, bool cifar100) {
  std::string records;
  for (int i = 0; i < count; ++i) {
    const int coarse = i % 20;
    records +=
        cifar100 ? CifarRecord({coarse, kFineOfCoarse[coarse]}, i) : CifarRecord({i % 10}, i);
  }
  return records;
}

std::string MatFile(const std::vector<MatVariable>& variables, bool big_endian) {
  std::string bytes = "MATLAB 5.0 MAT-file, made by a test";
  bytes.resize(124, ' ');
  Append(bytes, 0x0100, 2, big_endian);
  Append(bytes, ('M' << 8) | 'I', 2, big_endian);
  for (const MatVariable& variable : variables) bytes += Variable(variable, big_endian);
  return bytes;
}

std::string CompressedMatFile(const std::vector<MatVariable>& variables) {
  const TemporaryFolder folder;
  const std::string path = folder.File("a.mat");
  mat_t* const file = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
  for (const MatVariable& variable : variables) {
    std::vector<uint16_t> values(variable.values.begin(), variable.values.end());
    size_t extents[2] = {1, values.size()};
    matvar_t* const array = Mat_VarCreate(variable.name.c_str(), MAT_C_UINT16, MAT_T_UINT16, 2,
                                          extents, values.data(), 0);
    EXPECT_EQ(Mat_VarWrite(file, array, MAT_COMPRESSION_ZLIB), 0);
    Mat_VarFree(array);
  }
  Mat_Close(file);
  return ReadBytes(path);
}

void WriteTree(const std::string& folder, const Members& files) {
  for (const auto& [name, content] : files) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteBytes(path, content);
  }
}

Members FlowersFiles(const Flowers& flowers) {
  Members files = {{"imagelabels.mat", MatFile({{"labels", flowers.labels, MatVariable::kUint8}})},
                   {"setid.mat", MatFile({{"trnid", flowers.train},
                                          {"valid", flowers.validation},
                                          {"tstid", flowers.test}})}};
  for (size_t i = 1; i <= flowers.labels.size(); ++i) {
    const std::string name = absl::StrFormat("jpg/image_%05d.jpg", i);
    files.emplace_back(name, name);
  }
  return files;
}

std::vector<int> Range(int first, int last) {
  std::vector<int> numbers(static_cast<size_t>(last - first + 1));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace tost
