// Acceptance of the tokenizer; the names are those of the acceptance statements.
#include "data/tokenizer.h"

#include <ctime>
#include <string>
#include <vector>

#include "data/byte_pair_encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

TEST(D12, OneHugePieceTakesLessThanTwoSeconds) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  const std::string texts[] = {std::string(1'000'000, '^'), std::string(1'000'000, 'a'),
                               std::string(100'000, ' '), std::string(100'000, ' ') + "a"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 1));
    Ids ids;
    const std::clock_t start = std::clock();  // of this process: others may be busy
    gpt2.Encode(text, ids);
    EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
    EXPECT_EQ(gpt2.Decode(ids), text);
  }
}

TEST(D13, EndOfTextIsPlainUnlessAskedForAndSeparatesDocuments) {
  const Tokenizer gpt2 = Tokenizer::Gpt2();
  const std::string document = "a<|endoftext|>b";
  Ids plain, recognised;
  ASSERT_TRUE(gpt2.Encode(document, "test", plain).ok());
  ASSERT_TRUE(gpt2.Encode(document, "test", recognised, SpecialTokens::kRecognised).ok());
  EXPECT_THAT(plain, ElementsAre(64, 27, 91, 437, 1659, 5239, 91, 29, 65));
  EXPECT_THAT(recognised, ElementsAre(64, 50256, 65));
  EXPECT_EQ(gpt2.Decode(plain), document);
  EXPECT_EQ(gpt2.Decode(recognised), document);
  EXPECT_EQ(gpt2.end_of_text(), 50256);
}

TEST(D14, AMissingOrDamagedTableIsOneLine) {
  TemporaryFolder folder;
  const auto error = [&] { return Tokenizer::Named(folder.path()).status(); };
  const BytePairEncoding::Tables& gpt2 = BytePairEncoding::Gpt2().tables();
  ExpectOneLine(error(), {folder.File("encoder.json"), "No such file"});
  WriteBytes(folder.File("encoder.json"), gpt2.tokens);
  ExpectOneLine(error(), {folder.File("vocab.bpe"), "No such file"});
  WriteBytes(folder.File("vocab.bpe"), gpt2.merges);
  EXPECT_EQ(Tokenizer::Named(folder.path())->name(), "gpt2");

  const size_t second_half = gpt2.merges.find('\n', gpt2.merges.size() / 2) + 1;
  WriteBytes(folder.File("vocab.bpe"), gpt2.merges.substr(0, second_half) + "broken\n");
  ExpectOneLine(error(), {folder.File("vocab.bpe"), "line 25856", "'broken'"});
  WriteBytes(folder.File("encoder.json"), gpt2.tokens.substr(0, 60000));
  ExpectOneLine(error(), {folder.File("encoder.json"), "damaged at byte 60000"});

  // Same form, another table: the digest tells.
  std::string json = Tokenizer::Gpt2().ToJson();
  json[json.find(Tokenizer::Gpt2().digest())] = 'x';
  WriteBytes(folder.File(kTokenizerFile), json);
  ExpectOneLine(Tokenizer::Load(folder.File(kTokenizerFile)).status(),
                {folder.File(kTokenizerFile), "digest", Tokenizer::Gpt2().digest()});
}

}  // namespace
}  // namespace tost::data
