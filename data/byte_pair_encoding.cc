#include "data/byte_pair_encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/byte_pair_tables.h"
#include "data/digest.h"
#include "data/gpt2_tables.h"
#include "data/text_pieces.h"

namespace tost::data {
namespace {

constexpr char kEndOfText[] = "<|endoftext|>";
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

// log2 of the slots of a hash table that stays at most half full.
int SlotBits(size_t entries) { return static_cast<int>(std::bit_width(2 * entries | 1)); }

// From a pair of tokens to the place of its merge in the list.
class PairRanks {
 public:
  explicit PairRanks(const std::vector<Merge>& merges)
      : shift_(64 - SlotBits(merges.size())),
        mask_((size_t{1} << SlotBits(merges.size())) - 1),
        slots_(mask_ + 1) {
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const uint64_t key = Key(merges[rank].left, merges[rank].right);
      size_t at = First(key);
      while (slots_[at].rank != kNoRank) at = (at + 1) & mask_;
      slots_[at] = {.key = key, .rank = static_cast<uint32_t>(rank)};
    }
  }

  // kNoRank when the pair is not in the list.
  uint32_t Find(int32_t left, int32_t right) const {
    const uint64_t key = Key(left, right);
    size_t at = First(key);
    while (slots_[at].key != key && slots_[at].rank != kNoRank) at = (at + 1) & mask_;
    return slots_[at].rank;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t rank = kNoRank;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t First(uint64_t key) const { return key * kHashFactor >> shift_; }

  int shift_;
  size_t mask_;
  std::vector<Slot> slots_;
};

// The bytes of a piece of at most 16 bytes, in two registers.
struct ShortPiece {
  static constexpr size_t kMost = 16;
  explicit ShortPiece(absl::string_view text) : size(static_cast<uint32_t>(text.size())) {
    char bytes[kMost] = {};
    std::memcpy(bytes, text.data(), text.size());
    std::memcpy(&low, bytes, 8);
    std::memcpy(&high, bytes + 8, 8);
  }
  bool operator==(const ShortPiece&) const = default;
  uint64_t Hash() const { return (low ^ std::rotl(high * kHashFactor, 32) ^ size) * kHashFactor; }

  uint64_t low = 0, high = 0;
  uint32_t size = 0;  // trailing NUL bytes count
};

// From short pieces to the one token that merging makes of them.
class PieceTokens {
 public:
  explicit PieceTokens(size_t entries)
      : shift_(64 - SlotBits(entries)),
        mask_((size_t{1} << SlotBits(entries)) - 1),
        slots_(mask_ + 1) {}

  void Insert(const ShortPiece& piece, int32_t id) {
    size_t at = First(piece);
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = {.piece = piece, .id = id};
  }
  // -1 when merging makes several tokens.
  int32_t Find(const ShortPiece& piece) const {
    size_t at = First(piece);
    while (slots_[at].id >= 0 && !(slots_[at].piece == piece)) at = (at + 1) & mask_;
    return slots_[at].id;
  }

 private:
  struct Slot {
    ShortPiece piece{absl::string_view()};
    int32_t id = -1;
  };
  size_t First(const ShortPiece& piece) const { return piece.Hash() >> shift_; }

  int shift_;
  size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace

struct BytePairEncoding::Model {
  Model(Tables tables_, TokenTable tokens_, std::vector<Merge> merges_);
  void EncodePiece(absl::string_view piece, std::vector<int32_t>& ids) const;
  void MergeShort(absl::string_view piece, std::vector<int32_t>& ids) const;
  void MergeLong(absl::string_view piece, std::vector<int32_t>& ids) const;
  std::string Digest() const;

  // Up to here a scan for the lowest rank beats a heap.
  static constexpr size_t kShort = 128;

  Tables tables;
  TokenTable tokens;
  std::vector<Merge> merges;
  PairRanks ranks;
  PieceTokens pieces;
  std::array<int32_t, 256> of_byte;
  std::optional<int32_t> end_of_text;
  std::string digest;
};

BytePairEncoding::Model::Model(Tables tables_, TokenTable tokens_, std::vector<Merge> merges_)
    : tables(std::move(tables_)),
      tokens(std::move(tokens_)),
      merges(std::move(merges_)),
      ranks(merges),
      pieces(static_cast<size_t>(tokens.size())) {
  for (size_t byte = 0; byte < of_byte.size(); ++byte) {
    const char text = static_cast<char>(byte);
    of_byte[byte] = tokens.Find({&text, 1});
  }
  // Not every token's bytes merge to that token: one may need a pair that another merge takes
  // apart, and special tokens come from no merge.
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokens.size(); ++id) {
    const absl::string_view bytes = tokens.Bytes(id);
    if (bytes.size() > ShortPiece::kMost) continue;
    ids.clear();
    MergeShort(bytes, ids);
    if (ids.size() == 1) pieces.Insert(ShortPiece(bytes), ids[0]);
  }
  if (const int32_t id = tokens.Find(kEndOfText); id >= 0) end_of_text = id;
  digest = Digest();
}

std::string BytePairEncoding::Model::Digest() const {
  Sha256 sha;
  const auto append = [&](const auto& number) {
    sha.Append({reinterpret_cast<const char*>(&number), sizeof(number)});
  };
  for (int32_t id = 0; id < tokens.size(); ++id) {
    const absl::string_view bytes = tokens.Bytes(id);
    append(static_cast<uint32_t>(bytes.size()));
    sha.Append(bytes);
  }
  for (const Merge& merge : merges) append(std::array{merge.left, merge.right});
  return sha.Hex();
}

void BytePairEncoding::Model::EncodePiece(absl::string_view piece,
                                          std::vector<int32_t>& ids) const {
  if (piece.size() <= ShortPiece::kMost) {
    if (const int32_t id = pieces.Find(ShortPiece(piece)); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  if (piece.size() <= kShort) return MergeShort(piece, ids);
  MergeLong(piece, ids);
}

void BytePairEncoding::Model::MergeShort(absl::string_view piece, std::vector<int32_t>& ids) const {
  std::array<int32_t, kShort> symbols;
  std::array<uint32_t, kShort> pair_ranks;  // of each symbol and the next
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) symbols[i] = of_byte[static_cast<unsigned char>(piece[i])];
  const auto rank_at = [&](size_t i) {
    return i + 1 < count ? ranks.Find(symbols[i], symbols[i + 1]) : kNoRank;
  };
  for (size_t i = 0; i < count; ++i) pair_ranks[i] = rank_at(i);
  while (count > 1) {
    auto* const lowest = std::min_element(pair_ranks.begin(), pair_ranks.begin() + count);
    if (*lowest == kNoRank) break;
    const auto at = static_cast<size_t>(lowest - pair_ranks.begin());
    symbols[at] = merges[*lowest].made;
    std::copy(symbols.begin() + at + 2, symbols.begin() + count, symbols.begin() + at + 1);
    std::copy(pair_ranks.begin() + at + 2, pair_ranks.begin() + count, pair_ranks.begin() + at + 1);
    --count;
    pair_ranks[at] = rank_at(at);
    if (at > 0) pair_ranks[at - 1] = rank_at(at - 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + count);
}

// Symbols in a linked list, and a heap of pairs by (rank, position). Pairs that a merge has taken
// apart stay in the heap until they come to its top. A merge takes one entry and adds at most two,
// so 28 bytes per byte of the piece hold all.
void BytePairEncoding::Model::MergeLong(absl::string_view piece, std::vector<int32_t>& ids) const {
  constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();
  constexpr int32_t kMergedAway = -1;
  TOST_CHECK(piece.size() < kEnd) << "a piece of " << piece.size() << " bytes";
  const auto count = static_cast<uint32_t>(piece.size());
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
  };
  std::vector<Symbol> symbols(count);
  for (uint32_t i = 0; i < count; ++i) {
    symbols[i] = {.id = of_byte[static_cast<unsigned char>(piece[i])],
                  .previous = i - 1,  // kEnd for the first
                  .next = i + 1 < count ? i + 1 : kEnd};
  }
  std::vector<uint64_t> heap;  // rank · 2^32 + position, lowest first
  heap.reserve(2 * size_t{count});
  const auto pair_at = [&](uint32_t at) {
    const uint32_t next = at != kEnd ? symbols[at].next : kEnd;
    const uint32_t rank = next != kEnd ? ranks.Find(symbols[at].id, symbols[next].id) : kNoRank;
    if (rank != kNoRank) heap.push_back(uint64_t{rank} << 32 | at);
    return rank != kNoRank;
  };
  const auto push = [&](uint32_t at) {
    if (pair_at(at)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < count; ++i) pair_at(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const Merge& merge = merges[heap.front() >> 32];
    const auto at = static_cast<uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    Symbol& left = symbols[at];
    if (left.id != merge.left || left.next == kEnd) continue;
    Symbol& right = symbols[left.next];
    if (right.id != merge.right) continue;
    left.id = merge.made;
    right.id = kMergedAway;
    left.next = right.next;
    if (left.next != kEnd) symbols[left.next].previous = at;
    push(at);
    push(left.previous);
  }
  for (uint32_t i = 0; i != kEnd; i = symbols[i].next) ids.push_back(symbols[i].id);
}

absl::StatusOr<BytePairEncoding> BytePairEncoding::Create(Tables tables) {
  TOST_ASSIGN_OR_RETURN(TokenTable tokens, TokenTable::Parse(tables.tokens, tables.tokens_source));
  TOST_ASSIGN_OR_RETURN(std::vector<Merge> merges,
                        ParseMerges(tables.merges, tables.merges_source, tokens));
  return BytePairEncoding(
      std::make_unique<Model>(std::move(tables), std::move(tokens), std::move(merges)));
}

absl::StatusOr<BytePairEncoding> BytePairEncoding::Load(const std::string& folder) {
  const std::filesystem::path in(folder);
  std::error_code ignored;
  const bool hugging_face = std::filesystem::exists(in / "vocab.json", ignored) &&
                            !std::filesystem::exists(in / "encoder.json", ignored);
  Tables tables;
  tables.tokens_source = (in / (hugging_face ? "vocab.json" : "encoder.json")).string();
  tables.merges_source = (in / (hugging_face ? "merges.txt" : "vocab.bpe")).string();
  for (const auto& [path, text] : {std::pair{&tables.tokens_source, &tables.tokens},
                                   std::pair{&tables.merges_source, &tables.merges}}) {
    absl::StatusOr<std::string> content = ReadFile(*path);
    if (!content.ok()) {
      return absl::Status(content.status().code(),
                          absl::StrCat(content.status().message(),
                                       "; a tokenizer's folder holds encoder.json and vocab.bpe, "
                                       "or vocab.json and merges.txt"));
    }
    *text = *std::move(content);
  }
  return Create(std::move(tables));
}

const BytePairEncoding& BytePairEncoding::Gpt2() {
  static const auto* const gpt2 =
      new BytePairEncoding(TOST_CHECK_VALUE(Create({.tokens = std::string(Gpt2TokensText()),
                                                    .merges = std::string(Gpt2MergesText()),
                                                    .tokens_source = "GPT-2's encoder.json",
                                                    .merges_source = "GPT-2's vocab.bpe"})));
  return *gpt2;
}

BytePairEncoding::BytePairEncoding(std::unique_ptr<Model> model) : model_(std::move(model)) {}
BytePairEncoding::BytePairEncoding(BytePairEncoding&&) noexcept = default;
BytePairEncoding& BytePairEncoding::operator=(BytePairEncoding&&) noexcept = default;
BytePairEncoding::~BytePairEncoding() = default;

int64_t BytePairEncoding::size() const { return model_->tokens.size(); }
std::optional<int32_t> BytePairEncoding::end_of_text() const { return model_->end_of_text; }
const std::string& BytePairEncoding::digest() const { return model_->digest; }
const BytePairEncoding::Tables& BytePairEncoding::tables() const { return model_->tables; }

void BytePairEncoding::Encode(absl::string_view text, std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const size_t length = FirstPiece(text);
    model_->EncodePiece(text.substr(0, length), ids);
    text.remove_prefix(length);
  }
}

void BytePairEncoding::EncodeWithSpecialTokens(absl::string_view text,
                                               std::vector<int32_t>& ids) const {
  const absl::string_view special = kEndOfText;
  while (end_of_text().has_value()) {
    const size_t at = text.find(special);
    if (at == text.npos) break;
    Encode(text.substr(0, at), ids);
    ids.push_back(*end_of_text());
    text.remove_prefix(at + special.size());
  }
  Encode(text, ids);
}

absl::string_view BytePairEncoding::Bytes(int32_t id) const {
  TOST_CHECK(id >= 0 && id < size()) << "id " << id << " in a vocabulary of " << size();
  return model_->tokens.Bytes(id);
}

std::string BytePairEncoding::Decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) {
    const absl::string_view bytes = Bytes(id);
    text.append(bytes.data(), bytes.size());
  }
  return text;
}

size_t SafeCut(absl::string_view text, size_t limit) {
  using enum CharacterClass;
  constexpr size_t kLongestCharacter = 4;
  const size_t last = text.empty() ? 0 : text.size() - 1;
  for (size_t cut = std::min(limit, last); cut > 0; --cut) {
    CharacterClass before = kOther;  // also inside a character, whose rest is of kOther
    for (size_t back = std::min(cut, kLongestCharacter); back > 0; --back) {
      const Character character = FirstCharacter(text.substr(cut - back));
      if (character.length != back) continue;
      before = character.type;
      break;
    }
    const CharacterClass after = FirstCharacter(text.substr(cut)).type;
    const bool contraction = before == kOther && after == kLetter;  // perhaps: "'s"
    if (before != after && before != kSpace && !contraction) return cut;
  }
  return 0;
}

}  // namespace tost::data
