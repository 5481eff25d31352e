#include "data/text_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

// A suffix that says that a file is compressed, and what takes its place when it no longer is.
struct Compression {
  absl::string_view suffix;
  absl::string_view inner;
};
constexpr Compression kCompressions[] = {{".gz", ""},       {".xz", ""},      {".zst", ""},
                                         {".bz2", ""},      {".tgz", ".tar"}, {".txz", ".tar"},
                                         {".tbz2", ".tar"}, {".tzst", ".tar"}};

absl::Status CannotRead(absl::string_view path, const std::error_code& error) {
  return FileError("cannot read", path, error.value());
}

}  // namespace

std::optional<TextKind> TextKindOf(absl::string_view name) {
  const auto ends_in = [&](absl::string_view suffix) {
    return absl::EndsWithIgnoreCase(name, suffix);
  };
  if (ends_in(".txt")) return TextKind::kPlain;
  if (ends_in(".jsonl") || ends_in(".ndjson")) return TextKind::kLines;
  if (ends_in(".tar") || ends_in(".zip")) return TextKind::kPacked;
  for (const Compression& compression : kCompressions) {
    if (ends_in(compression.suffix)) return TextKind::kPacked;
  }
  return std::nullopt;
}

std::string WithoutCompressionSuffix(absl::string_view name) {
  for (const auto& [suffix, inner] : kCompressions) {
    if (!absl::EndsWithIgnoreCase(name, suffix)) continue;
    return absl::StrCat(name.substr(0, name.size() - suffix.size()), inner);
  }
  return std::string(name);
}

bool IsHidden(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (absl::StartsWith(part, ".") && part != "." && part != "..") return true;
  }
  return false;
}

void SkippedFiles::Add(absl::string_view name) {
  if (count++ == 0) first = std::string(name);
}

absl::Status FileWalk::Enter(const std::string& path) {
  Folder folder{.path = path};
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;
    const bool is_folder = fs::is_directory(entry->symlink_status(gone));
    const bool is_text = entry->is_regular_file(gone) && TextKindOf(name).has_value();
    if (IsHidden(name) || !(is_folder || is_text)) {
      skipped_.Add(absl::StrCat(path, "/", name));
    } else {
      folder.names.push_back(is_folder ? absl::StrCat(name, "/") : name);
    }
  }
  if (error) return CannotRead(path, error);
  // With the slash at the end of folders, the order of names is that of whole paths.
  std::sort(folder.names.begin(), folder.names.end());
  folders_.push_back(std::move(folder));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<InputFile>> FileWalk::NextNamed() {
  if (next_path_ == paths_.size()) return std::nullopt;
  const std::string& path = paths_[next_path_++];
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return CannotRead(path, error);
  if (fs::is_directory(status)) {
    TOST_RETURN_IF_ERROR(Enter(path));
    return Next();
  }
  if (!fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a file nor a folder; give the text as a file"));
  }
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return CannotRead(path, error);
  return InputFile{path, /*named=*/true, bytes};
}

absl::StatusOr<std::optional<InputFile>> FileWalk::Next() {
  while (!folders_.empty()) {
    Folder& folder = folders_.back();
    if (folder.next == folder.names.size()) {
      folders_.pop_back();
      continue;
    }
    const std::string path = absl::StrCat(folder.path, absl::EndsWith(folder.path, "/") ? "" : "/",
                                          folder.names[folder.next++]);
    if (absl::EndsWith(path, "/")) {
      TOST_RETURN_IF_ERROR(Enter(path));
      continue;
    }
    std::error_code error;
    const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (error) return CannotRead(path, error);
    return InputFile{path, /*named=*/false, bytes};
  }
  return NextNamed();
}

}  // namespace tost::data
