// Variables of MATLAB files of version 5 (libmatio), as whole numbers.
#ifndef TOST_DATA_MAT_FILE_H_
#define TOST_DATA_MAT_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// The elements of the numeric variable `variable` of a file with content `bytes`, in stored order
// (column by column), whatever their type; either byte order, compressed or not. Errors name the
// file, called `name`, and what is wrong: no MATLAB 5 file, version 7.3, cut or damaged (with the
// byte), no such variable (with those that are there), text or another type, a number that is not
// whole, more than 2^24 elements.
absl::StatusOr<std::vector<int64_t>> ReadMatIntegers(absl::string_view bytes,
                                                     absl::string_view name,
                                                     const std::string& variable);

}  // namespace tost::data

#endif  // TOST_DATA_MAT_FILE_H_
