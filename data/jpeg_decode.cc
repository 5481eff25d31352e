#include "data/jpeg_decode.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/libjpeg.h"

namespace tost::data {
namespace {

constexpr char kFormat[] = "JPEG";

// A progressive picture is decoded once for each of its scans; real ones have about ten.
constexpr int kMaxScans = 500;

// Chroma upsampling looks one sample, that is two pixels, beyond a pixel, and finds no neighbour
// at the border of the part that is decoded.
constexpr int kMargin = 8;

struct ErrorState : jpeg_error_mgr {
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void LeaveLibrary(j_common_ptr info) {
  auto* state = static_cast<ErrorState*>(info->err);
  state->format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

// libjpeg goes on after these as if nothing had been lost, and nothing has.
bool IsHarmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_JFIF_MAJOR || warning == JWRN_NOT_SEQUENTIAL || warning == JWRN_BOGUS_ICC;
}

// Warnings have negative levels, traces positive ones. Other warnings mean that libjpeg invents
// the rest of the picture.
void TakeMessage(j_common_ptr info, int level) {
  if (level < 0 && !IsHarmless(info->err->msg_code)) LeaveLibrary(info);
}

void CheckScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    auto* state = static_cast<ErrorState*>(info->err);
    std::snprintf(state->message, sizeof(state->message), "more than %d scans", kMaxScans);
    std::longjmp(state->jump, 1);
  }
}

// As Pillow converts them. Whether stored inverted (Adobe) or not is not asked: inverted is what
// practically all files are.
void CmykToRgb(const uint8_t* cmyk, int pixels, uint8_t* rgb) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int x = (255 - cmyk[c]) * light + 128;
      rgb[c] = static_cast<uint8_t>(std::clamp(light - (((x >> 8) + x) >> 8), 0, 255));
    }
  }
}

class JpegReader {
 public:
  JpegReader(absl::string_view bytes, absl::string_view name);
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&info_); }

  absl::Status ReadHeader();
  int width() const { return static_cast<int>(info_.image_width); }
  int height() const { return static_cast<int>(info_.image_height); }

  // The part of the picture at eighths/8 of its size; `part` in pixels of that scale.
  absl::StatusOr<Image> Decode(const Region& part, int eighths);

 private:
  bool Guarded(absl::FunctionRef<void()> calls);
  absl::Status Failure();
  absl::Status Start(int eighths);
  absl::Status SkipTo(const Region& part);
  bool ReadRows(const Region& part, std::vector<uint8_t>& row, Image& image);
  absl::Status Finish();

  absl::string_view bytes_;
  absl::string_view name_;
  ErrorState errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  size_t scan_begin_ = 0;  // bytes of the header
  int first_column_ = 0;   // of the rows that the library gives
};

JpegReader::JpegReader(absl::string_view bytes, absl::string_view name)
    : bytes_(bytes), name_(name) {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = &LeaveLibrary;
  errors_.emit_message = &TakeMessage;
  progress_.progress_monitor = &CheckScans;
}

// Runs calls of the library. An error of theirs makes it return false: the library then jumps
// here, past everything in `calls`, which therefore holds no object with a destructor.
bool JpegReader::Guarded(absl::FunctionRef<void()> calls) {
  if (setjmp(errors_.jump) != 0) return false;
  calls();
  return true;
}

absl::Status JpegReader::Failure() {
  if (errors_.msg_code == JWRN_JPEG_EOF) return PrematureEnd(name_, kFormat, bytes_.size());
  // At the end of the data the source is a buffer of the library's.
  const auto* at =
      reinterpret_cast<const char*>(info_.src == nullptr ? nullptr : info_.src->next_input_byte);
  const bool inside = at >= bytes_.data() && at <= bytes_.data() + bytes_.size();
  return DamagedImage(name_, kFormat, errors_.message,
                      inside ? static_cast<size_t>(at - bytes_.data()) : bytes_.size());
}

absl::Status JpegReader::ReadHeader() {
  const bool read = Guarded([this] {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
  });
  if (!read) return Failure();
  scan_begin_ = bytes_.size() - std::min(bytes_.size(), info_.src->bytes_in_buffer);
  if (info_.jpeg_color_space == JCS_UNKNOWN) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": a JPEG picture of ", info_.num_components,
                     " components of unknown meaning; convert it to RGB or gray"));
  }
  return CheckImageSize(name_, width(), height());
}

absl::Status JpegReader::Start(int eighths) {
  info_.scale_num = static_cast<unsigned>(eighths);
  info_.scale_denom = 8;
  info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
  return Guarded([this] { jpeg_start_decompress(&info_); }) ? absl::OkStatus() : Failure();
}

// Makes the library leave out what lies left, right and above of the part. Of pictures in several
// scans every coefficient has been read by now, and the smoothing of incomplete ones looks far
// around; of pictures with less than every other chroma sample, libjpeg-turbo 2.1 takes a wrong
// width for the chroma when it also scales. These rare ones are decoded from their first row on.
absl::Status JpegReader::SkipTo(const Region& part) {
  const bool usual = info_.max_h_samp_factor <= 2 && info_.max_v_samp_factor <= 2;
  if (!usual || jpeg_has_multiple_scans(&info_)) return absl::OkStatus();
  const int columns = static_cast<int>(info_.output_width);
  const int begin = std::max(0, part.x - kMargin);
  const int end = std::min(columns, part.x + part.width + kMargin);
  const int rows = std::max(0, part.y - kMargin);
  auto first = static_cast<JDIMENSION>(begin);
  auto count = static_cast<JDIMENSION>(end - begin);
  const bool skipped = Guarded([&] {
    if (end - begin < columns) jpeg_crop_scanline(&info_, &first, &count);
    if (rows > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(rows));
  });
  if (!skipped) return Failure();
  if (end - begin < columns) first_column_ = static_cast<int>(first);
  return absl::OkStatus();
}

bool JpegReader::ReadRows(const Region& part, std::vector<uint8_t>& row, Image& image) {
  const bool cmyk = info_.out_color_space == JCS_CMYK;
  const bool direct = !cmyk && static_cast<int>(info_.output_width) == part.width;
  const size_t skip = static_cast<size_t>(part.x - first_column_) * (cmyk ? 4 : 3);
  return Guarded([&] {
    while (static_cast<int>(info_.output_scanline) < part.y + part.height) {
      const int y = static_cast<int>(info_.output_scanline) - part.y;
      JSAMPROW to = direct && y >= 0 ? image.Pixel(0, y) : row.data();
      jpeg_read_scanlines(&info_, &to, 1);
      if (y < 0 || direct) continue;
      if (cmyk) {
        CmykToRgb(row.data() + skip, part.width, image.Pixel(0, y));
      } else {
        std::copy_n(row.data() + skip, static_cast<size_t>(part.width) * 3, image.Pixel(0, y));
      }
    }
  });
}

// That the data go on to their end is seen without decoding them: in compressed data a zero
// follows every byte 0xFF.
absl::Status JpegReader::Finish() {
  if (info_.output_scanline == info_.output_height) {
    return Guarded([this] { jpeg_finish_decompress(&info_); }) ? absl::OkStatus() : Failure();
  }
  const bool ends = bytes_.substr(scan_begin_).rfind("\xFF\xD9") != absl::string_view::npos;
  return ends ? absl::OkStatus() : PrematureEnd(name_, kFormat, bytes_.size());
}

absl::StatusOr<Image> JpegReader::Decode(const Region& part, int eighths) {
  TOST_RETURN_IF_ERROR(Start(eighths));
  std::vector<uint8_t> row(static_cast<size_t>(info_.output_width) * 4);
  TOST_RETURN_IF_ERROR(SkipTo(part));
  Image image(part.width, part.height);
  if (!ReadRows(part, row, image)) return Failure();
  TOST_RETURN_IF_ERROR(Finish());
  return image;
}

// The smallest scale, in eighths, at which the region has the pixels that are asked for.
int EighthsFor(const Region& region, int target_width, int target_height) {
  for (const int eighths : {1, 2, 4}) {
    if (int64_t{region.width} * eighths >= int64_t{target_width} * 8 &&
        int64_t{region.height} * eighths >= int64_t{target_height} * 8) {
      return eighths;
    }
  }
  return 8;
}

}  // namespace

absl::StatusOr<ImageHeader> ReadJpegHeader(absl::string_view bytes, absl::string_view name) {
  JpegReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return ImageHeader{kFormat, reader.width(), reader.height()};
}

absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes, absl::string_view name) {
  JpegReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return reader.Decode({0, 0, reader.width(), reader.height()}, 8);
}

absl::StatusOr<DecodedRegion> DecodeJpegRegion(absl::string_view bytes, absl::string_view name,
                                               const Region& region, int target_width,
                                               int target_height) {
  JpegReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  const int eighths = EighthsFor(region, target_width, target_height);
  // Pixel x of the whole picture is at x · eighths/8.
  const double scale = eighths / 8.0;
  const double x0 = region.x * scale, x1 = (region.x + region.width) * scale;
  const double y0 = region.y * scale, y1 = (region.y + region.height) * scale;
  Region part{static_cast<int>(x0), static_cast<int>(y0)};
  part.width = static_cast<int>(std::ceil(x1)) - part.x;
  part.height = static_cast<int>(std::ceil(y1)) - part.y;
  TOST_ASSIGN_OR_RETURN(Image image, reader.Decode(part, eighths));
  return DecodedRegion{std::move(image), x0 - part.x, y0 - part.y, x1 - part.x, y1 - part.y};
}

}  // namespace tost::data
