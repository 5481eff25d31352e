#include "data/tokenizer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

Ids Encoded(const Tokenizer& tokenizer, absl::string_view text,
            SpecialTokens special = SpecialTokens::kPlain) {
  Ids ids;
  const absl::Status status = tokenizer.Encode(text, "test", ids, special);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

Tokenizer Characters(absl::string_view text) {
  return Tokenizer::OfCharacters(CharacterVocabulary::Of(*DecodeUtf8(text, "test")));
}

// GPT-2's first merges only.
BytePairEncoding FewMerges() {
  BytePairEncoding::Tables tables = BytePairEncoding::Gpt2().tables();
  tables.merges.resize(tables.merges.find("\nh e\n") + 1);
  return *BytePairEncoding::Create(std::move(tables));
}

Tokenizer ReadBack(const Tokenizer& tokenizer) {
  absl::StatusOr<Tokenizer> read = Tokenizer::FromJson(tokenizer.ToJson(), "v.json");
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

TEST(Tokenizer, Gpt2) {
  const Tokenizer gpt2 = *Tokenizer::Named("gpt2");
  EXPECT_EQ(gpt2.name(), "gpt2");
  EXPECT_EQ(gpt2.vocabulary(), 50257);
  EXPECT_EQ(gpt2.end_of_text(), 50256);
  EXPECT_THAT(Encoded(gpt2, "Hello world"), ElementsAre(15496, 995));
  EXPECT_EQ(Encoded(gpt2, "<|endoftext|>").size(), 7u);
  EXPECT_THAT(Encoded(gpt2, "<|endoftext|>", SpecialTokens::kRecognised), ElementsAre(50256));
  EXPECT_EQ(gpt2.Decode(Ids{15496, 995}), "Hello world");
  EXPECT_EQ(gpt2.digest(), BytePairEncoding::Gpt2().digest());
}

TEST(Tokenizer, CharactersCanFail) {
  const Tokenizer characters = Characters("helo");
  EXPECT_EQ(characters.name(), "characters");
  EXPECT_EQ(characters.vocabulary(), 4);
  EXPECT_EQ(characters.end_of_text(), std::nullopt);
  EXPECT_EQ(characters.byte_pairs(), nullptr);
  EXPECT_EQ(characters.Decode(Encoded(characters, "hello")), "hello");
  Ids ids = {9};
  ExpectOneLine(characters.Encode("hex", "--prompt", ids), {"--prompt", "'x'", "position 2"});
  EXPECT_THAT(ids, ElementsAre(9));
  EXPECT_TRUE(characters.Encode("he", "--prompt", ids).ok());
  EXPECT_THAT(ids, ElementsAre(9, 1, 0));
}

TEST(Tokenizer, JsonRoundTrips) {
  for (const Tokenizer& tokenizer :
       {Characters("heé \n\"lo"), Tokenizer::Gpt2(), Tokenizer::OfBytePairs(FewMerges())}) {
    SCOPED_TRACE(tokenizer.name());
    const Tokenizer read = ReadBack(tokenizer);
    EXPECT_EQ(read.name(), tokenizer.name());
    EXPECT_EQ(read.digest(), tokenizer.digest());
    EXPECT_EQ(read.vocabulary(), tokenizer.vocabulary());
    EXPECT_EQ(Encoded(read, "hello"), Encoded(tokenizer, "hello"));
    EXPECT_EQ(read.ToJson(), tokenizer.ToJson());
  }
  EXPECT_LT(Tokenizer::Gpt2().ToJson().size(), 300u);  // by name, without the tables
}

TEST(Tokenizer, TablesOfGpt2AreGpt2) {
  BytePairEncoding::Tables tables = BytePairEncoding::Gpt2().tables();
  tables.tokens_source = "a copy";
  EXPECT_EQ(Tokenizer::OfBytePairs(*BytePairEncoding::Create(std::move(tables))).name(), "gpt2");
  EXPECT_EQ(Tokenizer::OfBytePairs(FewMerges()).name(), "byte_pairs");
}

TEST(Tokenizer, NamedFolders) {
  TemporaryFolder folder;
  ExpectOneLine(Tokenizer::Named(folder.path()).status(), {"encoder.json", "No such file"});
  const BytePairEncoding few = FewMerges();
  WriteBytes(folder.File("vocab.json"), few.tables().tokens);
  WriteBytes(folder.File("merges.txt"), few.tables().merges);
  EXPECT_EQ(Tokenizer::Named(folder.path())->digest(), few.digest());
}

TEST(Tokenizer, AVersionLineOfAnyBytesIsKeptOut) {
  BytePairEncoding::Tables tables = FewMerges().tables();
  tables.merges = absl::StrReplaceAll(tables.merges, {{"#version: 0.2", "#version \xFF"}});
  const Tokenizer tokenizer = Tokenizer::OfBytePairs(*BytePairEncoding::Create(std::move(tables)));
  EXPECT_EQ(ReadBack(tokenizer).digest(), tokenizer.digest());
}

TEST(Tokenizer, FilesThatAreNoTokenizer) {
  const auto error = [](absl::string_view json) {
    return Tokenizer::FromJson(json, "v.json").status();
  };
  ExpectOneLine(error("{}"), {"v.json"});
  ExpectOneLine(error("nonsense"), {"v.json"});
  const std::string gpt2 = Tokenizer::Gpt2().ToJson();
  const auto changed = [&](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(gpt2, {{from, to}});
  };
  EXPECT_TRUE(error(gpt2).ok());
  ExpectOneLine(error(changed("\"version\":1", "\"version\":2")), {"v.json", "version is not 1"});
  ExpectOneLine(error(changed("\"gpt2\"", "\"gpt9\"")), {"v.json", "'gpt9'", "gpt2"});
  const std::string other(64, '0');
  ExpectOneLine(error(changed(Tokenizer::Gpt2().digest(), other)),
                {"v.json", other, Tokenizer::Gpt2().digest()});
  ExpectOneLine(error(R"({"format":"tost tokenizer","version":1,"name":"gpt2"})"),
                {"v.json", "digest ''"});
  ExpectOneLine(error(R"({"format":"tost tokenizer","version":1,"name":"byte_pairs"})"),
                {"v.json, tokens"});

  nlohmann::json few = nlohmann::json::parse(Tokenizer::OfBytePairs(FewMerges()).ToJson());
  few["merges"] = few["merges"].get<std::string>() + "q\n";
  ExpectOneLine(error(few.dump()), {"v.json, merges, line 4", "'q'"});
  ExpectOneLine(Tokenizer::Load("/no/such/v.json").status(), {"/no/such/v.json", "No such file"});
}

}  // namespace
}  // namespace tost::data
