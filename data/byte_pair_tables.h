// The two table files of a byte-pair encoding, read and checked.
#ifndef TOST_DATA_BYTE_PAIR_TABLES_H_
#define TOST_DATA_BYTE_PAIR_TABLES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// The bytes of all tokens, by id, and ids by bytes.
class TokenTable {
 public:
  // Reads JSON from token to id. encoder.json stands for every byte by a printable character: for
  // itself where it is one of Latin-1, else by one of the 68 from U+0100 on, in order. Errors name
  // `source` and the position, token or id.
  static absl::StatusOr<TokenTable> Parse(absl::string_view json, absl::string_view source);

  int32_t size() const { return static_cast<int32_t>(begins_.size()) - 1; }
  absl::string_view Bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return absl::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  // The id of a token, or -1.
  int32_t Find(absl::string_view bytes) const;

 private:
  std::string bytes_;
  std::vector<size_t> begins_;  // size() + 1
  absl::flat_hash_map<std::string, int32_t> ids_;
};

struct Merge {
  int32_t left, right;
  int32_t made;  // the token of both together
};

// Reads lines of two tokens in the same printable form. Errors name `source` and the line.
absl::StatusOr<std::vector<Merge>> ParseMerges(absl::string_view text, absl::string_view source,
                                               const TokenTable& tokens);

}  // namespace tost::data

#endif  // TOST_DATA_BYTE_PAIR_TABLES_H_
