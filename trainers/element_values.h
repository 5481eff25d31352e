// Elements as they lie in tensor files, as numbers of ours. Types have the names of the safetensors
// format ("F32", "BF16", …); bytes are little-endian and need no alignment.
#ifndef TOST_TRAINERS_ELEMENT_VALUES_H_
#define TOST_TRAINERS_ELEMENT_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

namespace tost::train {

// F64, F32, F16 and BF16 as float (F64 rounded); nothing for any other type.
std::optional<std::vector<float>> FloatsOf(absl::string_view dtype,
                                           std::span<const std::byte> bytes);

// Whole numbers and truth values, exactly; nothing for any other type. U64 is none of them: it does
// not fit.
std::optional<std::vector<int64_t>> IntegersOf(absl::string_view dtype,
                                               std::span<const std::byte> bytes);

}  // namespace tost::train

#endif  // TOST_TRAINERS_ELEMENT_VALUES_H_
