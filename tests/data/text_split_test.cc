#include "data/text_split.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

TextPiece Whole(const std::string& text) { return {.text = text, .ends_document = true}; }

// Which of `count` documents are for validation.
std::vector<bool> Validation(DocumentSplit split, int count) {
  std::vector<bool> chosen;
  for (int i = 0; i < count; ++i) chosen.push_back(split.TrainingBytes(Whole("abc")) == 0);
  return chosen;
}

TEST(DocumentSplit, TakesAboutTheFractionAndDependsOnSeedAndNumberOnly) {
  const std::vector<bool> chosen = Validation(DocumentSplit(0.05, 2357), 100000);
  // Five standard deviations of a binomial of 100,000 draws at 0.05.
  const auto count = std::count(chosen.begin(), chosen.end(), true);
  EXPECT_NEAR(static_cast<double>(count), 5000, 5 * 69);
  EXPECT_EQ(Validation(DocumentSplit(0.05, 2357), 100000), chosen);
  EXPECT_NE(Validation(DocumentSplit(0.05, 2358), 100000), chosen);
}

TEST(DocumentSplit, AllPiecesOfADocumentGoTheSameWay) {
  DocumentSplit split(0.5, 1);
  int changes = 0;
  for (int document = 0; document < 100; ++document) {
    const bool first = split.TrainingBytes({.text = "abcd", .offset = 0}) == 4;
    for (int64_t piece = 1; piece < 5; ++piece) {
      EXPECT_EQ(split.TrainingBytes({.text = "abcd", .offset = 4 * piece}) == 4, first);
    }
    changes += first ? 1 : 0;
  }
  EXPECT_GT(changes, 10);
  EXPECT_LT(changes, 90);
}

TEST(DocumentSplit, AnEmptySideNamesAFractionThatWouldDo) {
  for (const double fraction : {1e-9, 0.9999999}) {
    for (int documents : {2, 3, 50}) {
      DocumentSplit split(fraction, 2357);
      for (int i = 0; i < documents; ++i) split.TrainingBytes(Whole("a"));
      const absl::Status status = split.CheckBothSides("a.jsonl");
      ExpectOneLine(status, {"a.jsonl", "documents", "0 for", "seed 2357"});
      const std::string message(status.message());
      const std::string option = "--validation_fraction ";
      double proposed = 0;
      const std::string rest = message.substr(message.find(option) + option.size());
      ASSERT_TRUE(absl::SimpleAtod(rest.substr(0, rest.find(' ')), &proposed)) << message;
      DocumentSplit better(proposed, 2357);
      for (int i = 0; i < documents; ++i) better.TrainingBytes(Whole("a"));
      EXPECT_TRUE(better.CheckBothSides("").ok()) << message;
    }
  }
  DocumentSplit one(0.5, 1);
  one.TrainingBytes(Whole("a"));
  ExpectOneLine(one.CheckBothSides("a.txt"), {"a.txt", "1 documents", "--split tail"});
}

TEST(TailSplit, CutsAfterTheCharactersOfTraining) {
  TailSplit split(0.5, 6);
  EXPECT_EQ(split.TrainingBytes(Whole("\u00e9b")), 3u);
  EXPECT_EQ(split.TrainingBytes(Whole("\u00e9\u00e9")), 2u);
  EXPECT_EQ(split.TrainingBytes(Whole("ab")), 0u);
  EXPECT_TRUE(split.CheckBothSides("").ok());
  ExpectOneLine(TailSplit(0.1, 1).CheckBothSides("a.txt"), {"a.txt", "0 for training"});
  ExpectOneLine(TailSplit(1e-18, 7).CheckBothSides("a.txt"),
                {"7 for training and 0 for validation", "0.5 leaves 3 and 4"});
}

TEST(FirstCharacters, FaultyBytesAreCharacters) {
  const auto count = [](absl::string_view text) { return FirstCharacters(text, 100).characters; };
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("a\u00e9\u65e5\U0001F600"), 4);
  EXPECT_EQ(count("\xFF\xFE"), 2);
  EXPECT_EQ(count("\xE2\x82"), 2);
  EXPECT_EQ(FirstCharacters("\u00e9\u00e9\u00e9", 2).bytes, 4u);
}

}  // namespace
}  // namespace tost::data
