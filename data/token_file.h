// One file of token ids. Three layouts are read, ours and raw are written.
//
// Ours: a header of 1024 bytes, then the ids. All numbers are little-endian.
//     offset  type      meaning
//          0  char[8]   "TOSTTOK" and a zero byte
//          8  uint32    version of this layout, 1
//         12  uint32    bytes per id, 2 or 4
//         16  uint64    number of ids
//         24  uint64    vocabulary size
//         32  uint64    largest id in the file
//         40  byte[32]  SHA-256 of the tokenizer (Tokenizer::digest); zeros: not recorded
//         72  zeros up to byte 1024
// llm.c: 256 int32 words, of which the first three are the magic, the version and the number of ids
//     (20240520, 1: uint16 ids; 20240801, 7: uint32 ids), then the ids.
// Raw (nanoGPT's train.bin): ids only; uint16, or uint32 where the vocabulary exceeds 65536.
#ifndef TOST_DATA_TOKEN_FILE_H_
#define TOST_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/atomic_file.h"

namespace tost::data {

enum class TokenLayout { kTost, kLlmC, kRaw };

// "tost header", "llm.c header" or "raw, no header".
const char* Name(TokenLayout layout);

// Bytes per id that a vocabulary needs: 2 up to 65536 entries, else 4.
constexpr int TokenWidth(int64_t vocabulary) { return vocabulary > 65536 ? 4 : 2; }

// A readable token file. Read may be called from several threads. Reading is by position (pread)
// and not through a memory map, so a file that shrinks under a running job is an error, not a
// signal.
class TokenFile {
 public:
  // Opens a file and checks its header and size against each other without reading the ids.
  // `vocabulary` decides the width of raw ids and is otherwise unused here; 0 when unknown.
  static absl::StatusOr<TokenFile> Open(const std::string& path, int64_t vocabulary);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&& other) noexcept;
  ~TokenFile();

  const std::string& path() const { return path_; }
  TokenLayout layout() const { return layout_; }
  int64_t size() const { return size_; }              // ids
  int width() const { return width_; }                // bytes per id
  int64_t vocabulary() const { return vocabulary_; }  // as recorded in the file; 0: not recorded
  // The digest of the tokenizer that made the ids, as recorded; "": not recorded.
  const std::string& tokenizer_digest() const { return tokenizer_digest_; }
  std::string Description() const;  // "train.bin: 1003854 tokens of 16 bits (tost header)"

  // The largest id; recorded in our header, found by reading the file otherwise.
  absl::StatusOr<int64_t> LargestId() const;
  // An error naming the file, position, id and vocabulary when an id is >= `vocabulary`.
  absl::Status CheckIds(int64_t vocabulary) const;
  // The same for ids that were read from position `first` on.
  absl::Status CheckIds(int64_t first, std::span<const int32_t> ids, int64_t vocabulary) const;

  // Copies ids [first, first + out.size()).
  absl::Status Read(int64_t first, std::span<int32_t> out) const;

 private:
  TokenFile() = default;
  absl::Status ParseHeader(int64_t bytes, int64_t vocabulary);
  absl::Status ParseOurs(uint32_t version, uint32_t width, uint64_t count, uint64_t vocabulary,
                         uint64_t largest_id, std::span<const std::byte> digest, int64_t bytes);
  absl::Status CheckHeader(uint32_t version, uint32_t known_version, uint64_t count, int64_t bytes);
  // Calls visit(position of the first, ids) for all ids in order, until it returns an error.
  absl::Status ForEachPiece(
      absl::FunctionRef<absl::Status(int64_t, std::span<const int32_t>)> visit) const;

  std::string path_;
  int descriptor_ = -1;
  TokenLayout layout_ = TokenLayout::kRaw;
  int64_t header_bytes_ = 0;
  int64_t size_ = 0;
  int width_ = 2;
  int64_t vocabulary_ = 0;
  int64_t largest_id_ = -1;  // recorded; -1: not recorded
  std::string tokenizer_digest_;
};

struct TokenFileOptions {
  int64_t vocabulary = 0;
  int width = 0;                 // 0 chooses TokenWidth(vocabulary); a narrower one is an error
  std::string tokenizer_digest;  // 64 hexadecimal digits, or "": not to be recorded
  TokenLayout layout = TokenLayout::kTost;  // or kRaw
};

// Writes one token file. The name appears when it is complete; until then, and after
// any error, there is only a temporary file, which goes with the writer.
class TokenFileWriter {
 public:
  static absl::StatusOr<TokenFileWriter> Create(const std::string& path, TokenFileOptions options);

  // An id outside the vocabulary is an error.
  absl::Status Append(std::span<const int32_t> ids);
  int64_t size() const { return size_; }  // ids
  int64_t bytes() const;                  // of the file

  // Finish writes the header and brings everything to the disk; Publish gives the file its name.
  absl::Status Finish();
  absl::Status Publish() { return file_.Publish(); }

 private:
  TokenFileWriter(AtomicFile file, TokenFileOptions options);

  AtomicFile file_;
  TokenFileOptions options_;  // with the width chosen
  int64_t size_ = 0;
  int64_t largest_id_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_TOKEN_FILE_H_
