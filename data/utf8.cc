#include "data/utf8.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr size_t kLongestCharacter = 4;  // bytes

absl::Status NotUtf8(absl::string_view source, int64_t offset, absl::string_view bytes) {
  const absl::string_view front = bytes.substr(0, 2);
  if (offset == 0 && (front == "\xFF\xFE" || front == "\xFE\xFF")) {
    return absl::InvalidArgumentError(
        absl::StrCat(source,
                     " is UTF-16 (it begins with that byte order mark); convert it to UTF-8, "
                     "for example with iconv -f UTF-16 -t UTF-8"));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is not UTF-8: byte 0x%02X at offset %d begins no character; convert the text to UTF-8",
      source, static_cast<unsigned char>(bytes[0]), offset));
}

}  // namespace

std::pair<size_t, char32_t> FirstCodePoint(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {0, 0};
  char32_t code = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[kLongestCharacter + 1] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return {0, 0};
  return {length, code};
}

void AppendUtf8(char32_t code, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int shift) { put(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put_rest(0);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0 | code >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

absl::Status Utf8Decoder::Decode(size_t keep, std::u32string& out) {
  size_t at = 0;
  while (pending_.size() > at + keep) {
    const absl::string_view rest = absl::string_view(pending_).substr(at);
    const auto [length, code] = FirstCodePoint(rest);
    if (length == 0) return NotUtf8(source_, offset_ + static_cast<int64_t>(at), rest);
    out.push_back(code);
    at += length;
  }
  pending_.erase(0, at);
  offset_ += static_cast<int64_t>(at);
  return absl::OkStatus();
}

absl::Status Utf8Decoder::Append(absl::string_view bytes, std::u32string& out) {
  pending_.append(bytes.data(), bytes.size());
  return Decode(kLongestCharacter - 1, out);
}

absl::Status Utf8Decoder::Finish(std::u32string& out) { return Decode(0, out); }

absl::StatusOr<std::u32string> DecodeUtf8(absl::string_view text, absl::string_view source) {
  Utf8Decoder decoder(source);
  std::u32string codes;
  codes.reserve(text.size());
  TOST_RETURN_IF_ERROR(decoder.Append(text, codes));
  TOST_RETURN_IF_ERROR(decoder.Finish(codes));
  return codes;
}

}  // namespace tost::data
