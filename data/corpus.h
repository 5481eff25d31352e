// A stream of documents out of texts, JSON lines, folders, and archives of these.
//
// What a file is:
//   .jsonl, .ndjson   one document for each line that is not blank: the text of one field
//   .txt              one document
//   .gz .xz .zst .bz2 what is compressed in it, as if it lay there under the name without the
//   suffix .tar .zip         its members, in stored order
// The container is told by content, not by name, so a .txt may be compressed; a name that promises
// a container which is not there is an error. A file that is named itself is a document when its
// suffix is none of these (wiki.test.raw); one that is found in a folder or an archive is then
// skipped and counted, as are those whose name begins with a dot. Containers may lie in each other,
// as OpenWebText's do (openwebtext.tar.xz holds urlsf_subset00-1_data.xz, a compressed tar), and
// are read as streams.
//
// Bytes stay as they are: line ends, NUL, a UTF-8 byte order mark and bytes that are no UTF-8. Only
// a text that begins with the byte order mark of UTF-16 is an error. Documents without a byte are
// skipped and counted.
#ifndef TOST_DATA_CORPUS_H_
#define TOST_DATA_CORPUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/archive_reader.h"
#include "data/byte_stream.h"
#include "data/text_files.h"

namespace tost::data {

// A part of a document, never empty. Byte pairs of the parts are those of the whole.
struct TextPiece {
  std::string text;
  int64_t offset = 0;  // bytes of the document before it
  bool ends_document = false;
  std::string source;  // "books.tar > moby.txt" or "speeches.jsonl line 12", for messages
};

class Corpus {
 public:
  struct Options {
    std::string json_field = "text";
    // Bytes of a piece. Where no place up to here can be cut without changing byte pairs, pieces
    // of up to four times as many are tried; then the cut is between any two characters.
    int64_t piece_bytes = int64_t{1} << 20;
    int64_t line_bytes = int64_t{256} << 20;  // the longest line of JSON
  };

  // Finds all input files; a path that is not there is an error.
  static absl::StatusOr<Corpus> Open(std::vector<std::string> paths, Options options);

  int64_t files() const { return files_; }              // outermost ones
  int64_t input_bytes() const { return input_bytes_; }  // of these files
  // The same for those whose name says that they are compressed.
  int64_t compressed_bytes() const { return compressed_bytes_; }

  // Gives the next piece; false at the end. Pieces depend on the input and the options only.
  absl::StatusOr<bool> Next(TextPiece& piece);

  // So far:
  int64_t consumed_bytes() const { return *consumed_bytes_; }  // of input_bytes()
  int64_t documents() const { return documents_; }             // ended, not empty
  int64_t empty_documents() const { return empty_documents_; }
  // Pieces that end where byte pairs of the whole document might not.
  int64_t forced_cuts() const { return forced_cuts_; }
  SkippedFiles skipped() const;

 private:
  // The document that is being read: from a stream, or all of it in the buffer.
  struct Document {
    std::string source;
    std::optional<ByteStream> rest;  // nothing: all is in the buffer
    std::string buffer;
    size_t begin = 0;    // of what was not yet given
    int64_t offset = 0;  // of the same in the document
  };
  // A file of JSON lines that is being read.
  struct Lines {
    std::string source;
    ByteStream stream;
    absl::string_view unread;  // of the stream's last piece
    int64_t number = 0;        // of the last line
  };
  // A container that is being read.
  struct Layer {
    std::unique_ptr<ArchiveReader> reader;
    std::string file_name;  // by which its kind is told, without that of archives around it
    bool named;             // by the user, and not a member of an archive
  };

  Corpus(std::vector<std::string> paths, Options options);
  absl::StatusOr<bool> OpenNext();
  absl::Status Enter(std::string name, std::string file_name, bool named, ByteStream stream);
  absl::Status EnterMember(const std::string& member);
  absl::StatusOr<bool> NextLine();
  absl::StatusOr<bool> NextOfDocument(TextPiece& piece);
  absl::Status Fill(size_t bytes);
  void Take(size_t bytes, TextPiece& piece);

  Options options_;
  FileWalk walk_;
  int64_t files_ = 0;
  int64_t input_bytes_ = 0;
  int64_t compressed_bytes_ = 0;

  std::unique_ptr<int64_t> consumed_bytes_;  // has its place: streams count into it
  std::vector<Layer> layers_;                // the outermost first
  std::optional<Lines> lines_;
  std::optional<Document> document_;
  SkippedFiles skipped_members_;
  int64_t documents_ = 0;
  int64_t empty_documents_ = 0;
  int64_t forced_cuts_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_CORPUS_H_
