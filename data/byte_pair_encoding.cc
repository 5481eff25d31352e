#include "data/byte_pair_encoding.h"

#include <algorithm>
#include <array>
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

}  // namespace

struct BytePairEncoding::Model {
  // Which tokens are what their bytes merge to.
  enum class Whole { kAsMergingShows, kAllButEndOfText };
  static absl::StatusOr<BytePairEncoding> Make(Tables tables, Whole whole);
  Model(Tables tables_, TokenTable tokens_, MergeTable merges_);
  void HideTokensThatMergingSplits();
  void MergePiece(absl::string_view piece, std::vector<int32_t>& ids) const;
  void MergeShort(absl::string_view piece, std::vector<int32_t>& ids) const;
  void MergeLong(absl::string_view piece, std::vector<int32_t>& ids) const;
  std::string Digest() const;

  // Up to here a scan for the lowest rank beats a heap.
  static constexpr size_t kShort = 128;

  Tables tables;
  TokenTable tokens;
  MergeTable merges;
  std::array<int32_t, 256> of_byte;
  std::optional<int32_t> end_of_text;
  std::string digest;
};

BytePairEncoding::Model::Model(Tables tables_, TokenTable tokens_, MergeTable merges_)
    : tables(std::move(tables_)), tokens(std::move(tokens_)), merges(std::move(merges_)) {
  for (size_t byte = 0; byte < of_byte.size(); ++byte) {
    const char text = static_cast<char>(byte);
    of_byte[byte] = tokens.Find({&text, 1});
  }
  if (const int32_t id = tokens.Find(kEndOfText); id >= 0) end_of_text = id;
  digest = Digest();
}

absl::StatusOr<BytePairEncoding> BytePairEncoding::Model::Make(Tables tables, Whole whole) {
  TOST_ASSIGN_OR_RETURN(TokenTable tokens, TokenTable::Parse(tables.tokens, tables.tokens_source));
  TOST_ASSIGN_OR_RETURN(MergeTable merges,
                        MergeTable::Parse(tables.merges, tables.merges_source, tokens));
  auto model = std::make_unique<Model>(std::move(tables), std::move(tokens), std::move(merges));
  if (whole == Whole::kAllButEndOfText) {
    model->tokens.Hide(*model->end_of_text);
  } else {
    model->HideTokensThatMergingSplits();
  }
  return BytePairEncoding(std::move(model));
}

// Not every token's bytes merge to that token: one may need a pair that another merge takes apart,
// and special tokens come from no merge. What Find still gives is what merging gives.
void BytePairEncoding::Model::HideTokensThatMergingSplits() {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokens.size(); ++id) {
    ids.clear();
    MergePiece(tokens.Bytes(id), ids);
    if (ids.size() > 1) tokens.Hide(id);
  }
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
  for (const auto& [left, right] : merges.pairs()) append(std::array{left, right});
  return sha.Hex();
}

void BytePairEncoding::Model::MergePiece(absl::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= kShort) return MergeShort(piece, ids);
  MergeLong(piece, ids);
}

void BytePairEncoding::Model::MergeShort(absl::string_view piece, std::vector<int32_t>& ids) const {
  std::array<int32_t, kShort> symbols;
  std::array<Merge, kShort> pairs;  // of each symbol and the next
  size_t count = piece.size();
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(piece[i]); };
  for (size_t i = 0; i < count; ++i) symbols[i] = of_byte[byte(i)];
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.FindBytes(byte(i), byte(i + 1));
  while (count > 1) {
    auto* const lowest = std::min_element(pairs.begin(), pairs.begin() + count - 1);
    if (lowest->made < 0) break;
    const auto at = static_cast<size_t>(lowest - pairs.begin());
    symbols[at] = lowest->made;
    std::copy(symbols.begin() + at + 2, symbols.begin() + count, symbols.begin() + at + 1);
    std::copy(lowest + 1, pairs.begin() + count - 1, lowest);
    --count;
    if (at + 1 < count) pairs[at] = merges.Find(symbols[at], symbols[at + 1]);
    if (at > 0) pairs[at - 1] = merges.Find(symbols[at - 1], symbols[at]);
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
  const auto add = [&](uint32_t at) {
    if (at == kEnd || symbols[at].next == kEnd) return false;
    const Merge merge = merges.Find(symbols[at].id, symbols[symbols[at].next].id);
    if (merge.made >= 0) heap.push_back(uint64_t{merge.rank} << 32 | at);
    return merge.made >= 0;
  };
  const auto push = [&](uint32_t at) {
    if (add(at)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < count; ++i) add(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.front() >> 32);
    const auto at = static_cast<uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    Symbol& left = symbols[at];
    if (left.next == kEnd) continue;
    Symbol& right = symbols[left.next];
    if (std::pair(left.id, right.id) != merges.pairs()[rank]) continue;
    left.id = merges.Find(left.id, right.id).made;
    right.id = kMergedAway;
    left.next = right.next;
    if (left.next != kEnd) symbols[left.next].previous = at;
    push(at);
    push(left.previous);
  }
  for (uint32_t i = 0; i != kEnd; i = symbols[i].next) ids.push_back(symbols[i].id);
}

absl::StatusOr<BytePairEncoding> BytePairEncoding::Create(Tables tables) {
  return Model::Make(std::move(tables), Model::Whole::kAsMergingShows);
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
  const auto make = [] {
    // To let merging show it for all tokens would take a third of the start.
    return TOST_CHECK_VALUE(Model::Make({.tokens = std::string(Gpt2TokensText()),
                                         .merges = std::string(Gpt2MergesText()),
                                         .tokens_source = "GPT-2's encoder.json",
                                         .merges_source = "GPT-2's vocab.bpe"},
                                        Model::Whole::kAllButEndOfText));
  };
  static const auto* const gpt2 = new BytePairEncoding(make());
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
    const absl::string_view piece = text.substr(0, length);
    if (const int32_t id = model_->tokens.Find(piece); id >= 0) {
      ids.push_back(id);
    } else {
      model_->MergePiece(piece, ids);
    }
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
