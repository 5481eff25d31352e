#include "data/gif_decode.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr char kFormat[] = "GIF";

class GifReader {
 public:
  GifReader(absl::string_view bytes, absl::string_view name) : bytes_(bytes), name_(name) {}
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;
  ~GifReader() {
    if (gif_ != nullptr) DGifCloseFile(gif_, nullptr);
  }

  // Reads up to the pixels of the first frame.
  absl::Status ReadHeader();
  int width() const { return std::max(gif_->SWidth, gif_->Image.Left + gif_->Image.Width); }
  int height() const { return std::max(gif_->SHeight, gif_->Image.Top + gif_->Image.Height); }
  absl::StatusOr<Image> Decode();

 private:
  static int Pull(GifFileType* gif, GifByteType* to, int count);
  absl::Status Failure(int error) const;
  absl::Status SkipExtension();
  absl::Status ReadRow(int y, std::vector<uint8_t>& indices, Image& image);
  const ColorMapObject* Colours() const;

  absl::string_view bytes_;
  absl::string_view name_;
  size_t position_ = 0;
  bool ended_ = false;  // the library asked for bytes beyond the last one
  GifFileType* gif_ = nullptr;
};

int GifReader::Pull(GifFileType* gif, GifByteType* to, int count) {
  auto* reader = static_cast<GifReader*>(gif->UserData);
  const size_t given =
      std::min(static_cast<size_t>(count), reader->bytes_.size() - reader->position_);
  std::memcpy(to, reader->bytes_.data() + reader->position_, given);
  reader->position_ += given;
  if (given < static_cast<size_t>(count)) reader->ended_ = true;
  return static_cast<int>(given);
}

absl::Status GifReader::Failure(int error) const {
  if (ended_) return PrematureEnd(name_, kFormat, bytes_.size());
  const char* why = GifErrorString(error);
  return DamagedImage(name_, kFormat, why == nullptr ? "no reason known" : why, position_);
}

absl::Status GifReader::SkipExtension() {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif_, &code, &block) == GIF_ERROR) return Failure(gif_->Error);
  while (block != nullptr) {
    if (DGifGetExtensionNext(gif_, &block) == GIF_ERROR) return Failure(gif_->Error);
  }
  return absl::OkStatus();
}

absl::Status GifReader::ReadHeader() {
  int error = 0;
  gif_ = DGifOpen(this, &Pull, &error);
  if (gif_ == nullptr) return Failure(error);
  GifRecordType record = UNDEFINED_RECORD_TYPE;
  while (record != IMAGE_DESC_RECORD_TYPE) {
    if (DGifGetRecordType(gif_, &record) == GIF_ERROR) return Failure(gif_->Error);
    if (record == EXTENSION_RECORD_TYPE) TOST_RETURN_IF_ERROR(SkipExtension());
    if (record == TERMINATE_RECORD_TYPE) {
      return DamagedImage(name_, kFormat, "no frame", position_);
    }
  }
  if (DGifGetImageDesc(gif_) == GIF_ERROR) return Failure(gif_->Error);
  TOST_RETURN_IF_ERROR(CheckImageSize(name_, gif_->Image.Width, gif_->Image.Height));
  if (Colours() == nullptr) return DamagedImage(name_, kFormat, "no colour table", position_);
  return CheckImageSize(name_, width(), height());
}

const ColorMapObject* GifReader::Colours() const {
  return gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
}

void SetColour(const ColorMapObject& colours, int index, uint8_t* pixel) {
  if (index >= colours.ColorCount) return;
  pixel[0] = colours.Colors[index].Red;
  pixel[1] = colours.Colors[index].Green;
  pixel[2] = colours.Colors[index].Blue;
}

absl::Status GifReader::ReadRow(int y, std::vector<uint8_t>& indices, Image& image) {
  const GifImageDesc& frame = gif_->Image;
  if (DGifGetLine(gif_, indices.data(), frame.Width) == GIF_ERROR) return Failure(gif_->Error);
  uint8_t* pixel = image.Pixel(frame.Left, frame.Top + y);
  std::fill_n(pixel, indices.size() * 3, uint8_t{0});
  for (const uint8_t index : indices) {
    SetColour(*Colours(), index, pixel);
    pixel += 3;
  }
  return absl::OkStatus();
}

absl::StatusOr<Image> GifReader::Decode() {
  Image image(width(), height());
  if (gif_->SColorMap != nullptr) {
    for (size_t i = 0; i < image.pixels.size(); i += 3) {
      SetColour(*gif_->SColorMap, gif_->SBackGroundColor, &image.pixels[i]);
    }
  }
  // Interlaced rows come in four passes.
  struct Pass {
    int first, step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  constexpr Pass kPlain[] = {{0, 1}};
  const GifImageDesc& frame = gif_->Image;
  std::vector<uint8_t> indices(static_cast<size_t>(frame.Width));
  const auto passes = frame.Interlace
                          ? std::vector<Pass>(std::begin(kInterlaced), std::end(kInterlaced))
                          : std::vector<Pass>(std::begin(kPlain), std::end(kPlain));
  for (const Pass& pass : passes) {
    for (int y = pass.first; y < frame.Height; y += pass.step) {
      TOST_RETURN_IF_ERROR(ReadRow(y, indices, image));
    }
  }
  return image;
}

}  // namespace

absl::StatusOr<ImageHeader> ReadGifHeader(absl::string_view bytes, absl::string_view name) {
  GifReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return ImageHeader{kFormat, reader.width(), reader.height()};
}

absl::StatusOr<Image> DecodeGif(absl::string_view bytes, absl::string_view name) {
  GifReader reader(bytes, name);
  TOST_RETURN_IF_ERROR(reader.ReadHeader());
  return reader.Decode();
}

}  // namespace tost::data
