// GPT-2's tokenizer against the ids that four independent encoders agree on
// (tests/golden/tokenizer/README.md).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "data/atomic_file.h"
#include "data/byte_pair_encoding.h"
#include "data/digest.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

std::string GoldenFolder() {
  const char* const folder = std::getenv("TOST_GOLDEN_DIR");
  return absl::StrCat(folder != nullptr ? folder : TOST_SOURCE_DIR "/tests/golden", "/tokenizer/");
}

std::vector<Json> Lines(const std::string& name) {
  std::ifstream file(GoldenFolder() + name);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  EXPECT_FALSE(lines.empty()) << GoldenFolder() << name;
  return lines;
}

Ids Encoded(const std::string& text) {
  Ids ids;
  BytePairEncoding::Gpt2().Encode(text, ids);
  return ids;
}

TEST(Gpt2Golden, IdsOfAllCases) {
  for (const Json& line : Lines("cases.jsonl")) {
    const std::string text = line["text"];
    const Ids ids = Encoded(text);
    EXPECT_EQ(ids, line["ids"].get<Ids>()) << line["kind"] << ": " << text.substr(0, 200);
    EXPECT_EQ(BytePairEncoding::Gpt2().Decode(ids), text);
  }
}

TEST(Gpt2Golden, WhiteSpaceIsUnicodes) {
  for (const Json& line : Lines("whitespace_edges.jsonl")) {
    EXPECT_EQ(Encoded(line["text"]), line["ids"].get<Ids>()) << line;
  }
}

TEST(Gpt2Golden, EndOfTextIsPlainUnlessAskedFor) {
  for (const Json& line : Lines("special.jsonl")) {
    const std::string text = line["text"];
    EXPECT_EQ(Encoded(text), line["ids_plain"].get<Ids>()) << text;
    Ids ids;
    BytePairEncoding::Gpt2().EncodeWithSpecialTokens(text, ids);
    EXPECT_EQ(ids, line["ids_with_special"].get<Ids>()) << text;
    EXPECT_EQ(BytePairEncoding::Gpt2().Decode(ids), text);
  }
}

TEST(Gpt2Golden, FaultyUtf8ComesBack) {
  for (const Json& line : Lines("invalid_utf8.jsonl")) {
    const std::string bytes = absl::HexStringToBytes(line["hex"].get<std::string>());
    EXPECT_EQ(BytePairEncoding::Gpt2().Decode(Encoded(bytes)), bytes) << line["hex"];
  }
}

TEST(Gpt2Golden, BytesOfAllTokens) {
  const Json whole = Json::parse(std::ifstream(GoldenFolder() + "whole_files.json"));
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  ASSERT_EQ(gpt2.size(), 50257);
  EXPECT_EQ(gpt2.end_of_text(), 50256);
  Sha256 sha;
  size_t total = 0;
  for (int32_t id = 0; id < gpt2.size(); ++id) {
    const absl::string_view bytes = gpt2.Bytes(id);
    const auto length = static_cast<uint16_t>(bytes.size());
    sha.Append({reinterpret_cast<const char*>(&length), sizeof(length)});
    sha.Append(bytes);
    total += bytes.size();
  }
  EXPECT_EQ(total, whole["token_bytes"]["total_bytes"]);
  EXPECT_EQ(sha.Hex(),
            whole["token_bytes"]["sha256_of_u16le_length_then_bytes_for_ids_0_to_50256"]);
}

// The text of a file of the list: all bytes, or the "text" fields of a .jsonl joined by newlines.
std::string TextOf(const std::string& path) {
  if (!path.ends_with(".jsonl")) return *ReadFile(path);
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line);) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", Json::parse(line)["text"].get<std::string>());
  }
  return text;
}

void ExpectIds(const Json& expected, const std::string& text) {
  ASSERT_EQ(Sha256Of(text), expected["text_sha256"]);
  const Ids ids = Encoded(text);
  EXPECT_EQ(ids.size(), expected["count"]);
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 16), expected["first_16"].get<Ids>());
  EXPECT_EQ(Ids(ids.end() - 16, ids.end()), expected["last_16"].get<Ids>());
  const std::vector<uint16_t> narrow(ids.begin(), ids.end());
  EXPECT_EQ(Sha256Of({reinterpret_cast<const char*>(narrow.data()), 2 * narrow.size()}),
            expected["ids_sha256_u16le"]);
  EXPECT_EQ(BytePairEncoding::Gpt2().Decode(ids), text);
}

TEST(Gpt2Golden, IdsOfTinyShakespeare) {
  const Json whole = Json::parse(std::ifstream(GoldenFolder() + "whole_files.json"));
  ASSERT_EQ(whole["files"][0]["file"], "tinyshakespeare/input.txt");
  ExpectIds(whole["files"][0], TextOf(TOST_SOURCE_DIR "/data/samples/tinyshakespeare.txt"));
}

// WikiText-2 and LAMBADA are not part of the repository.
TEST(Gpt2Golden, IdsOfWholeFiles) {
  const char* const folder = std::getenv("TOST_TEXTS_DIR");
  if (folder == nullptr) {
    GTEST_SKIP() << "TOST_TEXTS_DIR names no folder with wikitext-2-raw/wiki.test.raw and "
                    "lambada/lambada_test.jsonl";
  }
  const Json whole = Json::parse(std::ifstream(GoldenFolder() + "whole_files.json"));
  for (size_t i = 1; i < whole["files"].size(); ++i) {
    const std::string path =
        absl::StrCat(folder, "/", whole["files"][i]["file"].get<std::string>());
    SCOPED_TRACE(path);
    ASSERT_TRUE(std::filesystem::exists(path));
    ExpectIds(whole["files"][i], TextOf(path));
  }
}

}  // namespace
}  // namespace tost::data
