// From the bytes of a token to its id.
#ifndef TOST_DATA_TOKEN_IDS_H_
#define TOST_DATA_TOKEN_IDS_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// 2^64 / golden ratio: the upper bits of a product with it are a hash of the other factor.
inline constexpr uint64_t kHashFactor = 0x9E3779B97F4A7C15;

// log2 of the slots of a hash table that is at most half full.
inline int SlotBits(size_t entries) { return static_cast<int>(std::bit_width(2 * entries | 1)); }

// At most 16 bytes, in registers: together with the size, these numbers tell all of them apart.
struct ShortBytes {
  static constexpr size_t kMost = 16;

  explicit ShortBytes(absl::string_view text) : size(static_cast<uint32_t>(text.size())) {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    if (text.size() >= 8) {  // the last 8 may overlap the first
      std::memcpy(&low, begin, 8);
      std::memcpy(&high, end - 8, 8);
    } else if (text.size() >= 4) {
      uint32_t front, back;
      std::memcpy(&front, begin, 4);
      std::memcpy(&back, end - 4, 4);
      low = uint64_t{back} << 32 | front;
    } else {
      for (const char* byte = begin; byte < end; ++byte) {
        low = low << 8 | static_cast<unsigned char>(*byte);
      }
    }
  }
  bool operator==(const ShortBytes&) const = default;
  uint64_t Hash() const { return (low ^ std::rotl(high * kHashFactor, 32) ^ size) * kHashFactor; }

  uint64_t low = 0, high = 0;
  uint32_t size;
};

// A hash table whose short keys lie in the slots: one look at memory for most pieces of a text.
class TokenIds {
 public:
  explicit TokenIds(size_t entries)
      : shift_(64 - SlotBits(entries)), slots_(size_t{1} << SlotBits(entries)) {}

  // False, with no change, when the bytes are there already. Ids are not negative.
  bool Insert(absl::string_view bytes, int32_t id) {
    if (bytes.size() > ShortBytes::kMost) return long_.emplace(bytes, id).second;
    const ShortBytes key(bytes);
    Slot& slot = slots_[Place(key)];
    if (slot.id != kFree) return false;
    slot = {.bytes = key, .id = id};
    return true;
  }

  // The id, or a negative number.
  int32_t Find(absl::string_view bytes) const {
    if (bytes.size() <= ShortBytes::kMost) return slots_[Place(ShortBytes(bytes))].id;
    const auto found = long_.find(bytes);
    return found != long_.end() ? found->second : kFree;
  }

  // Bytes that are there are no longer found.
  void Forget(absl::string_view bytes) {
    if (bytes.size() > ShortBytes::kMost) {
      long_.erase(bytes);
    } else {
      slots_[Place(ShortBytes(bytes))].id = kForgotten;
    }
  }

 private:
  static constexpr int32_t kFree = -1;
  static constexpr int32_t kForgotten = -2;  // its slot stays taken: others may lie behind it
  struct Slot {
    ShortBytes bytes{absl::string_view()};
    int32_t id = kFree;
  };

  // The slot that holds the key, or the free one where it would go.
  size_t Place(const ShortBytes& key) const {
    size_t at = key.Hash() >> shift_;
    while (slots_[at].id != kFree && !(slots_[at].bytes == key)) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }

  int shift_;
  std::vector<Slot> slots_;
  absl::flat_hash_map<std::string, int32_t> long_;
};

}  // namespace tost::data

#endif  // TOST_DATA_TOKEN_IDS_H_
