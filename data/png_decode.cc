#include "data/png_decode.h"

#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr char kFormat[] = "PNG";

class PngReader {
 public:
  PngReader(absl::string_view bytes, absl::string_view name) : bytes_(bytes), name_(name) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  absl::Status ReadHeader();
  int width() const { return width_; }
  int height() const { return height_; }
  absl::StatusOr<Image> Decode();

 private:
  [[noreturn]] static void LeaveLibrary(png_structp png, png_const_charp message);
  static void IgnoreWarning(png_structp, png_const_charp) {}
  static void Pull(png_structp png, png_bytep to, size_t count);
  bool Guarded(absl::FunctionRef<void()> calls);
  absl::Status Failure() const;
  absl::Status CheckSize();
  bool ReadRows(Image& image, int passes);

  absl::string_view bytes_;
  absl::string_view name_;
  size_t position_ = 0;
  bool ended_ = false;  // the library asked for bytes beyond the last one
  std::jmp_buf jump_;
  char message_[256] = "";
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int width_ = 0;
  int height_ = 0;
};

void PngReader::LeaveLibrary(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message_, message, sizeof(reader->message_) - 1);
  std::longjmp(reader->jump_, 1);
}

void PngReader::Pull(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->bytes_.size() - reader->position_ < count) {
    reader->ended_ = true;
    png_error(png, "premature end");
  }
  std::memcpy(to, reader->bytes_.data() + reader->position_, count);
  reader->position_ += count;
}

// Runs calls of the library. An error of theirs makes it return false: the library then jumps
// here, past everything in `calls`, which therefore holds no object with a destructor.
bool PngReader::Guarded(absl::FunctionRef<void()> calls) {
  if (setjmp(jump_) != 0) return false;
  calls();
  return true;
}

absl::Status PngReader::Failure() const {
  if (ended_) return PrematureEnd(name_, kFormat, bytes_.size());
  return DamagedImage(name_, kFormat, message_, position_);
}

// The first chunk holds the extents. They are looked at before the library does, whose messages do
// not name them.
absl::Status PngReader::CheckSize() {
  constexpr size_t kExtents = 16, kExtentsEnd = 24;
  if (bytes_.size() < kExtentsEnd) return PrematureEnd(name_, kFormat, bytes_.size());
  const auto* extents = reinterpret_cast<const png_byte*>(bytes_.data() + kExtents);
  const int64_t width = png_get_uint_32(extents), height = png_get_uint_32(extents + 4);
  TOST_RETURN_IF_ERROR(CheckImageSize(name_, width, height));
  width_ = static_cast<int>(width);
  height_ = static_cast<int>(height);
  return absl::OkStatus();
}

absl::Status PngReader::ReadHeader() {
  TOST_RETURN_IF_ERROR(CheckSize());
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &LeaveLibrary, &IgnoreWarning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  TOST_CHECK(info_ != nullptr) << "libpng " << PNG_LIBPNG_VER_STRING << " does not start";
  const bool read = Guarded([this] {
    png_set_read_fn(png_, this, &Pull);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // CheckSize has limited them
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Whatever else is in the file (texts, profiles) is not unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  });
  return read ? absl::OkStatus() : Failure();
}

bool PngReader::ReadRows(Image& image, int passes) {
  return Guarded([&] {
    for (int pass = 0; pass < passes; ++pass) {
      for (int y = 0; y < height_; ++y) png_read_row(png_, image.Pixel(0, y), nullptr);
    }
    png_read_end(png_, nullptr);
  });
}

absl::StatusOr<Image> PngReader::Decode() {
  int passes = 0;
  const bool started = Guarded([&] {
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  });
  if (!started) return Failure();
  TOST_CHECK_EQ(png_get_rowbytes(png_, info_), static_cast<size_t>(width_) * 3) << name_;
  Image image(width_, height_);
  if (!ReadRows(image, passes)) return Failure();
  return image;
}

}  // namespace

absl::StatusOr<ImageHeader> ReadPngHeader(absl::string_view bytes, absl::string_view name) {
  PngReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return ImageHeader{kFormat, reader.width(), reader.height()};
}

absl::StatusOr<Image> DecodePng(absl::string_view bytes, absl::string_view name) {
  PngReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return reader.Decode();
}

}  // namespace tost::data
