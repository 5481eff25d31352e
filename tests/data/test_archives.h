// Archives and compressed files made in memory, by libarchive's writer.
#ifndef TOST_TESTS_DATA_TEST_ARCHIVES_H_
#define TOST_TESTS_DATA_TEST_ARCHIVES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tost {

// Names and contents, in the order in which they are stored.
using Members = std::vector<std::pair<std::string, std::string>>;

// `format` is "ustar", "pax" or "zip".
std::string Pack(const std::string& format, const Members& members);

// `filter` is "gzip", "bzip2", "xz" or "zstd".
std::string Compress(const std::string& filter, absl::string_view bytes);

}  // namespace tost

#endif  // TOST_TESTS_DATA_TEST_ARCHIVES_H_
