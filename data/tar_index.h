// Where the files of an uncompressed tar archive lie in it, so that they can be read in place.
#ifndef TOST_DATA_TAR_INDEX_H_
#define TOST_DATA_TAR_INDEX_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// Fills `bytes` with those at `offset` of a file or a buffer. Any number of threads may call it.
using ReadAt = std::function<absl::Status(int64_t offset, std::span<char> bytes)>;

struct TarMember {
  std::string name;  // as it is stored: any bytes
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The regular files of the archive in bytes [begin, end), in stored order: ustar, GNU and pax
// headers. Only headers are read. Errors name `archive`, and the offset of a damaged or cut member;
// sparse files are an error.
absl::StatusOr<std::vector<TarMember>> TarMembers(const ReadAt& read, int64_t begin, int64_t end,
                                                  absl::string_view archive);

}  // namespace tost::data

#endif  // TOST_DATA_TAR_INDEX_H_
