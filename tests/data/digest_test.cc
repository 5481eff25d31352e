#include "data/digest.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

// Test vectors of FIPS 180-2.
constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kOfMillionA[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Sha256Of(""), kOfNothing);
  EXPECT_EQ(Sha256Of("abc"), kOfAbc);
  EXPECT_EQ(Sha256Of(std::string(1000000, 'a')), kOfMillionA);
}

TEST(Sha256, PiecesAreOneText) {
  Sha256 digest;
  for (int i = 0; i < 1000; ++i) {
    digest.Append(std::string(999, 'a'));
    digest.Append("");
    digest.Append("a");
  }
  EXPECT_EQ(digest.Hex(), kOfMillionA);
}

TEST(Sha256, OfAFile) {
  TemporaryFolder folder;
  // Longer than what is read at once, and not a multiple of it.
  const std::string bytes = std::string(3'000'000, 'x') + std::string("\0end", 4);
  WriteBytes(folder.File("a.bin"), bytes);
  WriteBytes(folder.File("empty.bin"), "");
  EXPECT_EQ(*Sha256OfFile(folder.File("a.bin")), Sha256Of(bytes));
  EXPECT_EQ(*Sha256OfFile(folder.File("empty.bin")), kOfNothing);
  ExpectOneLine(Sha256OfFile(folder.File("none.bin")).status(), {"none.bin", "No such file"});
  ExpectOneLine(Sha256OfFile(folder.path()).status(), {folder.path(), "directory"});
}

}  // namespace
}  // namespace tost::data
