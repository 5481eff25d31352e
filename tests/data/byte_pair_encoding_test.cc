#include "data/byte_pair_encoding.h"

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "data/text_pieces.h"
#include "data/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/data/random_text.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;
using Tables = BytePairEncoding::Tables;

std::string Malformed(absl::string_view name) {
  return ReadBytes(absl::StrCat(TOST_SOURCE_DIR "/tests/data/malformed/tokens/", name));
}

Tables Gpt2Tables() {
  return {.tokens = ReadBytes(TOST_SOURCE_DIR "/data/gpt2/encoder.json"),
          .merges = ReadBytes(TOST_SOURCE_DIR "/data/gpt2/vocab.bpe"),
          .tokens_source = "encoder.json",
          .merges_source = "vocab.bpe"};
}

// The 256 printable characters that stand for bytes, by byte.
std::vector<std::string> MakePrintableBytes() {
  std::vector<std::string> printable(256);
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    AppendUtf8(itself ? byte : next++, printable[byte]);
  }
  return printable;
}

const std::vector<std::string>& PrintableBytes() {
  static const auto* const printable = new std::vector<std::string>(MakePrintableBytes());
  return *printable;
}

// Ids 0 to 255 are the bytes, then come the tokens that the merges ("a b") make, then `more`.
Tables SmallTables(const std::vector<std::string>& merges,
                   const std::vector<std::string>& more = {}) {
  nlohmann::json tokens;
  const auto add = [&](const std::string& token) {
    if (!tokens.contains(token)) tokens[token] = tokens.size();
  };
  for (const std::string& byte : PrintableBytes()) add(byte);
  std::string lines;
  for (const std::string& merge : merges) {
    add(absl::StrReplaceAll(merge, {{" ", ""}}));
    absl::StrAppend(&lines, merge, "\n");
  }
  for (const std::string& token : more) add(token);
  return {.tokens = tokens.dump(), .merges = lines, .tokens_source = "t", .merges_source = "m"};
}

BytePairEncoding Made(Tables tables) {
  absl::StatusOr<BytePairEncoding> encoding = BytePairEncoding::Create(std::move(tables));
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  return *std::move(encoding);
}

absl::Status ErrorOf(Tables tables) { return BytePairEncoding::Create(std::move(tables)).status(); }

Ids Encoded(const BytePairEncoding& encoding, absl::string_view text) {
  Ids ids;
  encoding.Encode(text, ids);
  return ids;
}

// The pieces that merging leaves of a text, quoted in a list.
std::vector<std::string> Tokens(const BytePairEncoding& encoding, absl::string_view text) {
  std::vector<std::string> tokens;
  for (int32_t id : Encoded(encoding, text)) tokens.emplace_back(encoding.Bytes(id));
  return tokens;
}

// bpe() of GPT-2's encoder.py: all occurrences of the lowest pair, again and again.
class PlainMerger {
 public:
  PlainMerger() {
    std::istringstream lines(Gpt2Tables().merges);
    std::string line;
    std::getline(lines, line);
    for (int rank = 0; std::getline(lines, line); ++rank) {
      const std::vector<std::string> pair = absl::StrSplit(line, ' ');
      ranks_[{pair[0], pair[1]}] = rank;
    }
  }

  std::vector<std::string> Merge(absl::string_view piece) const {
    std::vector<std::string> word;
    for (char byte : piece) word.push_back(PrintableBytes()[static_cast<unsigned char>(byte)]);
    while (true) {
      auto lowest = ranks_.end();
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        const auto found = ranks_.find({word[i], word[i + 1]});
        const bool lower =
            found != ranks_.end() && (lowest == ranks_.end() || found->second < lowest->second);
        if (lower) lowest = found;
      }
      if (lowest == ranks_.end()) return word;
      std::vector<std::string> merged;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == lowest->first.first &&
                          word[i + 1] == lowest->first.second;
        merged.push_back(here ? word[i] + word[i + 1] : word[i]);
        i += here ? 1 : 0;
      }
      word = std::move(merged);
    }
  }

 private:
  std::map<std::pair<std::string, std::string>, int> ranks_;
};

TEST(BytePairEncoding, LowestRankFirstThenLeftmost) {
  const BytePairEncoding encoding = Made(SmallTables({"b c", "a b", "a a", "aa a"}));
  EXPECT_THAT(Tokens(encoding, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(Tokens(encoding, "abb"), ElementsAre("ab", "b"));
  EXPECT_THAT(Tokens(encoding, "aaa"), ElementsAre("aaa"));
  EXPECT_THAT(Tokens(encoding, "aaaa"), ElementsAre("aa", "aa"));
  EXPECT_THAT(Tokens(encoding, "aaaaa"), ElementsAre("aa", "aaa"));
  EXPECT_EQ(Encoded(encoding, ""), Ids());
}

TEST(BytePairEncoding, ATokenThatItsBytesDoNotMergeToIsNeverGiven) {
  // "abc" is "ab" + "c", but in the text "bc" comes first. A table may list such a token.
  const BytePairEncoding encoding = Made(SmallTables({"b c", "a b", "ab c"}, {"xyz"}));
  EXPECT_THAT(Tokens(encoding, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(Tokens(encoding, "xyz"), ElementsAre("x", "y", "z"));
  EXPECT_EQ(encoding.size(), 260);
}

TEST(BytePairEncoding, TwoLinesMayMakeOneToken) {
  const BytePairEncoding encoding = Made(SmallTables({"a b", "ab c", "b c", "a bc"}));
  EXPECT_EQ(encoding.size(), 259);
  EXPECT_THAT(Tokens(encoding, "abc"), ElementsAre("abc"));
  EXPECT_THAT(Tokens(encoding, "bc"), ElementsAre("bc"));
}

TEST(BytePairEncoding, MergesAsTheOriginalDoes) {
  const PlainMerger plain;
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  std::mt19937 random(2);
  // Each alphabet makes one piece; lengths are on both sides of where a heap takes over.
  const std::vector<std::vector<std::string>> alphabets = {{"a", "b"},
                                                           {"e", "t", "a", "o", "n", "i"},
                                                           {"a"},
                                                           {"^"},
                                                           {"=", "-"},
                                                           {"0", "1", "9"},
                                                           {" "},
                                                           {"é", "à"},
                                                           {"日", "本", "語"}};
  for (const std::vector<std::string>& alphabet : alphabets) {
    for (const size_t longest : {8, 40, 140, 400}) {
      for (int i = 0; i < 6; ++i) {
        std::string piece;
        for (size_t n = 1 + random() % longest; n > 0; --n) {
          piece += alphabet[random() % alphabet.size()];
        }
        std::vector<std::string> printable;
        for (const std::string& token : Tokens(gpt2, piece)) {
          std::string name;
          for (char byte : token) name += PrintableBytes()[static_cast<unsigned char>(byte)];
          printable.push_back(name);
        }
        ASSERT_EQ(printable, plain.Merge(piece)) << piece;
      }
    }
  }
}

TEST(BytePairEncoding, AnyBytesComeBack) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 2000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    ASSERT_EQ(gpt2.Decode(Encoded(gpt2, bytes)), bytes);
    const std::string text = RandomText(random, random() % 500);
    ASSERT_EQ(gpt2.Decode(Encoded(gpt2, text)), text);
  }
  const std::string zeros(300, '\0');
  for (size_t n = 0; n < zeros.size(); ++n) {  // pieces that differ in their length only
    const std::string text = zeros.substr(0, n);
    ASSERT_EQ(gpt2.Decode(Encoded(gpt2, text)), text);
  }
}

TEST(BytePairEncoding, EveryTokenOfGpt2IsWhatItsBytesMergeTo) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  const BytePairEncoding merging = Made(Gpt2Tables());  // takes nothing for granted
  int32_t pieces = 0;
  for (int32_t id = 0; id < gpt2.size(); ++id) {
    const absl::string_view bytes = gpt2.Bytes(id);
    const Ids ids = Encoded(merging, bytes);
    ASSERT_EQ(Encoded(gpt2, bytes), ids) << id;
    // Others, such as "\n\n", are pieces before white space only.
    if (id == gpt2.end_of_text() || FirstPiece(bytes) != bytes.size()) continue;
    ASSERT_THAT(ids, ElementsAre(id));
    ++pieces;
  }
  EXPECT_GT(pieces, 50000);
}

TEST(BytePairEncoding, EncodeAppends) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  Ids ids = {7};
  gpt2.Encode("hello", ids);
  gpt2.EncodeWithSpecialTokens("Hello<|endoftext|>", ids);
  EXPECT_THAT(ids, ElementsAre(7, 31373, 15496, 50256));
}

TEST(BytePairEncoding, WithoutEndOfTextItIsPlain) {
  const BytePairEncoding encoding = Made(SmallTables({"a b"}));
  EXPECT_EQ(encoding.end_of_text(), std::nullopt);
  Ids ids;
  encoding.EncodeWithSpecialTokens("a<|endoftext|>", ids);
  EXPECT_EQ(ids, Encoded(encoding, "a<|endoftext|>"));
  EXPECT_EQ(Made(SmallTables({}, {"<|endoftext|>"})).end_of_text(), 256);
}

TEST(BytePairEncoding, ThreadsShareTheTables) {
  const std::string text = ReadBytes(TOST_SOURCE_DIR "/data/samples/tinyshakespeare.txt");
  std::vector<Ids> ids(3);
  std::vector<std::thread> threads;
  for (Ids& mine : ids) {
    threads.emplace_back([&] { BytePairEncoding::Gpt2().Encode(text, mine); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids[0].size(), 338025u);
  EXPECT_EQ(ids[1], ids[0]);
  EXPECT_EQ(ids[2], ids[0]);
}

TEST(BytePairEncoding, DigestIsOfTokensAndMergesOnly) {
  const std::string digest = Made(SmallTables({"a b", "b c"})).digest();
  Tables spaced = SmallTables({"a b", "b c"});
  spaced.tokens = nlohmann::json::parse(spaced.tokens).dump(2);
  spaced.merges = absl::StrCat("#version: 0.2\r\n", spaced.merges);
  spaced.tokens_source = "elsewhere";
  EXPECT_EQ(Made(std::move(spaced)).digest(), digest);
  EXPECT_NE(Made(SmallTables({"a b"}, {"bc"})).digest(), digest);         // other merges
  EXPECT_NE(Made(SmallTables({"a b", "b c"}, {"zz"})).digest(), digest);  // other tokens
  EXPECT_EQ(Made(Gpt2Tables()).digest(), BytePairEncoding::Gpt2().digest());
}

TEST(BytePairEncoding, DamagedTokenTables) {
  const auto error = [](std::string tokens) {
    Tables tables = SmallTables({});
    tables.tokens = std::move(tokens);
    return ErrorOf(std::move(tables));
  };
  ExpectOneLine(error(Malformed("encoder_truncated.json")), {"t: ", "damaged at byte 60000"});
  ExpectOneLine(error(Malformed("encoder_gap_in_ids.json")),
                {"t: id 500 is missing", "999 tokens"});
  ExpectOneLine(error(Malformed("encoder_duplicate_id.json")), {"id 20", "'+'", "'5'"});
  ExpectOneLine(error(""), {"damaged at byte"});
  ExpectOneLine(error("[1]"), {"no JSON object"});
  ExpectOneLine(error("7"), {"no JSON object"});
  ExpectOneLine(error("\"a\""), {"no JSON object"});
  ExpectOneLine(error("{}"), {"byte 0 has no token"});
  ExpectOneLine(error(R"({"a":0,"a":1})"), {"'a' is there twice"});
  ExpectOneLine(error(R"({"a":-1})"), {"'a'", "-1"});
  ExpectOneLine(error(R"({"a":0.5})"), {"'a'", "0.5"});
  ExpectOneLine(error(R"({"a":"0"})"), {"'a'", "a string"});
  ExpectOneLine(error(R"({"a":null})"), {"'a'", "null"});
  ExpectOneLine(error(R"({"a":{"b":0}})"), {"'a'", "an object"});
  ExpectOneLine(error(R"({"a":18446744073709551615})"), {"id 0 is missing"});
  ExpectOneLine(error(R"({"":0})"), {"empty"});
  ExpectOneLine(error(R"({"a b":0})"), {"'a b'", "stands for no byte"});
  ExpectOneLine(error("{\"a\\n\":0}"), {"'a\\n'", "stands for no byte"});
  ExpectOneLine(error("{\"日\":0}"), {"stands for no byte"});
  ExpectOneLine(error(absl::StrCat("{\"a\":", std::string(100000, '['))), {"'a'", "an array"});
  ExpectOneLine(error(R"({"a":0} x)"), {"damaged at byte 9"});
  Tables no_newline = SmallTables({});
  no_newline.tokens = absl::StrReplaceAll(no_newline.tokens, {{"\"Ċ\":10", "\"zz\":10"}});
  ExpectOneLine(ErrorOf(no_newline), {"byte 10 has no token", "'Ċ'"});
}

TEST(BytePairEncoding, DamagedMerges) {
  const auto error = [](const std::string& merges) {
    Tables tables = SmallTables({"a b", "b c"}, {"abc", "cab"});
    tables.merges = merges;
    return ErrorOf(std::move(tables));
  };
  EXPECT_TRUE(error("").ok());
  EXPECT_TRUE(error("#version: 0.2\n").ok());
  EXPECT_TRUE(error("a b\nb c\na bc").ok());
  EXPECT_TRUE(error("a b\n\n\n").ok());
  ExpectOneLine(error("#version\na b\nab\n"), {"m, line 3", "'ab'", "two tokens"});
  ExpectOneLine(error("a b c\n"), {"m, line 1", "two tokens"});
  ExpectOneLine(error("a b\n\nb c\n"), {"m, line 2", "two tokens"});
  ExpectOneLine(error("a  b\n"), {"m, line 1"});
  ExpectOneLine(error("a \n"), {"m, line 1"});
  ExpectOneLine(error(" a\n"), {"m, line 1"});
  ExpectOneLine(error("a b\na b\n"), {"m, line 2", "twice"});
  ExpectOneLine(error("a d\n"), {"m, line 1", "'ad' is no token"});
  ExpectOneLine(error("a b\nc ab\nx yz\n"), {"m, line 3", "'yz' is no token"});
  ExpectOneLine(error("a bc\nb c\n"), {"m, line 1", "no earlier line makes 'bc'"});
  ExpectOneLine(error("a b\n#version: 0.2\n"), {"m, line 2"});
  ExpectOneLine(error("a \xFF\n"), {"m, line 1"});
  EXPECT_LT(error(absl::StrCat("a ", std::string(1000000, 'x'))).message().size(), 200u);
}

TEST(BytePairEncoding, UnusualMergeFiles) {
  Tables tables = Gpt2Tables();
  tables.merges = Malformed("vocab_bad_merge_line.bpe");
  ExpectOneLine(ErrorOf(tables), {"vocab.bpe, line 101", "'onlyonepart'"});

  const std::vector<std::string> lines =
      absl::StrSplit(Gpt2Tables().merges, absl::MaxSplits('\n', 200));
  tables.merges.clear();
  for (size_t i = 0; i < 200; ++i) absl::StrAppend(&tables.merges, lines[i], "\n");
  const BytePairEncoding first_199 = Made(tables);
  tables.merges = Malformed("vocab_no_version_line.bpe");
  EXPECT_EQ(Made(tables).digest(), first_199.digest());
  EXPECT_THAT(Tokens(Made(tables), " the"), ElementsAre(" the"));  // begins with the first merge
  tables.merges = Malformed("vocab_crlf.bpe");
  EXPECT_EQ(Made(tables).digest(), first_199.digest());
}

TEST(BytePairEncoding, FoldersOfTables) {
  TemporaryFolder folder;
  const Tables tables = SmallTables({"a b"});
  const auto load = [&] { return BytePairEncoding::Load(folder.path()); };
  ExpectOneLine(BytePairEncoding::Load("/no/such").status(),
                {"/no/such/encoder.json", "No such file", "vocab.json and merges.txt"});
  ExpectOneLine(load().status(), {"encoder.json", "No such file"});
  WriteBytes(folder.File("vocab.json"), tables.tokens);
  ExpectOneLine(load().status(), {"merges.txt", "No such file"});
  WriteBytes(folder.File("merges.txt"), tables.merges);
  EXPECT_EQ(load()->digest(), Made(tables).digest());
  WriteBytes(folder.File("merges.txt"), "a\n");
  ExpectOneLine(load().status(), {folder.File("merges.txt"), "line 1"});
  WriteBytes(folder.File("encoder.json"), "{");
  ExpectOneLine(load().status(), {"vocab.bpe", "No such file"});
  WriteBytes(folder.File("vocab.bpe"), tables.merges);
  ExpectOneLine(load().status(), {folder.File("encoder.json"), "damaged at byte"});
}

TEST(BytePairEncodingDeathTest, IdsOutsideTheVocabulary) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  EXPECT_DEATH(gpt2.Bytes(50257), "id 50257 in a vocabulary of 50257");
  EXPECT_DEATH(gpt2.Decode(Ids{-1}), "id -1");
}

TEST(SafeCut, Places) {
  EXPECT_EQ(SafeCut("ab cd ef", 7), 5u);
  EXPECT_EQ(SafeCut("ab cd ef", 5), 5u);
  EXPECT_EQ(SafeCut("ab cd ef", 4), 2u);
  EXPECT_EQ(SafeCut("ab cd ef", 1), 0u);
  EXPECT_EQ(SafeCut("ab cd", 1000), 2u);  // the end of the text is no place: more may follow
  EXPECT_EQ(SafeCut("ab ", 1000), 2u);
  EXPECT_EQ(SafeCut("abc", 1000), 0u);
  EXPECT_EQ(SafeCut("", 1000), 0u);
  EXPECT_EQ(SafeCut("a", 1000), 0u);
  EXPECT_EQ(SafeCut("abc12", 1000), 3u);
  EXPECT_EQ(SafeCut("12abc", 1000), 2u);
  EXPECT_EQ(SafeCut("don't", 1000), 3u);  // not after the apostrophe
  EXPECT_EQ(SafeCut("a  b", 1000), 1u);   // not between or after the spaces
  EXPECT_EQ(SafeCut("日本。語", 1000), 6u);
  EXPECT_EQ(SafeCut("日本。語", 5), 0u);
  EXPECT_EQ(SafeCut("é\xE3\x80\x80"
                    "b",
                    1000),
            2u);  // ideographic space
}

TEST(SafeCut, PartsHaveTheIdsOfTheWhole) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  std::mt19937 random(4);
  int cuts = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = RandomText(random, random() % 60);
    Ids parts;
    absl::string_view rest = text;
    while (const size_t cut = SafeCut(rest, 1 + random() % 30)) {
      gpt2.Encode(rest.substr(0, cut), parts);
      rest.remove_prefix(cut);
      ++cuts;
    }
    gpt2.Encode(rest, parts);
    ASSERT_EQ(parts, Encoded(gpt2, text)) << testing::PrintToString(text);
  }
  EXPECT_GT(cuts, 5000);
}

}  // namespace
}  // namespace tost::data
