#include "data/file_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "data/archive_reader.h"
#include "data/atomic_file.h"
#include "data/byte_stream.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestFolder = 8;  // of a data set; links may make circles
constexpr int kDeepestTar = 4;

// A file that stays open.
class OpenFile {
 public:
  OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  static absl::StatusOr<std::shared_ptr<const OpenFile>> Open(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError("cannot read", path, errno);
    return std::make_shared<const OpenFile>(path, descriptor);
  }

  absl::StatusOr<int64_t> Bytes() const {
    struct stat information {};
    if (fstat(descriptor_, &information) != 0) return FileError("cannot read", path_, errno);
    return int64_t{information.st_size};
  }

  absl::Status ReadAt(int64_t offset, std::span<char> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = pread(descriptor_, bytes.data(), bytes.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileError("cannot read", path_, errno);
      if (got == 0) return absl::DataLossError(absl::StrCat(path_, " became shorter while in use"));
      bytes = bytes.subspan(static_cast<size_t>(got));
      offset += got;
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int descriptor_;
};

// Bytes in blocks, so that they are never copied while their number grows.
class HeldBytes {
 public:
  int64_t size() const { return size_; }

  void Append(absl::string_view bytes) {
    while (!bytes.empty()) {
      if (size_ == static_cast<int64_t>(blocks_.size() * kBlock)) blocks_.emplace_back(kBlock);
      const size_t at = static_cast<size_t>(size_) % kBlock;
      const size_t count = std::min(bytes.size(), kBlock - at);
      std::copy_n(bytes.data(), count, blocks_.back().data() + at);
      bytes.remove_prefix(count);
      size_ += static_cast<int64_t>(count);
    }
  }

  absl::Status ReadAt(int64_t offset, std::span<char> bytes) const {
    TOST_CHECK(offset >= 0 && offset + static_cast<int64_t>(bytes.size()) <= size_) << offset;
    size_t at = static_cast<size_t>(offset);
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kBlock - at % kBlock);
      std::copy_n(blocks_[at / kBlock].data() + at % kBlock, count, bytes.data());
      bytes = bytes.subspan(count);
      at += count;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kBlock = 16 << 20;
  std::vector<std::vector<char>> blocks_;
  int64_t size_ = 0;
};

// A stored name without "." parts and leading slashes; nothing for one that leads out of the
// archive, is hidden, or cannot be shown in one line.
std::optional<std::string> PlainName(absl::string_view stored) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(stored, '/', absl::SkipEmpty())) {
    if (part != ".") parts.push_back(part);
  }
  for (const absl::string_view part : parts) {
    if (absl::StartsWith(part, ".") || part == "__MACOSX") return std::nullopt;
  }
  for (const char c : stored) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return std::nullopt;
  }
  if (parts.empty()) return std::nullopt;
  return absl::StrJoin(parts, "/");
}

absl::StatusOr<std::optional<Container>> ContainerOfFile(const OpenFile& file) {
  TOST_ASSIGN_OR_RETURN(const int64_t bytes, file.Bytes());
  std::string head(static_cast<size_t>(std::min<int64_t>(bytes, kContainerHead)), '\0');
  TOST_RETURN_IF_ERROR(file.ReadAt(0, head));
  return ContainerOf(head);
}

}  // namespace

class FileTree::Builder {
 public:
  explicit Builder(int64_t held_limit) : held_limit_(held_limit) {}

  absl::Status AddPath(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return FileError("cannot read", path, error.value());
    if (fs::is_directory(status)) return AddFolder(path);
    if (!fs::is_regular_file(status)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is neither a file nor a folder"));
    }
    return AddFile(path);
  }

  std::shared_ptr<const FileTree> Finish(const std::vector<std::string>& paths) {
    std::vector<size_t> order(tree_->names_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return tree_->names_[a] < tree_->names_[b]; });
    std::vector<std::string> names;
    std::vector<Place> places;
    for (const size_t i : order) {
      names.push_back(std::move(tree_->names_[i]));
      places.push_back(tree_->places_[i]);
    }
    tree_->names_ = std::move(names);
    tree_->places_ = std::move(places);
    std::sort(tree_->empty_folders_.begin(), tree_->empty_folders_.end());
    tree_->description_ = absl::StrJoin(paths, " ");
    return std::move(tree_);
  }

 private:
  int AddSource(Source source) {
    tree_->sources_.push_back(std::move(source));
    return static_cast<int>(tree_->sources_.size()) - 1;
  }

  void Add(std::string name, Place place) {
    tree_->names_.push_back(std::move(name));
    tree_->places_.push_back(place);
  }

  absl::Status AddFile(const std::string& path) {
    TOST_ASSIGN_OR_RETURN(const std::shared_ptr<const OpenFile> file, OpenFile::Open(path));
    TOST_ASSIGN_OR_RETURN(const std::optional<Container> container, ContainerOfFile(*file));
    if (container) return AddArchive(path, file, *container);
    const fs::path parent = fs::path(path).parent_path();
    Add(fs::path(path).filename().string(),
        {AddSource({parent.empty() ? "." : parent.string(), /*folder=*/true, {}})});
    return absl::OkStatus();
  }

  absl::Status AddFolder(const std::string& path) {
    const std::string root = path == "/" ? path : std::string(absl::StripSuffix(path, "/"));
    const int source = AddSource({root, /*folder=*/true, {}});
    std::error_code error;
    bool has_folders = false;
    std::vector<std::string> files;
    const auto options = fs::directory_options::follow_directory_symlink;
    fs::recursive_directory_iterator entry(root, options, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end;
         entry.increment(error)) {
      const std::string relative = entry->path().lexically_relative(root).string();
      std::error_code gone;
      const bool folder = entry->is_directory(gone);
      if (!PlainName(FileName(entry->path()))) {
        if (folder) entry.disable_recursion_pending();
        tree_->skipped_.Add(absl::Utf8SafeCHexEscape(relative));
      } else if (folder) {
        has_folders = true;
        if (entry.depth() >= kDeepestFolder) entry.disable_recursion_pending();
        if (fs::is_empty(entry->path(), gone)) tree_->empty_folders_.push_back(relative);
      } else if (entry->is_regular_file(gone)) {
        files.push_back(relative);
      }
    }
    if (error) return FileError("cannot read", root, error.value());
    for (std::string& name : files) {
      const bool packed = !has_folders && TextKindOf(name) == TextKind::kPacked;
      if (packed) {
        TOST_RETURN_IF_ERROR(AddFile(absl::StrCat(root, "/", name)));
      } else {
        Add(std::move(name), {source});
      }
    }
    return absl::OkStatus();
  }

  static std::string FileName(const fs::path& path) { return path.filename().string(); }

  absl::Status AddArchive(const std::string& path, std::shared_ptr<const OpenFile> file,
                          Container container) {
    if (container == Container::kTar) {
      TOST_ASSIGN_OR_RETURN(const int64_t bytes, file->Bytes());
      const ReadAt read = [file](int64_t offset, std::span<char> out) {
        return file->ReadAt(offset, out);
      };
      return AddTar(AddSource({path, /*folder=*/false, read}), 0, bytes, "", path, 1);
    }
    int64_t consumed = 0;
    TOST_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::OfFile(path, &consumed));
    TOST_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> reader,
                          ArchiveReader::Open(std::move(stream), container, path));
    const auto held = std::make_shared<HeldBytes>();
    const ReadAt read = [held](int64_t offset, std::span<char> out) {
      return held->ReadAt(offset, out);
    };
    const int source = AddSource({path, /*folder=*/false, read});
    TOST_RETURN_IF_ERROR(Hold(*reader, source, *held));
    held_ += held->size();
    tree_->notes_.push_back(absl::StrFormat("%s: %.1f MB, decompressed, are held in memory", path,
                                            static_cast<double>(held->size()) / 1e6));
    if (!IsCompression(container)) return absl::OkStatus();
    std::string head(static_cast<size_t>(std::min<int64_t>(held->size(), kContainerHead)), '\0');
    TOST_RETURN_IF_ERROR(held->ReadAt(0, head));
    if (ContainerOf(head) != Container::kTar) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " holds no tar archive, but a single file; decompress it and give that"));
    }
    return AddTar(source, 0, held->size(), "", path, 1);
  }

  // Reads all members into memory; those of a zip become files.
  absl::Status Hold(ArchiveReader& reader, int source, HeldBytes& held) {
    for (;;) {
      TOST_ASSIGN_OR_RETURN(const std::optional<std::string> member, reader.NextMember());
      if (!member) return absl::OkStatus();
      const int64_t offset = held.size();
      for (;;) {
        TOST_ASSIGN_OR_RETURN(const absl::string_view bytes, reader.Read());
        if (bytes.empty()) break;
        held.Append(bytes);
        if (held_ + held.size() > held_limit_) return TooLarge(reader.name());
      }
      if (IsCompression(reader.container()) || absl::EndsWith(*member, "/")) continue;
      AddMember(*member, {source, offset, held.size() - offset});
    }
  }

  absl::Status TooLarge(absl::string_view path) const {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s would be held in memory, but decompressed it is larger than %.1f GB; "
                        "unpack it and give the folder, or give it as an uncompressed tar",
                        path, static_cast<double>(held_limit_) / 1e9));
  }

  void AddMember(absl::string_view stored, Place place) {
    std::optional<std::string> name = PlainName(stored);
    if (name) {
      Add(*std::move(name), place);
    } else {
      tree_->skipped_.Add(absl::Utf8SafeCHexEscape(stored));
    }
  }

  // The files of the tar archive in bytes [begin, end) of the source, as files below `folder`.
  absl::Status AddTar(int source, int64_t begin, int64_t end, const std::string& folder,
                      const std::string& archive, int depth) {
    const ReadAt read = tree_->sources_[static_cast<size_t>(source)].read;
    TOST_ASSIGN_OR_RETURN(const std::vector<TarMember> members,
                          TarMembers(read, begin, end, archive));
    // The last one of several members with one name is what unpacking would leave.
    std::map<absl::string_view, const TarMember*> last;
    for (const TarMember& member : members) last[member.name] = &member;
    for (const auto& [name, member] : last) {
      std::string stored = absl::StrCat(folder, name);
      if (absl::EndsWith(stored, ".tar") && depth < kDeepestTar) {
        const std::string inner = absl::StrCat(archive, ": ", absl::Utf8SafeCHexEscape(stored));
        stored.replace(stored.size() - 4, 4, "/");
        TOST_RETURN_IF_ERROR(AddTar(source, member->offset, member->offset + member->bytes, stored,
                                    inner, depth + 1));
      } else {
        AddMember(stored, {source, member->offset, member->bytes});
      }
    }
    return absl::OkStatus();
  }

  int64_t held_limit_;
  int64_t held_ = 0;
  std::shared_ptr<FileTree> tree_ = std::make_shared<FileTree>();
};

absl::StatusOr<std::shared_ptr<const FileTree>> FileTree::Open(
    const std::vector<std::string>& paths, int64_t held_limit) {
  Builder builder(held_limit);
  for (const std::string& path : paths) TOST_RETURN_IF_ERROR(builder.AddPath(path));
  return builder.Finish(paths);
}

absl::string_view FileTree::LastPart(absl::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

const std::string& FileTree::source_path(int64_t i) const {
  return sources_[static_cast<size_t>(source(i))].path;
}

std::vector<int64_t> FileTree::Called(absl::string_view name) const {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < size(); ++i) {
    if (LastPart(this->name(i)) == name) found.push_back(i);
  }
  return found;
}

absl::StatusOr<int64_t> FileTree::Find(absl::string_view name) const {
  const std::vector<int64_t> found = Called(name);
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(description_, ": there is no file called ", name));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(description_, ": two files are called ", name,
                                                   ": ", Where(found[0]), " and ", Where(found[1]),
                                                   "; give the folder of one data set"));
  }
  return found[0];
}

std::string FileTree::Where(int64_t i) const {
  const bool folder = sources_[static_cast<size_t>(source(i))].folder;
  return absl::StrCat(source_path(i), folder ? "/" : ": ", name(i));
}

absl::StatusOr<int64_t> FileTree::Bytes(int64_t i) const {
  const Place& place = places_[static_cast<size_t>(i)];
  if (!sources_[static_cast<size_t>(place.source)].folder) return place.bytes;
  TOST_ASSIGN_OR_RETURN(const std::shared_ptr<const OpenFile> file, OpenFile::Open(Where(i)));
  return file->Bytes();
}

absl::StatusOr<std::string> FileTree::Read(int64_t i) const {
  TOST_ASSIGN_OR_RETURN(const int64_t bytes, Bytes(i));
  return Read(i, 0, bytes);
}

absl::StatusOr<std::string> FileTree::Read(int64_t i, int64_t offset, int64_t bytes) const {
  const Place& place = places_[static_cast<size_t>(i)];
  const Source& source = sources_[static_cast<size_t>(place.source)];
  std::string content(static_cast<size_t>(bytes), '\0');
  if (source.folder) {
    TOST_ASSIGN_OR_RETURN(const std::shared_ptr<const OpenFile> file, OpenFile::Open(Where(i)));
    TOST_RETURN_IF_ERROR(file->ReadAt(offset, content));
    return content;
  }
  TOST_CHECK(offset >= 0 && offset + bytes <= place.bytes) << Where(i);
  TOST_RETURN_IF_ERROR(source.read(place.offset + offset, content));
  return content;
}

}  // namespace tost::data
