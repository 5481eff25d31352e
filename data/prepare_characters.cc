#include "data/prepare_characters.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/character_vocabulary.h"
#include "data/token_file.h"
#include "data/utf8.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 1 << 20;

// Calls visit with the characters of a UTF-8 file, piece by piece, so that memory does not grow
// with the text.
absl::Status ForEachPiece(const std::string& path,
                          absl::FunctionRef<absl::Status(const std::u32string&)> visit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return FileError("cannot read text", path, errno);
  Utf8Decoder decoder(path);
  std::vector<char> bytes(kPieceBytes);
  std::u32string characters;
  size_t got = 0;
  while ((got = std::fread(bytes.data(), 1, bytes.size(), file.get())) > 0) {
    characters.clear();
    TOST_RETURN_IF_ERROR(decoder.Append(absl::string_view(bytes.data(), got), characters));
    TOST_RETURN_IF_ERROR(visit(characters));
  }
  if (std::ferror(file.get()) != 0) return FileError("cannot read text", path, errno);
  characters.clear();
  TOST_RETURN_IF_ERROR(decoder.Finish(characters));
  return visit(characters);
}

absl::Status CheckSplits(const PrepareCharactersOptions& options, int64_t train, int64_t total) {
  if (total == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.text, " is empty (0 characters); give a text to train on"));
  }
  if (train > 0 && train < total) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.text, ": ", total, " characters with a validation fraction of ",
                   options.validation_fraction, " leave ", train, " for training and ",
                   total - train, " for validation; use a longer text or another fraction"));
}

absl::Status CheckTargets(const PrepareCharactersOptions& options,
                          const std::vector<std::string>& targets) {
  for (const std::string& path : targets) {
    std::error_code error;
    if (!options.overwrite && fs::exists(path, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists; choose another folder or ask for --overwrite"));
    }
  }
  return absl::OkStatus();
}

// The vocabulary and the number of characters of a text.
struct Survey {
  CharacterVocabulary vocabulary;
  int64_t characters;
};

absl::StatusOr<Survey> SurveyText(const std::string& path) {
  std::u32string seen;  // each character once
  int64_t characters = 0;
  std::vector<bool> known(kCodePoints);
  TOST_RETURN_IF_ERROR(ForEachPiece(path, [&](const std::u32string& piece) {
    characters += static_cast<int64_t>(piece.size());
    for (char32_t code : piece) {
      if (known[code]) continue;
      known[code] = true;
      seen.push_back(code);
    }
    return absl::OkStatus();
  }));
  return Survey{CharacterVocabulary::Of(seen), characters};
}

// Encodes the text into the two writers: the first `train_count` characters, then the others.
absl::Status WriteSplits(const std::string& text, const CharacterVocabulary& vocabulary,
                         int64_t train_count, TokenFileWriter& train, TokenFileWriter& validation) {
  return ForEachPiece(text, [&](const std::u32string& piece) -> absl::Status {
    TOST_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, vocabulary.Encode(piece, text));
    const auto first = static_cast<size_t>(
        std::min<int64_t>(train_count - train.size(), static_cast<int64_t>(ids.size())));
    TOST_RETURN_IF_ERROR(train.Append(std::span(ids).first(first)));
    return validation.Append(std::span(ids).subspan(first));
  });
}

}  // namespace

absl::StatusOr<PreparedCharacters> PrepareCharacters(const PrepareCharactersOptions& options) {
  const double fraction = options.validation_fraction;
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the validation fraction must lie between 0 and 1, not ", fraction));
  }
  const std::string train_path = options.folder + "/train.bin";
  const std::string validation_path = options.folder + "/val.bin";
  const std::string vocabulary_path = options.folder + "/vocabulary.json";
  TOST_RETURN_IF_ERROR(CheckTargets(options, {train_path, validation_path, vocabulary_path}));
  TOST_ASSIGN_OR_RETURN(const Survey survey, SurveyText(options.text));
  const auto train_count =
      static_cast<int64_t>(static_cast<double>(survey.characters) * (1 - fraction));
  TOST_RETURN_IF_ERROR(CheckSplits(options, train_count, survey.characters));

  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) return FileError("cannot make folder", options.folder, error.value());
  const CharacterVocabulary& vocabulary = survey.vocabulary;
  TOST_ASSIGN_OR_RETURN(TokenFileWriter train,
                        TokenFileWriter::Create(train_path, vocabulary.size()));
  TOST_ASSIGN_OR_RETURN(TokenFileWriter validation,
                        TokenFileWriter::Create(validation_path, vocabulary.size()));
  TOST_RETURN_IF_ERROR(WriteSplits(options.text, vocabulary, train_count, train, validation));
  TOST_RETURN_IF_ERROR(train.Finish());
  TOST_RETURN_IF_ERROR(validation.Finish());
  TOST_RETURN_IF_ERROR(WriteFileAtomically(vocabulary_path, vocabulary.ToJson() + "\n"));
  TOST_RETURN_IF_ERROR(train.Publish());
  TOST_RETURN_IF_ERROR(validation.Publish());
  return PreparedCharacters{train.size(), validation.size(), vocabulary.size()};
}

}  // namespace tost::data
