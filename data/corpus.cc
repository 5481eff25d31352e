#include "data/corpus.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "data/byte_pair_encoding.h"
#include "data/json_text.h"

namespace tost::data {
namespace {

constexpr size_t kDeepest = 8;    // four archives in each other, each of them compressed
constexpr size_t kForcedCut = 4;  // pieces

// At most `limit`, and not inside a UTF-8 character if there is one.
size_t CharacterCut(absl::string_view text, size_t limit) {
  constexpr size_t kLongestCharacter = 4;
  for (size_t cut = limit; cut > 0 && cut + kLongestCharacter > limit; --cut) {
    if ((static_cast<unsigned char>(text[cut]) & 0xC0) != 0x80) return cut;
  }
  return limit;
}

// SafeCut, but never inside "<|endoftext|>", which is one token for those who ask for it.
size_t SafeCutBesideMarkers(absl::string_view text, size_t limit) {
  const size_t cut = SafeCut(text, limit);
  const bool inside = absl::EndsWith(text.substr(0, cut), "<|endoftext") &&
                      absl::StartsWith(text.substr(cut), "|>");
  return inside ? SafeCut(text, cut - 1) : cut;
}

bool BeginsAsUtf16(absl::string_view text) {
  return absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF");
}

}  // namespace

Corpus::Corpus(std::vector<std::string> paths, Options options)
    : options_(std::move(options)),
      walk_(std::move(paths)),
      consumed_bytes_(std::make_unique<int64_t>(0)) {}

absl::StatusOr<Corpus> Corpus::Open(std::vector<std::string> paths, Options options) {
  TOST_CHECK(options.piece_bytes > 0) << options.piece_bytes;
  Corpus corpus(paths, std::move(options));
  FileWalk survey(std::move(paths));
  for (;;) {
    TOST_ASSIGN_OR_RETURN(const std::optional<InputFile> file, survey.Next());
    if (!file.has_value()) return corpus;
    ++corpus.files_;
    corpus.input_bytes_ += file->bytes;
    const bool compressed = TextKindOf(file->path) == TextKind::kPacked &&
                            !absl::EndsWithIgnoreCase(file->path, ".tar");
    if (compressed) corpus.compressed_bytes_ += file->bytes;
  }
}

SkippedFiles Corpus::skipped() const {
  SkippedFiles all = walk_.skipped();
  if (all.count == 0) all.first = skipped_members_.first;
  all.count += skipped_members_.count;
  return all;
}

absl::StatusOr<bool> Corpus::Next(TextPiece& piece) {
  for (;;) {
    bool found = false;
    if (document_.has_value()) {
      TOST_ASSIGN_OR_RETURN(found, NextOfDocument(piece));
      if (found) return true;
    } else if (lines_.has_value()) {
      TOST_ASSIGN_OR_RETURN(found, NextLine());
      if (!found) lines_.reset();
    } else {
      TOST_ASSIGN_OR_RETURN(found, OpenNext());
      if (!found) return false;
    }
  }
}

// Goes on to the next member of the innermost container, or to the next file; false at the end.
absl::StatusOr<bool> Corpus::OpenNext() {
  if (!layers_.empty()) {
    TOST_ASSIGN_OR_RETURN(const std::optional<std::string> member,
                          layers_.back().reader->NextMember());
    if (member.has_value()) {
      TOST_RETURN_IF_ERROR(EnterMember(*member));
    } else {
      layers_.pop_back();
    }
    return true;
  }
  TOST_ASSIGN_OR_RETURN(const std::optional<InputFile> file, walk_.Next());
  if (!file.has_value()) return false;
  TOST_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::OfFile(file->path, consumed_bytes_.get()));
  TOST_RETURN_IF_ERROR(Enter(file->path, file->path, file->named, std::move(stream)));
  return true;
}

absl::Status Corpus::EnterMember(const std::string& member) {
  const Layer& outer = layers_.back();
  ArchiveReader* const reader = outer.reader.get();
  ByteStream stream([reader] { return reader->Read(); });
  if (IsCompression(reader->container())) {
    return Enter(reader->name(), WithoutCompressionSuffix(outer.file_name), outer.named,
                 std::move(stream));
  }
  std::string name = absl::StrCat(reader->name(), " > ", member);
  if (IsHidden(member) || !TextKindOf(member).has_value()) {
    skipped_members_.Add(name);
    return absl::OkStatus();
  }
  return Enter(std::move(name), member, /*named=*/false, std::move(stream));
}

// Begins with what the stream holds. `name` is for messages.
absl::Status Corpus::Enter(std::string name, std::string file_name, bool named, ByteStream stream) {
  TOST_ASSIGN_OR_RETURN(const absl::string_view head, stream.Peek(kContainerHead));
  if (const std::optional<Container> container = ContainerOf(head)) {
    if (layers_.size() == kDeepest) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": more than ", kDeepest,
                       " compressed files and archives lie in each other; unpack the outer ones"));
    }
    TOST_ASSIGN_OR_RETURN(auto reader, ArchiveReader::Open(std::move(stream), *container, name));
    layers_.push_back({std::move(reader), std::move(file_name), named});
    return absl::OkStatus();
  }
  const std::optional<TextKind> kind = TextKindOf(file_name);
  if (kind == TextKind::kPacked) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is not what its name says: its content is no gzip, bzip2, xz, zstd, tar or zip ",
        "data; download it again, or give a text another name"));
  }
  if (!kind.has_value() && !named) {
    skipped_members_.Add(name);
    return absl::OkStatus();
  }
  if (BeginsAsUtf16(head)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " is UTF-16 (it begins with that byte order mark); convert it to UTF-8, "
                     "for example with iconv -f UTF-16 -t UTF-8"));
  }
  if (kind == TextKind::kLines) {
    lines_.emplace(Lines{.source = std::move(name), .stream = std::move(stream)});
  } else {
    document_.emplace(Document{.source = std::move(name), .rest = std::move(stream)});
  }
  return absl::OkStatus();
}

// Makes the next line that is not blank the document; false at the end of the file.
absl::StatusOr<bool> Corpus::NextLine() {
  std::string line;
  bool ended = false;
  do {
    ++lines_->number;
    line.clear();
    size_t end = absl::string_view::npos;
    while (end == absl::string_view::npos && !ended) {
      if (lines_->unread.empty()) {
        TOST_ASSIGN_OR_RETURN(lines_->unread, lines_->stream.Read());
        ended = lines_->unread.empty();
      }
      absl::string_view& unread = lines_->unread;
      end = unread.find('\n');
      line.append(unread.data(), std::min(end, unread.size()));
      unread.remove_prefix(std::min(end, unread.size()));
      absl::ConsumePrefix(&unread, "\n");
      if (static_cast<int64_t>(line.size()) > options_.line_bytes) {
        return absl::InvalidArgumentError(absl::StrCat(lines_->source, " line ", lines_->number,
                                                       " is longer than ", options_.line_bytes,
                                                       " bytes; is this one JSON object a line?"));
      }
    }
    if (ended && line.empty()) return false;
  } while (absl::StripAsciiWhitespace(line).empty());
  Document document{.source = absl::StrCat(lines_->source, " line ", lines_->number)};
  TOST_ASSIGN_OR_RETURN(document.buffer, JsonText(line, options_.json_field, document.source));
  document_.emplace(std::move(document));
  return true;
}

// Reads on until the buffer holds more than `bytes` bytes or the document ends.
absl::Status Corpus::Fill(size_t bytes) {
  Document& document = *document_;
  while (document.rest.has_value() && document.buffer.size() - document.begin <= bytes) {
    TOST_ASSIGN_OR_RETURN(const absl::string_view more, document.rest->Read());
    if (more.empty()) document.rest.reset();
    document.buffer.erase(0, std::exchange(document.begin, 0));
    document.buffer.append(more.data(), more.size());
  }
  return absl::OkStatus();
}

void Corpus::Take(size_t bytes, TextPiece& piece) {
  Document& document = *document_;
  piece.offset = document.offset;
  piece.text.assign(document.buffer, document.begin, bytes);
  piece.source = document.source;
  document.begin += bytes;
  document.offset += static_cast<int64_t>(bytes);
  piece.ends_document = !document.rest.has_value() && document.begin == document.buffer.size();
}

// Gives the document's next piece, and forgets the document with its last one; false when it is
// empty.
absl::StatusOr<bool> Corpus::NextOfDocument(TextPiece& piece) {
  const auto smallest = static_cast<size_t>(options_.piece_bytes);
  for (size_t limit = smallest;; limit *= 2) {
    TOST_RETURN_IF_ERROR(Fill(limit));
    const absl::string_view text = absl::string_view(document_->buffer).substr(document_->begin);
    if (text.empty()) {
      document_.reset();
      ++empty_documents_;
      return false;
    }
    size_t cut = text.size() <= limit ? text.size() : SafeCutBesideMarkers(text, limit);
    if (cut == 0 && limit >= kForcedCut * smallest) {
      cut = CharacterCut(text, limit);
      if (forced_cuts_++ == 0) {
        LogWarning(absl::StrCat(document_->source, " has no space or other safe place to cut in ",
                                limit, " bytes; it is cut there, which may change a token"));
      }
    }
    if (cut == 0) continue;
    Take(cut, piece);
    if (piece.ends_document) {
      document_.reset();
      ++documents_;
    }
    return true;
  }
}

}  // namespace tost::data
