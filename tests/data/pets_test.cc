#include "data/pets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

absl::Status ListError(absl::string_view text) { return ReadPetsList(text, "list.txt").status(); }

absl::StatusOr<ImageParts> Open(const std::string& trainval, const std::string& test,
                                const std::vector<std::string>& pictures) {
  Members files = {{"annotations/trainval.txt", trainval}, {"annotations/test.txt", test}};
  for (const std::string& name : pictures) files.emplace_back("images/" + name, name);
  const TemporaryFolder folder;
  WriteBytes(folder.File("set.tar"), Pack("ustar", files));
  const auto tree = FileTree::Open({folder.File("set.tar")});
  if (!tree.ok()) return tree.status();
  return OpenPets(*tree);
}

TEST(Pets, RowsBecomePicturesWithClasses) {
  const auto parts =
      Open("#Image CLASS-ID SPECIES BREED ID\nEgyptian_Mau_14 11 1 6\nAbyssinian_1 1 1 1\n",
           "beagle_1 5 2 4\r\nAbyssinian_2 1 1 1\r\n",
           {"Egyptian_Mau_14.jpg", "Abyssinian_1.jpg", "Abyssinian_2.jpg", "beagle_1.jpg",
            "Abyssinian_100.mat"});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->train.size(), 2);
  EXPECT_EQ(parts->train.items[0].name, "images/Egyptian_Mau_14.jpg");
  EXPECT_EQ(parts->train.items[0].label, 10);
  ASSERT_EQ(parts->test.size(), 2);
  EXPECT_EQ(parts->test.items[0].label, 4);
  EXPECT_EQ(std::get<std::string>(*parts->test.read(1)), "Abyssinian_2.jpg");
  ASSERT_EQ(parts->classes.size(), 37u);
  EXPECT_EQ(parts->classes[10], "Egyptian_Mau");
  EXPECT_EQ(parts->classes[1], "class 2");
}

TEST(Pets, MalformedListsAreNamedWithTheLine) {
  ExpectOneLine(ListError("Abyssinian_1 1 1 1\nAbyssinian_10 1 1\n"),
                {"list.txt: line 2", "3 fields"});
  ExpectOneLine(ListError("Abyssinian_1 1 1 1\nAbyssinian_10 38 1 1\n"), {"line 2", "class 38"});
  ExpectOneLine(ListError("Bengal_1 0 1 2\n"), {"line 1", "class 0", "1 ... 37"});
  ExpectOneLine(ListError("Abyssinian_1 one 1 1\n"), {"line 1", "\"one\"", "number"});
  ExpectOneLine(ListError("../../../../etc/passwd 1 1 1\n"), {"line 1", "no plain file name"});
  ExpectOneLine(ListError("Abyssinian_1 1 3 1\n"), {"line 1", "species 3"});
  ExpectOneLine(ListError("#Image CLASS-ID SPECIES BREED ID\n"), {"list.txt", "no picture"});
  EXPECT_EQ(ReadPetsList("Abyssinian_1 1 1 1\r\nbeagle_1 5 2 4\r\n", "")->size(), 2u);
}

TEST(Pets, ListsAndPicturesBelongTogether) {
  const std::string first = "Abyssinian_1 1 1 1\n", second = "Abyssinian_2 1 1 1\n";
  ExpectOneLine(Open(first + second, first, {"Abyssinian_1.jpg", "Abyssinian_2.jpg"}).status(),
                {"test.txt", "Abyssinian_1", "second time"});
  ExpectOneLine(Open(first, "beagle_1 1 1 1\n", {"Abyssinian_1.jpg", "beagle_1.jpg"}).status(),
                {"test.txt", "class 1 of beagle_1", "Abyssinian"});
  ExpectOneLine(Open(first + "Abyssinian_99999 1 1 1\n", second, {"Abyssinian_1.jpg"}).status(),
                {"2: images/Abyssinian_99999.jpg, images/Abyssinian_2.jpg"});
}

}  // namespace
}  // namespace tost::data
