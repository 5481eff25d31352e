// The two table files of a byte-pair encoding, read and checked.
#ifndef TOST_DATA_BYTE_PAIR_TABLES_H_
#define TOST_DATA_BYTE_PAIR_TABLES_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/token_ids.h"

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
  // The id of a token, or a negative number.
  int32_t Find(absl::string_view bytes) const { return ids_.Find(bytes); }
  // Find gives this token no more.
  void Hide(int32_t id) { ids_.Forget(Bytes(id)); }

 private:
  explicit TokenTable(size_t size) : ids_(size) {}

  std::string bytes_;
  std::vector<uint32_t> begins_;  // size() + 1
  TokenIds ids_;
};

// A line of the list of merges: its place ("rank") and the token that its pair becomes.
struct Merge {
  bool operator<(const Merge& other) const { return rank < other.rank; }

  uint32_t rank;
  int32_t made;
};

// No merge: after all others.
inline constexpr Merge kNoMerge = {.rank = std::numeric_limits<uint32_t>::max(), .made = -1};

// The merge of a pair of tokens, as a hash table.
class MergeTable {
 public:
  // Reads lines of two tokens in the printable form, after a first line "#version…" if there is
  // one. Both parts are bytes or what an earlier line makes, and both together are a token. Errors
  // name `source` and the line.
  static absl::StatusOr<MergeTable> Parse(absl::string_view text, absl::string_view source,
                                          const TokenTable& tokens);

  // kNoMerge when the pair is not in the list.
  Merge Find(int32_t left, int32_t right) const { return slots_[Place(left, right)].merge; }
  // Of the tokens of two bytes, with which all merging begins: one small table.
  Merge FindBytes(unsigned char left, unsigned char right) const {
    return of_bytes_[PlaceOfBytes(left, right)];
  }
  // The pairs of tokens by rank.
  const std::vector<std::pair<int32_t, int32_t>>& pairs() const { return pairs_; }

 private:
  struct Slot {
    int32_t left = 0, right = 0;
    Merge merge = kNoMerge;
  };
  explicit MergeTable(size_t most);
  // Takes a pair as the last of the list; false when it is there already.
  bool Append(int32_t left, int32_t right, int32_t made);

  static size_t PlaceOfBytes(unsigned char left, unsigned char right) {
    return size_t{left} << 8 | right;
  }
  // The slot of a pair, or the free one where it would go.
  size_t Place(int32_t left, int32_t right) const {
    const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    const auto differs = [&](const Slot& slot) {
      return slot.merge.made >= 0 && (slot.left != left || slot.right != right);
    };
    size_t at = pair * kHashFactor >> shift_;
    while (differs(slots_[at])) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<std::pair<int32_t, int32_t>> pairs_;
  int shift_;
  std::vector<Slot> slots_;
  std::vector<Merge> of_bytes_;
};

}  // namespace tost::data

#endif  // TOST_DATA_BYTE_PAIR_TABLES_H_
