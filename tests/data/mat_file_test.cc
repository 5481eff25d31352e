#include "data/mat_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

const std::vector<MatVariable> kLabels = {{"labels", {1, 2, 102}, MatVariable::kUint8},
                                          {"other", {7}}};

std::vector<int64_t> Read(const std::string& bytes, const std::string& variable = "labels") {
  const auto values = ReadMatIntegers(bytes, "a.mat", variable);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.value_or(std::vector<int64_t>());
}

absl::Status Error(const std::string& bytes, const std::string& variable = "labels") {
  return ReadMatIntegers(bytes, "a.mat", variable).status();
}

TEST(MatFile, NumbersOfAllTypesAndShapesAreRead) {
  EXPECT_THAT(Read(MatFile(kLabels)), ElementsAre(1, 2, 102));
  EXPECT_THAT(Read(MatFile(kLabels), "other"), ElementsAre(7));
  EXPECT_THAT(Read(MatFile({{"labels", {1, 2, 8189}}})), ElementsAre(1, 2, 8189));
  EXPECT_THAT(Read(MatFile({{"labels", {1, 2, 3}, MatVariable::kDouble, /*rows=*/3}})),
              ElementsAre(1, 2, 3));
}

TEST(MatFile, BothByteOrdersAndCompressionAreRead) {
  EXPECT_THAT(Read(MatFile(kLabels, /*big_endian=*/true)), ElementsAre(1, 2, 102));
  EXPECT_THAT(Read(CompressedMatFile({{"labels", {5, 6, 7000}}})), ElementsAre(5, 6, 7000));
}

TEST(MatFile, MissingVariablesAreNamedWithThoseThatAreThere) {
  ExpectOneLine(Error(MatFile({{"label", {1}}, {"x", {2}}})),
                {"a.mat", "no variable labels", "label, x"});
  ExpectOneLine(Error(MatFile({})), {"a.mat", "no variable labels", "none"});
}

TEST(MatFile, OtherFilesAreToldApart) {
  ExpectOneLine(Error(""), {"a.mat", "not a MATLAB 5 file", "0 bytes"});
  ExpectOneLine(Error("<!DOCTYPE html><html><body>404 Not Found</body></html>\n"),
                {"a.mat", "not a MATLAB 5 file"});
  std::string hdf5 = "MATLAB 7.3 MAT-file, Platform: GLNXA64 HDF5 schema 1.00 .";
  hdf5.resize(584, ' ');
  ExpectOneLine(Error(hdf5), {"a.mat", "MATLAB 7.3", "not supported", "-v7"});
}

TEST(MatFile, OtherTypesAreRefused) {
  ExpectOneLine(Error(MatFile({{"labels", {'a', 'b'}, MatVariable::kChar}})),
                {"a.mat", "labels", "text, not a list of numbers"});
}

TEST(MatFile, CutFilesAreRefusedWhereverTheyAreCut) {
  for (const std::string& whole : {MatFile(kLabels), CompressedMatFile(kLabels)}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      if (size == 128) continue;  // a file without variables
      const absl::Status status = Error(whole.substr(0, size));
      // The first variable may be whole.
      if (!status.ok()) ExpectOneLine(status, {"a.mat"});
      EXPECT_TRUE(!status.ok() || size > 128 + 56) << size;
    }
    ExpectOneLine(Error(whole.substr(0, 160)), {"a.mat", "is cut", "byte 128", "160 bytes"});
  }
}

TEST(MatFile, ChangedBytesNeverCrash) {
  for (const std::string& whole : {MatFile(kLabels), CompressedMatFile(kLabels)}) {
    for (size_t at = 120; at < whole.size(); ++at) {
      for (const int mask : {0x01, 0x80, 0xFF}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ mask);
        (void)ReadMatIntegers(changed, "a.mat", "labels").ok();
      }
    }
  }
}

TEST(MatFile, LibraryIsSilent) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::string damaged = CompressedMatFile({{"labels", Range(1, 100)}});
  damaged[150] = static_cast<char>(~damaged[150]);
  EXPECT_FALSE(Error(damaged).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace tost::data
