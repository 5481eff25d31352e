#include "trainers/torch_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "data/atomic_file.h"

namespace tost::train {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

// What libarchive says of its last failure, as part of a line.
std::string ErrorOf(archive* archive) {
  const char* text = archive_error_string(archive);
  return text == nullptr ? "damaged" : absl::CHexEscape(text);
}

}  // namespace

void TorchArchive::Close::operator()(archive* archive) const { archive_read_free(archive); }

TorchArchive::TorchArchive(std::string path, int64_t file_bytes,
                           std::unique_ptr<archive, Close> archive)
    : path_(std::move(path)), file_bytes_(file_bytes), archive_(std::move(archive)) {}
TorchArchive::TorchArchive(TorchArchive&&) noexcept = default;
TorchArchive::~TorchArchive() = default;

absl::Status TorchArchive::Damaged(const std::string& what) const {
  return absl::DataLossError(
      absl::StrCat(path_, ": ", record_.empty() ? "" : absl::StrCat("record ", record_, ": "), what,
                   "; the file is cut or damaged: copy or save it again"));
}

absl::StatusOr<TorchArchive> TorchArchive::Open(const std::string& path) {
  struct stat information {};
  if (stat(path.c_str(), &information) != 0) return data::FileError("cannot read", path, errno);
  TorchArchive opened(path, information.st_size,
                      std::unique_ptr<archive, Close>(archive_read_new()));
  // Only the reader that goes by the central directory: the other one guesses at records of unknown
  // size, as PyTorch writes them.
  archive_read_support_format_zip_seekable(opened.archive_.get());
  if (archive_read_open_filename(opened.archive_.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) {
    return opened.Damaged(absl::StrCat("no whole zip archive: ", ErrorOf(opened.archive_.get())));
  }
  return opened;
}

absl::StatusOr<bool> TorchArchive::Next() {
  record_.clear();
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(archive_.get(), &entry);
  if (result == ARCHIVE_EOF) return false;
  // A warning is about the name of the folder that is taken off below.
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Damaged(ErrorOf(archive_.get()));
  const char* name = archive_entry_pathname_utf8(entry);
  if (name == nullptr) name = archive_entry_pathname(entry);
  const absl::string_view full = name == nullptr ? absl::string_view() : name;
  const size_t folder = full.find('/');
  record_ = absl::Utf8SafeCEscape(folder == full.npos ? full : full.substr(folder + 1));
  bytes_ = archive_entry_size(entry);
  if (!archive_entry_size_is_set(entry) || bytes_ < 0 || bytes_ > file_bytes_) {
    return Damaged(absl::StrCat("it is said to have ", bytes_, " bytes, in a file of ", file_bytes_,
                                " (compressed records are not read)"));
  }
  return true;
}

absl::StatusOr<std::vector<std::byte>> TorchArchive::Read() {
  std::vector<std::byte> content(static_cast<size_t>(bytes_));
  size_t done = 0;
  std::byte beyond;  // asked for at the end, where libarchive compares the checksum
  while (true) {
    const bool full = done == content.size();
    const la_ssize_t got =
        full ? archive_read_data(archive_.get(), &beyond, 1)
             : archive_read_data(archive_.get(), content.data() + done, content.size() - done);
    if (got < 0) return Damaged(ErrorOf(archive_.get()));
    if (full && got == 0) return content;
    if (full || got == 0) return Damaged(absl::StrCat("it does not have its ", bytes_, " bytes"));
    done += static_cast<size_t>(got);
  }
}

}  // namespace tost::train
