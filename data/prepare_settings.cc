#include "data/prepare_settings.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "data/atomic_file.h"

namespace tost::data {
namespace {

constexpr char kCharacters[] = "chars";
constexpr double kDocumentFraction = 0.0005;
constexpr double kTailFraction = 0.1;

// What xz makes of web text, and GPT-2's byte pairs of English.
constexpr double kTextPerCompressedByte = 3.3;
constexpr double kBytesPerToken = 4.2;

absl::Status BadOption(absl::string_view name, absl::string_view value, absl::string_view known) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " is '", value, "'; it may be ", known));
}

absl::Status CheckOptions(const PrepareTextOptions& options) {
  if (options.inputs.empty()) {
    return absl::InvalidArgumentError("--input is missing: the files or folders with the text");
  }
  if (options.output.empty()) {
    return absl::InvalidArgumentError("--output is missing: the folder for the token files");
  }
  if (options.split != "auto" && options.split != "documents" && options.split != "tail") {
    return BadOption("split", options.split, "documents, tail or auto");
  }
  if (options.layout != "tost" && options.layout != "raw") {
    return BadOption("layout", options.layout, "tost or raw");
  }
  if (options.shard_tokens < 0) {
    return BadOption("shard_tokens", absl::StrCat(options.shard_tokens), "0 (one file) or more");
  }
  if (options.tokenizer == kCharacters && options.special_tokens) {
    return absl::InvalidArgumentError(
        "--special_tokens needs byte pairs: characters have no end-of-text id");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrepareSettings> ResolveSettings(const PrepareTextOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  PrepareSettings settings;
  settings.characters = options.tokenizer == kCharacters;
  settings.tail = options.split == "tail" || (options.split == "auto" && settings.characters);
  settings.fraction =
      options.validation_fraction.value_or(settings.tail ? kTailFraction : kDocumentFraction);
  settings.layout = options.layout == "raw" ? TokenLayout::kRaw : TokenLayout::kTost;
  if (settings.fraction > 0 && settings.fraction < 1) return settings;
  return absl::InvalidArgumentError(
      absl::StrCat("the validation fraction must lie between 0 and 1, not ", settings.fraction));
}

PrepareEstimate Estimate(const Corpus& corpus, const PrepareSettings& settings,
                         int64_t vocabulary) {
  const auto compressed = static_cast<double>(corpus.compressed_bytes());
  const double text =
      static_cast<double>(corpus.input_bytes()) - compressed + compressed * kTextPerCompressedByte;
  const double tokens = settings.characters ? text : text / kBytesPerToken;
  return {.files = corpus.files(),
          .input_bytes = corpus.input_bytes(),
          .tokens = static_cast<int64_t>(tokens),
          .output_bytes = static_cast<int64_t>(tokens * TokenWidth(vocabulary))};
}

absl::Status CheckRoom(const PrepareEstimate& estimate, const std::string& folder) {
  struct statvfs system {};
  if (statvfs(folder.c_str(), &system) != 0) return FileError("cannot use", folder, errno);
  const auto free = static_cast<double>(system.f_bavail) * static_cast<double>(system.f_frsize);
  if (free >= static_cast<double>(estimate.output_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the token files need about ", estimate.output_bytes, " bytes, and ",
                   static_cast<int64_t>(free), " are free on the file system of ", folder,
                   "; make room or choose another folder"));
}

}  // namespace tost::data
