#include "data/byte_pair_tables.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "data/utf8.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

constexpr int kBytes = 256;
constexpr char32_t kPrintableCodes = 0x100 + 68;

// bytes_to_unicode of GPT-2's encoder.py, the other way: from code point to byte, or -1.
std::array<int16_t, kPrintableCodes> BytesOfPrintable() {
  std::array<int16_t, kPrintableCodes> bytes;
  bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    bytes[printable ? static_cast<char32_t>(byte) : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

// The bytes that a printable token stands for; nothing when a character of it stands for none.
std::optional<std::string> FromPrintable(absl::string_view token) {
  static const std::array<int16_t, kPrintableCodes> kByteOf = BytesOfPrintable();
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const auto [length, code] = FirstCodePoint(token);
    if (length == 0 || code >= kPrintableCodes || kByteOf[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[code]));
    token.remove_prefix(length);
  }
  return bytes;
}

// Part of a file as an error should show it: on one line, not a page of it.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 60;
  return absl::Utf8SafeCEscape(text.substr(0, kMost));
}

struct Entry {
  std::string token;  // bytes
  uint64_t id;
};

// Takes the events of nlohmann's parser for one flat object of whole numbers.
class EntryReader {
 public:
  EntryReader(absl::string_view source, size_t size) : source_(source), size_(size) {}

  absl::Status status() const { return status_; }
  std::vector<Entry>& entries() { return entries_; }

  bool start_object(size_t) {
    if (depth_++ > 0) return NotAnId("an object");
    return true;
  }
  bool key(std::string& text) {
    token_ = std::move(text);
    return true;
  }
  bool number_unsigned(uint64_t id) {
    if (depth_ == 0) return NotAnObject();
    std::optional<std::string> bytes = FromPrintable(token_);
    if (!bytes.has_value() || bytes->empty()) {
      return Fail(absl::StrCat("token '", Shown(token_),
                               "' is empty or has a character that stands for no byte"));
    }
    entries_.push_back({*std::move(bytes), id});
    return true;
  }
  bool number_integer(int64_t id) { return NotAnId(absl::StrCat(id)); }
  bool number_float(double, const std::string& digits) { return NotAnId(digits); }
  bool null() { return NotAnId("null"); }
  bool boolean(bool) { return NotAnId("a truth value"); }
  bool string(std::string&) { return NotAnId("a string"); }
  bool binary(std::vector<uint8_t>&) { return NotAnId("bytes"); }
  bool start_array(size_t) { return NotAnId("an array"); }
  bool end_array() { return true; }
  bool end_object() { return true; }
  bool parse_error(size_t position, const std::string&, const std::exception&) {
    return Fail(absl::StrCat("its JSON is damaged at byte ", std::min(position, size_), " of ",
                             size_, "; get the file again"));
  }

 private:
  bool Fail(absl::string_view why) {
    status_ = absl::InvalidArgumentError(absl::StrCat(source_, ": ", why));
    return false;
  }
  bool NotAnObject() { return Fail("it is no JSON object from tokens to ids"); }
  bool NotAnId(absl::string_view value) {
    if (depth_ == 0) return NotAnObject();
    return Fail(absl::StrCat("token '", Shown(token_), "' has ", value, " where its id should be"));
  }

  absl::string_view source_;
  size_t size_;
  int depth_ = 0;
  std::string token_;
  std::vector<Entry> entries_;
  absl::Status status_;
};

// Bytes as an error should show them.
std::string Printable(absl::string_view bytes) {
  static const std::array<int16_t, kPrintableCodes> kByteOf = BytesOfPrintable();
  std::string text;
  for (char byte : bytes) {
    const auto* found = std::find(kByteOf.begin(), kByteOf.end(), static_cast<unsigned char>(byte));
    AppendUtf8(static_cast<char32_t>(found - kByteOf.begin()), text);
  }
  return text;
}

struct MergeLine {
  int32_t left, right, made;
  std::string bytes;  // of the token that is made
};

// Reads the lines of a list of merges one after the other.
class MergeReader {
 public:
  explicit MergeReader(const TokenTable& tokens)
      : tokens_(tokens), known_(static_cast<size_t>(tokens.size())) {
    for (int32_t id = 0; id < tokens.size(); ++id) {
      known_[static_cast<size_t>(id)] = tokens.Bytes(id).size() == 1;
    }
  }

  absl::StatusOr<MergeLine> Read(absl::string_view line) {
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", Shown(line), "' is not two tokens with one space between them"));
    }
    MergeLine merge;
    TOST_ASSIGN_OR_RETURN(merge.left, Part(line.substr(0, space), merge.bytes));
    TOST_ASSIGN_OR_RETURN(merge.right, Part(line.substr(space + 1), merge.bytes));
    // Most tables list their tokens in the order of the merges.
    const int32_t next = last_made_ + 1;
    const bool in_order = next < tokens_.size() && tokens_.Bytes(next) == merge.bytes;
    merge.made = in_order ? next : tokens_.Find(merge.bytes);
    if (merge.made < 0) return NoToken(absl::StrReplaceAll(line, {{" ", ""}}));
    known_[static_cast<size_t>(merge.made)] = true;
    last_made_ = merge.made;
    return merge;
  }

 private:
  // The id of one of the two tokens of a line, whose bytes are appended.
  absl::StatusOr<int32_t> Part(absl::string_view name, std::string& bytes) const {
    const std::optional<std::string> part = FromPrintable(name);
    const int32_t id = part.has_value() ? tokens_.Find(*part) : -1;
    if (id < 0) return NoToken(name);
    if (!known_[static_cast<size_t>(id)]) {
      return absl::InvalidArgumentError(absl::StrCat("no earlier line makes '", Shown(name), "'"));
    }
    bytes += *part;
    return id;
  }

  static absl::Status NoToken(absl::string_view name) {
    return absl::InvalidArgumentError(absl::StrCat("'", Shown(name), "' is no token of the table"));
  }

  const TokenTable& tokens_;
  std::vector<bool> known_;  // bytes, and tokens that a line made
  int32_t last_made_ = kBytes - 1;
};

}  // namespace

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view json, absl::string_view source) {
  EntryReader reader(source, json.size());
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  TOST_RETURN_IF_ERROR(reader.status());
  std::vector<Entry>& entries = reader.entries();
  const auto error = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", parts...));
  };

  std::vector<const std::string*> tokens(entries.size());
  TokenTable table(entries.size());
  size_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += entry.token.size();
    if (entry.id >= entries.size()) continue;  // then a smaller one is missing
    if (!table.ids_.Insert(entry.token, static_cast<int32_t>(entry.id))) {
      return error("token '", Printable(entry.token), "' is there twice");
    }
    const std::string*& token = tokens[entry.id];
    if (token != nullptr) {
      return error("id ", entry.id, " belongs to both '", Printable(*token), "' and '",
                   Printable(entry.token), "'");
    }
    token = &entry.token;
  }
  const auto missing = std::find(tokens.begin(), tokens.end(), nullptr);
  if (missing != tokens.end()) {
    return error("id ", missing - tokens.begin(), " is missing; ids of ", tokens.size(),
                 " tokens must be 0 to ", tokens.size() - 1);
  }
  table.bytes_.reserve(bytes);
  table.begins_.reserve(tokens.size() + 1);
  table.begins_.push_back(0);
  for (const std::string* token : tokens) {
    table.bytes_ += *token;
    table.begins_.push_back(static_cast<uint32_t>(table.bytes_.size()));
  }
  for (int byte = 0; byte < kBytes; ++byte) {
    const char text = static_cast<char>(byte);
    if (table.Find({&text, 1}) < 0) {
      return error("byte ", byte, " has no token ('", Printable({&text, 1}),
                   "'), so not every text could be encoded");
    }
  }
  return table;
}

absl::StatusOr<MergeTable> MergeTable::Parse(absl::string_view text, absl::string_view source,
                                             const TokenTable& tokens) {
  text = absl::StripTrailingAsciiWhitespace(text);
  MergeTable table(1 + static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
  MergeReader reader(tokens);
  for (int64_t line = 1; !text.empty(); ++line) {
    const absl::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    const absl::string_view pair = absl::StripSuffix(whole, "\r");
    if (line == 1 && absl::StartsWith(pair, "#version")) continue;
    const absl::StatusOr<MergeLine> read = reader.Read(pair);
    const bool added = read.ok() && table.Append(read->left, read->right, read->made);
    if (added && read->bytes.size() == 2) {
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(read->bytes[i]); };
      table.of_bytes_[PlaceOfBytes(byte(0), byte(1))] = table.Find(read->left, read->right);
    }
    if (!added) {
      const std::string why = read.ok() ? absl::StrCat("'", Shown(pair), "' is there twice")
                                        : std::string(read.status().message());
      return absl::InvalidArgumentError(absl::StrCat(source, ", line ", line, ": ", why));
    }
  }
  return table;
}

MergeTable::MergeTable(size_t most)
    : shift_(64 - SlotBits(most)),
      slots_(size_t{1} << SlotBits(most)),
      of_bytes_(kBytes * kBytes, kNoMerge) {}

bool MergeTable::Append(int32_t left, int32_t right, int32_t made) {
  Slot& slot = slots_[Place(left, right)];
  if (slot.merge.made >= 0) return false;
  const auto rank = static_cast<uint32_t>(pairs_.size());
  slot = {.left = left, .right = right, .merge = {.rank = rank, .made = made}};
  pairs_.emplace_back(left, right);
  return true;
}

}  // namespace tost::data
