// Bytes that arrive in pieces, whatever they come out of.
#ifndef TOST_DATA_BYTE_STREAM_H_
#define TOST_DATA_BYTE_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

class ByteStream {
 public:
  // Gives the next bytes, which stay valid until it is called again; empty at the end, again and
  // again.
  using Source = std::function<absl::StatusOr<absl::string_view>()>;

  explicit ByteStream(Source source) : source_(std::move(source)) {}
  // The bytes of a file; `consumed` counts them as they are read and must outlive the stream.
  static absl::StatusOr<ByteStream> OfFile(const std::string& path, int64_t* consumed);

  // The first bytes of what is left, without taking them: `count` of them, or fewer at the end.
  absl::StatusOr<absl::string_view> Peek(size_t count);
  // Takes the next bytes: valid until the next call; empty at the end.
  absl::StatusOr<absl::string_view> Read();

 private:
  Source source_;
  std::string peeked_;
  std::string given_;  // was peeked, and taken by the last Read
};

}  // namespace tost::data

#endif  // TOST_DATA_BYTE_STREAM_H_
