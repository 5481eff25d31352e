#include "data/zero_shot_sets.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "data/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

std::string Malformed(const std::string& name) {
  return absl::StrCat(TOST_SOURCE_DIR, "/tests/data/malformed/tables/", name);
}

// A block with the given line in place of its question.
std::string Block(const std::string& question) {
  std::string text;
  for (int i = 1; i <= 20; ++i) absl::StrAppend(&text, i, " Sentence ", i, " .\n");
  return absl::StrCat(text, question, "\n\n");
}

constexpr char kQuestion[] = "21 a XXXXX sat .\tcat\t\tdog|cat|c|d|e|f|g|h|i|j";

class ZeroShotSets : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteBytes(folder_.File(name), text);
    return folder_.File(name);
  }
  TemporaryFolder folder_;
};

TEST_F(ZeroShotSets, PassagesOfBothVersions) {
  const std::string plain = Write("plain.txt", "the first one \r\n\n  \nand a second\nno end");
  EXPECT_THAT(*ReadPassages(plain), ElementsAre("the first one", "and a second", "no end"));
  const std::string objects =
      "{\"text\": \"a \\u201cb\\u201d\\n\\nc d\"}\n\n{\"text\": \"e f \"}\n";
  const std::vector<std::string> expected = {"a \u201cb\u201d\n\nc d", "e f"};
  EXPECT_EQ(*ReadPassages(Write("a.jsonl", objects)), expected);
  EXPECT_EQ(*ReadPassages(Write("told_by_content.txt", objects)), expected);
}

TEST_F(ZeroShotSets, DamagedPassagesNameTheLine) {
  auto expect = [&](const std::string& name, const std::string& text,
                    const std::vector<std::string>& parts) {
    const std::string path = Write(name, text);
    std::vector<std::string> all = parts;
    all.push_back(path);
    ExpectOneLine(ReadPassages(path).status(), all);
  };
  expect("a.jsonl", "{\"text\": \"a b\"}\nno json\n", {"line 2", "no JSON object"});
  expect("b.jsonl", "{\"text\": \"a b\"}\n[\"a b\"]\n", {"line 2"});
  expect("c.jsonl", "{\"text\": \"a b\"}\n{\"texts\": \"a b\"}\n", {"line 2", "text"});
  expect("d.jsonl", "{\"text\": \"a b\"}\n{\"text\": null}\n", {"line 2", "text"});
  expect("e.jsonl", "{\"text\": \"single\"}\n", {"line 1", "single word"});
  expect("f.jsonl", std::string(20000, '['), {"line 1"});
  expect("g.txt", "", {"no passage"});
  expect("h.txt", " \n\n", {"no passage"});
}

TEST(MalformedTables, PassagesKeepTheirPromises) {
  ExpectOneLine(ReadPassages(Malformed("lambada_one_word_line.txt")).status(),
                {"lambada_one_word_line.txt", "line 2", "single word"});
  EXPECT_THAT(*ReadPassages(Malformed("lambada_trailing_spaces.txt")),
              ElementsAre("a normal line with a last word"));
}

TEST(MalformedTables, QuestionsNameBlockAndLine) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"cbt_missing_candidates.txt", {"block 1", "line 21", "no candidates"}},
      {"cbt_9_candidates.txt", {"block 1", "line 21", "9 candidates"}},
      {"cbt_answer_not_in_candidates.txt", {"block 1", "line 21", "'Nobody'"}},
      {"cbt_no_placeholder.txt", {"block 1", "line 21", "XXXXX"}},
      {"cbt_block_cut_at_eof.txt", {"block 1", "line 12", "12 of 21 lines"}},
  };
  for (const auto& [name, parts] : cases) {
    std::vector<std::string> all = parts;
    all.push_back(name);
    ExpectOneLine(ReadClozeQuestions(Malformed(name)).status(), all);
  }
}

TEST_F(ZeroShotSets, QuestionsAreReadWhole) {
  const std::string last = Block("21 XXXXX ?\tj\t\ta|b|c|d|e|f|g|h|i|j");
  const std::string path = Write("a.txt", Block(kQuestion) + last.substr(0, last.size() - 2));
  const auto questions = ReadClozeQuestions(path);
  ASSERT_TRUE(questions.ok()) << questions.status();
  ASSERT_EQ(questions->size(), 2u);
  const ClozeQuestion& first = (*questions)[0];
  EXPECT_EQ(first.context[0], "Sentence 1 .");
  EXPECT_EQ(first.context[19], "Sentence 20 .");
  EXPECT_EQ(first.question, "a XXXXX sat .");
  EXPECT_EQ(first.candidates[0], "dog");
  EXPECT_EQ(first.answer, 1u);
  EXPECT_EQ((*questions)[1].answer, 9u);
}

TEST_F(ZeroShotSets, DamagedQuestionsNameBlockAndLine) {
  const std::string good = Block(kQuestion);  // 22 lines
  auto status = [&](const std::string& second) {
    return ReadClozeQuestions(Write("a.txt", good + second)).status();
  };
  ExpectOneLine(status("2 wrong\n"), {"block 2", "line 23", "number 1"});
  ExpectOneLine(status("1 one\n\n2 two\n"), {"block 2", "line 23", "1 of 21"});
  ExpectOneLine(status(Block("21 a XXXXX\tb\t\tb|c")), {"block 2", "line 43", "2 candidates"});
  ExpectOneLine(ReadClozeQuestions(Write("b.txt", "\n")).status(), {"b.txt", "no question"});
}

TEST_F(ZeroShotSets, FilesAreFoundByNameAndSplit) {
  const std::string plain = Write("lambada_test_plain_text.txt", "a b\n");
  auto file = FindSetFile(ZeroShotSet::kLambada, folder_.path(), "test");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path, plain);
  EXPECT_EQ(file->split, "test");
  EXPECT_EQ(file->digest, Sha256Of("a b\n"));
  const std::string objects = Write("lambada_test.jsonl", "{}\n");
  EXPECT_EQ(FindSetFile(ZeroShotSet::kLambada, folder_.path(), "test")->path, objects);

  std::filesystem::create_directory(folder_.File("data"));
  const std::string cloze = Write("data/cbtest_CN_valid_2000ex.txt", "x");
  file = FindSetFile(ZeroShotSet::kClozeCommonNouns, folder_.path(), "val");
  EXPECT_EQ(file->path, cloze);
  EXPECT_EQ(file->split, "val");
  EXPECT_EQ(FindSetFile(ZeroShotSet::kClozeEntities, cloze, "test")->split, "val");
  EXPECT_EQ(FindSetFile(ZeroShotSet::kPennTreebank, Write("my.txt", "x"), "test")->split,
            "unknown");
}

TEST_F(ZeroShotSets, MissingFilesNameThoseExpected) {
  ExpectOneLine(FindSetFile(ZeroShotSet::kLambada, "", "test").status(),
                {"--data", "lambada_test.jsonl", "lambada_test_plain_text.txt"});
  ExpectOneLine(FindSetFile(ZeroShotSet::kWikiText2, folder_.path(), "val").status(),
                {folder_.path(), "wiki.valid.raw"});
  ExpectOneLine(FindSetFile(ZeroShotSet::kPennTreebank, folder_.File("none"), "test").status(),
                {folder_.File("none")});
  ExpectOneLine(FindSetFile(ZeroShotSet::kLambada, folder_.path(), "train").status(),
                {"--split train", "lambada"});
}

}  // namespace
}  // namespace tost::data
