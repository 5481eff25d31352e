#include "data/corpus.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "data/byte_pair_encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_archives.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Texts = std::vector<std::string>;

// All documents of a corpus, and what it said at the end.
struct Read {
  absl::Status status;
  Texts documents;
  std::vector<TextPiece> pieces;
  int64_t empty = 0;
  int64_t forced_cuts = 0;
  SkippedFiles skipped;
  int64_t consumed = 0;
  int64_t input = 0;
};

Read ReadAll(const std::vector<std::string>& paths, Corpus::Options options = {}) {
  Read read;
  absl::StatusOr<Corpus> corpus = Corpus::Open(paths, options);
  if (!corpus.ok()) return {.status = corpus.status()};
  TextPiece piece;
  bool begins = true;
  for (;;) {
    const absl::StatusOr<bool> found = corpus->Next(piece);
    read.status = found.status();
    if (!found.ok() || !*found) break;
    if (begins) read.documents.emplace_back();
    EXPECT_EQ(piece.offset, static_cast<int64_t>(read.documents.back().size()));
    EXPECT_FALSE(piece.text.empty());
    read.documents.back() += piece.text;
    read.pieces.push_back(piece);
    begins = piece.ends_document;
  }
  if (read.status.ok()) {
    EXPECT_TRUE(begins) << "a document without an end";
    EXPECT_EQ(corpus->documents(), static_cast<int64_t>(read.documents.size()));
  }
  read.empty = corpus->empty_documents();
  read.forced_cuts = corpus->forced_cuts();
  read.skipped = corpus->skipped();
  read.consumed = corpus->consumed_bytes();
  read.input = corpus->input_bytes();
  return read;
}

std::string Malformed(const std::string& name) {
  return std::string(TOST_SOURCE_DIR) + "/tests/data/malformed/text/" + name;
}

class CorpusTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, absl::string_view bytes) {
    const std::string path = folder_.File(name);
    fs::create_directories(fs::path(path).parent_path());
    WriteBytes(path, bytes);
    return path;
  }
  Read ReadBytesAs(const std::string& name, absl::string_view bytes) {
    return ReadAll({Write(name, bytes)});
  }

  TemporaryFolder folder_;
};

TEST_F(CorpusTest, UnusualTextsKeepTheirBytes) {
  for (const char* name :
       {"crlf.txt", "utf8_bom.txt", "nul_bytes.txt", "no_final_newline.txt", "only_newlines.txt",
        "invalid_utf8.txt", "truncated_utf8_at_eof.txt", "endoftext_literal.txt"}) {
    const Read read = ReadAll({Malformed(name)});
    ASSERT_TRUE(read.status.ok()) << name << read.status;
    EXPECT_THAT(read.documents, ElementsAre(ReadBytes(Malformed(name)))) << name;
  }
}

TEST_F(CorpusTest, JsonLinesWithBlanksAndEscapes) {
  EXPECT_THAT(ReadAll({Malformed("blank_lines_ok.jsonl")}).documents,
              ElementsAre("good line 0", "good line 1"));
  EXPECT_THAT(
      ReadAll({Malformed("escapes_ok.jsonl")}).documents,
      ElementsAre("tab\t quote\" slash/ \u00e9 \U0001F600 nul" + std::string(1, '\0') + "end"));
  const Read read =
      ReadBytesAs("a.ndjson", "{\"text\":\"one\"}\r\n \t\r\n{\"x\":{\"text\":1},\"text\":\"two\"}");
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_THAT(read.documents, ElementsAre("one", "two"));
  EXPECT_THAT(read.pieces[1].source, HasSubstr("a.ndjson line 3"));
  EXPECT_THAT(ReadAll({Write("b.jsonl", R"({"text":"no","body":"yes"})")}, {.json_field = "body"})
                  .documents,
              ElementsAre("yes"));
}

TEST_F(CorpusTest, BrokenTextsAreOneLine) {
  const std::pair<const char*, std::vector<std::string>> broken[] = {
      {"utf16le.txt", {"UTF-16"}},
      {"bad_line.jsonl", {"line 2", "not JSON", "byte 23"}},
      {"missing_text_key.jsonl", {"line 2", "\"text\"", "--json_field"}},
      {"text_not_a_string.jsonl", {"line 2", "null"}},
      {"lone_surrogate.jsonl", {"line 1", "surrogate"}},
      {"array_instead_of_object.jsonl", {"line 1", "an array"}},
      {"deep_nesting.jsonl", {"line 1", "nested"}},
      {"truncated_data.xz", {"xz data are damaged or cut"}},
      {"not_xz_data.xz", {"not what its name says"}}};
  for (const auto& [name, parts] : broken) {
    SCOPED_TRACE(name);
    const Read read = ReadAll({Malformed(name)});
    ExpectOneLine(read.status, {name});
    ExpectOneLine(read.status, parts);
  }
  ExpectOneLine(ReadAll({folder_.File("none.txt")}).status, {"none.txt"});
  ExpectOneLine(ReadAll({"/dev/null"}).status, {"/dev/null"});
}

TEST_F(CorpusTest, AFieldThatIsNoString) {
  for (const char* value : {"17", "-1", "1.5", "true", "[\"a\"]", "{}"}) {
    ExpectOneLine(ReadBytesAs("a.jsonl", std::string("{\"text\":") + value + "}").status,
                  {"line 1", "not a string"});
  }
  ExpectOneLine(ReadBytesAs("a.jsonl", "{\"a\":{\"text\":\"inside\"}}").status, {"no field"});
  ExpectOneLine(ReadBytesAs("a.jsonl", "{\"text\":\"a\"} {}").status, {"not JSON"});
  ExpectOneLine(ReadBytesAs("a.jsonl", "{\"text\":\"\xFF\"}").status, {"not JSON", "UTF-8"});
}

TEST_F(CorpusTest, ALineOfJsonHasALimit) {
  const std::string path =
      Write("long.jsonl", "{\"text\":\"a\"}\n{\"text\":\"" + std::string(5000000, 'b') + "\"}\n");
  ExpectOneLine(ReadAll({path}, {.line_bytes = 4000000}).status, {"line 2", "4000000"});
  EXPECT_EQ(ReadAll({path}).documents[1].size(), 5000000u);
}

TEST_F(CorpusTest, EmptyDocumentsAreCounted) {
  Write("a.txt", "");
  Write("b.jsonl", "{\"text\":\"\"}\n{\"text\":\"b\"}\n");
  const Read read = ReadAll({folder_.path()});
  EXPECT_THAT(read.documents, ElementsAre("b"));
  EXPECT_EQ(read.empty, 2);
}

TEST_F(CorpusTest, FoldersGiveTheirTextsSortedByPath) {
  Write("a/2.txt", "a/2");
  Write("a-b.txt", "a-b");
  Write("a/1.TXT", "a/1");
  Write("c/d/e.jsonl", "{\"text\":\"c/d/e\"}");
  Write("a.txt", "a");
  Write("a/.hidden.txt", "no");
  Write(".git/x.txt", "no");
  Write("a/README.md", "no");
  const Read read = ReadAll({folder_.path()});
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_THAT(read.documents, ElementsAre("a-b", "a", "a/1", "a/2", "c/d/e"));
  EXPECT_EQ(read.skipped.count, 3);
  EXPECT_EQ(read.consumed, read.input);
  // Paths keep their order, and what is named is a text whatever its suffix.
  EXPECT_THAT(ReadAll({folder_.File("c"), folder_.File("a/README.md")}).documents,
              ElementsAre("c/d/e", "no"));
}

TEST_F(CorpusTest, CompressedFilesAreWhatIsInThem) {
  const std::string text = "some text\n", lines = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
  for (const auto& [filter, suffix] :
       {std::pair("gzip", ".gz"), {"bzip2", ".bz2"}, {"xz", ".xz"}, {"zstd", ".zst"}}) {
    SCOPED_TRACE(filter);
    const std::string packed = Compress(filter, text);
    EXPECT_THAT(ReadBytesAs(std::string("a.txt") + suffix, packed).documents, ElementsAre(text));
    // A named file is a text whatever its inner name; two compressions are one after the other.
    EXPECT_THAT(ReadBytesAs(std::string("wiki.raw") + suffix, packed).documents, ElementsAre(text));
    EXPECT_THAT(ReadBytesAs(std::string("b.jsonl") + suffix, Compress(filter, lines)).documents,
                ElementsAre("one", "two"));
    EXPECT_THAT(ReadBytesAs("told_by_content.txt", packed).documents, ElementsAre(text));
    EXPECT_EQ(ReadBytesAs(std::string("empty.txt") + suffix, Compress(filter, "")).empty, 1);
    ExpectOneLine(ReadBytesAs("cut.txt.gz", packed.substr(0, packed.size() - 6)).status,
                  {"cut.txt.gz", filter, "damaged or cut"});
  }
}

TEST_F(CorpusTest, MembersOfArchivesInStoredOrder) {
  const Members members = {{"b.txt", "second name, first member"},
                           {"./dir/a.txt", "first"},
                           {"dir/notes.md", "no"},
                           {".hidden/x.txt", "no"},
                           {"empty.txt", ""},
                           {"lines.jsonl", "{\"text\":\"a line\"}"}};
  for (const char* format : {"ustar", "pax", "zip"}) {
    SCOPED_TRACE(format);
    const Read read = ReadBytesAs(format, Pack(format, members));
    ASSERT_TRUE(read.status.ok()) << read.status;
    EXPECT_THAT(read.documents, ElementsAre("second name, first member", "first", "a line"));
    EXPECT_EQ(read.skipped.count, 2);
    EXPECT_EQ(read.empty, 1);
    EXPECT_THAT(read.pieces[0].source, HasSubstr(" > b.txt"));
  }
  const std::string tar = Pack("ustar", members);
  EXPECT_EQ(ReadBytesAs("a.tgz", Compress("gzip", tar)).documents.size(), 3u);
  EXPECT_EQ(ReadBytesAs("a.tar.zst", Compress("zstd", tar)).documents.size(), 3u);
  ExpectOneLine(ReadBytesAs("cut.tar", tar.substr(0, 520)).status, {"cut.tar", "damaged or cut"});
}

// Made by Python's tarfile; libarchive's writer cannot without a UTF-8 locale, its reader must.
TEST_F(CorpusTest, MembersWithNamesOutsideTheLocale) {
  const Read read =
      ReadAll({std::string(TOST_SOURCE_DIR) + "/tests/data/archives/pax_utf8_name.tar.gz"});
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_THAT(read.documents, ElementsAre("umlaut"));
  EXPECT_THAT(read.pieces[0].source, testing::EndsWith(" > \u00fcber/\u65e5\u672c.txt"));
}

// OpenWebText: a compressed tar of compressed tars whose names do not say so.
TEST_F(CorpusTest, ArchivesInArchives) {
  const auto subset = [](const Members& members) { return Compress("xz", Pack("ustar", members)); };
  const std::string inner = subset({{"0000003-c.txt", std::string(300000, 'c') + " end"}});
  const Members subsets = {{"openwebtext/urlsf_subset00-1_data.xz",
                            subset({{"0000001-a.txt", "one"}, {"0000002-b.txt", "two"}})},
                           {"openwebtext/urlsf_subset00-2_data.xz", inner}};
  const Read read = ReadBytesAs("openwebtext.tar.xz", Compress("xz", Pack("ustar", subsets)));
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_THAT(read.documents, ElementsAre("one", "two", std::string(300000, 'c') + " end"));
  EXPECT_THAT(read.pieces[1].source,
              testing::EndsWith("openwebtext.tar.xz > openwebtext/urlsf_subset00-1_data.xz > "
                                "0000002-b.txt"));
  Write("unpacked/urlsf_subset00-2_data.xz", inner);
  EXPECT_EQ(ReadAll({folder_.File("unpacked")}).documents.size(), 1u);

  const Members broken = {{"a.xz", inner.substr(0, inner.size() / 2)}};
  ExpectOneLine(ReadBytesAs("outer.tar", Pack("ustar", broken)).status,
                {"outer.tar > a.xz", "damaged or cut"});
}

TEST_F(CorpusTest, ContainersInEachOtherHaveALimit) {
  std::string bytes = "text";
  for (int i = 0; i < 8; ++i) bytes = Compress("gzip", bytes);
  EXPECT_THAT(ReadBytesAs("deep.txt.gz", bytes).documents, ElementsAre("text"));
  bytes = "text";
  for (int i = 0; i < 9; ++i) bytes = Pack("ustar", {{"a.tar", bytes}});
  ExpectOneLine(ReadBytesAs("deep.tar", bytes).status, {"deep.tar > a.tar", "more than 8"});
}

TEST_F(CorpusTest, DamagedArchivesNeverCrash) {
  const Members members = {{"a.txt", std::string(300, 'a')}, {"b.jsonl", "{\"text\":\"b\"}\n"}};
  for (const char* format : {"ustar", "pax", "zip"}) {
    const std::string good = Pack(format, members);
    for (size_t at = 0; at < good.size(); at += 13) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
      const Read read = ReadBytesAs("bad.txt", bad);
      EXPECT_THAT(std::string(read.status.message()), testing::Not(HasSubstr("\n")));
    }
  }
}

TEST_F(CorpusTest, PiecesGiveTheTokensOfTheWhole) {
  const std::string text =
      ReadBytes(std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt")
          .substr(0, 200000);
  const std::string path = Write("a.txt", text);
  std::vector<int32_t> whole;
  BytePairEncoding::Gpt2().Encode(text, whole);
  for (const int64_t bytes : {50, 1000, 65536}) {
    const Read read = ReadAll({path}, {.piece_bytes = bytes});
    EXPECT_GT(read.pieces.size(), 2u);
    EXPECT_EQ(read.forced_cuts, 0);
    EXPECT_TRUE(read.documents == Texts{text});
    std::vector<int32_t> ids;
    for (const TextPiece& piece : read.pieces) BytePairEncoding::Gpt2().Encode(piece.text, ids);
    EXPECT_EQ(ids, whole) << bytes;
  }
  // Those of a JSON line likewise.
  const Read read = ReadAll({Write("b.jsonl", "{\"text\":\"" + std::string(3000, 'a') + " " +
                                                  std::string(3000, 'b') + "\"}")},
                            {.piece_bytes = 1000});
  EXPECT_EQ(read.documents[0].size(), 6001u);
  EXPECT_EQ(read.pieces.size(), 2u);
}

TEST_F(CorpusTest, WithoutASafePlaceTheCutIsBetweenCharacters) {
  std::string text;
  while (text.size() < 9000) text += "\u65e5";
  const Read read = ReadAll({Write("a.txt", text)}, {.piece_bytes = 1000});
  EXPECT_TRUE(read.documents == Texts{text});
  EXPECT_EQ(read.forced_cuts, 2);
  for (const TextPiece& piece : read.pieces) EXPECT_EQ(piece.text.size() % 3, 0u);
  // Bytes that are no UTF-8 are cut anywhere.
  EXPECT_EQ(ReadAll({Write("b.txt", std::string(9000, '\x80'))}, {.piece_bytes = 1000})
                .documents[0]
                .size(),
            9000u);
}

TEST_F(CorpusTest, NoCutInsideTheEndOfTextMarker) {
  const std::string marker = "<|endoftext|>";
  for (int64_t shift = 0; shift < 20; ++shift) {
    std::string text(static_cast<size_t>(90 + shift), 'a');
    for (int i = 0; i < 30; ++i) text += " word" + marker;
    const Read read = ReadAll({Write("a.txt", text)}, {.piece_bytes = 100});
    EXPECT_TRUE(read.documents == Texts{text});
    std::vector<int32_t> ids;
    for (const TextPiece& piece : read.pieces) {
      BytePairEncoding::Gpt2().EncodeWithSpecialTokens(piece.text, ids);
    }
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 50256), 30) << shift;
  }
}

}  // namespace
}  // namespace tost::data
