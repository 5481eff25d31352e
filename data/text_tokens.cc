#include "data/text_tokens.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/byte_pair_encoding.h"
#include "data/utf8.h"

namespace tost::data {
namespace {

// Bytes of `text` up to the end of its last whole character; all of them when the end is no
// beginning of a character, which is for the decoder to say.
size_t WholeCharacters(absl::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t back = 1; back <= std::min(kLongest, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    const bool whole = FirstCodePoint(text.substr(text.size() - back)).first > 0;
    return whole || back == kLongest ? text.size() : text.size() - back;
  }
  return text.size();
}

}  // namespace

TextTokens::TextTokens(std::string path, std::ifstream file, const Tokenizer& tokenizer,
                       size_t piece_bytes)
    : path_(std::move(path)),
      file_(std::move(file)),
      tokenizer_(tokenizer),
      piece_bytes_(piece_bytes),
      digest_(std::make_unique<Sha256>()) {}

absl::StatusOr<TextTokens> TextTokens::Open(const std::string& path, const Tokenizer& tokenizer,
                                            size_t piece_bytes) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return FileError("cannot read", path, EISDIR);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("cannot read", path, errno);
  return TextTokens(path, std::move(file), tokenizer, piece_bytes);
}

absl::Status TextTokens::Read(size_t bytes) {
  const size_t before = pending_.size();
  pending_.resize(before + bytes);
  file_.read(pending_.data() + before, static_cast<std::streamsize>(bytes));
  if (file_.bad()) return FileError("cannot read", path_, errno);
  pending_.resize(before + static_cast<size_t>(file_.gcount()));
  over_ = file_.eof();
  digest_->Append(absl::string_view(pending_).substr(before));
  return absl::OkStatus();
}

size_t TextTokens::Cut() const {
  if (over_) return pending_.size();
  // The first bytes of a character would count as characters of another kind.
  const size_t whole = WholeCharacters(pending_);
  if (tokenizer_.byte_pairs() == nullptr) return whole;
  return SafeCut(absl::string_view(pending_).substr(0, whole), whole);
}

void TextTokens::Count(absl::string_view text) {
  bytes_ += static_cast<int64_t>(text.size());
  for (const char c : text) {
    const bool letter = !absl::ascii_isspace(static_cast<unsigned char>(c));
    words_ += letter && !in_word_ ? 1 : 0;
    in_word_ = letter;
  }
}

absl::StatusOr<bool> TextTokens::Next(std::vector<int32_t>& ids) {
  size_t cut = 0;
  while (cut == 0 && !over_) {
    // Doubling keeps the search for a cut in a text that has none linear.
    TOST_RETURN_IF_ERROR(Read(std::max(piece_bytes_, pending_.size())));
    cut = Cut();
  }
  if (over_) cut = pending_.size();
  if (cut == 0) return false;
  const absl::string_view piece = absl::string_view(pending_).substr(0, cut);
  const std::string source =
      bytes_ == 0 ? path_ : absl::StrCat(path_, " from byte ", bytes_, " on");
  TOST_RETURN_IF_ERROR(tokenizer_.Encode(piece, source, ids));
  Count(piece);
  pending_.erase(0, cut);
  return true;
}

}  // namespace tost::data
