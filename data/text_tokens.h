// The token ids of a text file of any size, piece by piece.
#ifndef TOST_DATA_TEXT_TOKENS_H_
#define TOST_DATA_TEXT_TOKENS_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/digest.h"
#include "data/tokenizer.h"

namespace tost::data {

// Reads and encodes about `piece_bytes` of the file at a time and gives the ids that encoding the
// whole at once would give: pieces are cut where no token can lie across (SafeCut), or for
// characters between two of them. A text without such a place is held in memory up to the next.
class TextTokens {
 public:
  static absl::StatusOr<TextTokens> Open(const std::string& path, const Tokenizer& tokenizer,
                                         size_t piece_bytes = size_t{1} << 20);

  // Appends the ids of the next piece; false when the text is over and nothing was appended. Errors
  // are those of reading and of Tokenizer::Encode, which name the file and the place.
  absl::StatusOr<bool> Next(std::vector<int32_t>& ids);

  // Of what has been encoded.
  int64_t bytes() const { return bytes_; }
  int64_t words() const { return words_; }  // runs of bytes other than ASCII white space
  // SHA-256 of the file; only after Next has returned false.
  std::string Digest() { return digest_->Hex(); }

 private:
  TextTokens(std::string path, std::ifstream file, const Tokenizer& tokenizer, size_t piece_bytes);
  absl::Status Read(size_t bytes);
  // Bytes of pending_ that can be encoded now, 0 when more of the file must be read first.
  size_t Cut() const;
  void Count(absl::string_view text);

  std::string path_;
  std::ifstream file_;
  Tokenizer tokenizer_;
  size_t piece_bytes_;
  std::unique_ptr<Sha256> digest_;
  std::string pending_;  // read and not yet encoded
  bool over_ = false;    // nothing is left to read
  bool in_word_ = false;
  int64_t bytes_ = 0;
  int64_t words_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_TEXT_TOKENS_H_
