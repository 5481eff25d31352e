#include "trainers/tensor_names.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tost::train {

std::string WrapperPrefix(std::span<const std::string> names) {
  std::string prefix;
  while (!names.empty()) {
    std::string longer;
    for (const char* wrapper : {"_orig_mod.", "module."}) {
      const std::string candidate = absl::StrCat(prefix, wrapper);
      const bool shared = std::ranges::all_of(
          names, [&](const std::string& name) { return absl::StartsWith(name, candidate); });
      if (shared) longer = candidate;
    }
    if (longer.empty()) break;
    prefix = longer;
  }
  return prefix;
}

void TensorFaults::AddShape(absl::string_view name, const TensorEntry& entry,
                            const Shape& expected) {
  shapes.push_back(absl::StrCat(name, " ", entry.ShapeString(), " in the file, ",
                                expected.ToString(), " in the model"));
}

absl::Status TensorFaults::ToStatus(absl::string_view beginning, absl::string_view end) const {
  if (empty()) return absl::OkStatus();
  std::vector<std::string> parts;
  const auto add = [&](absl::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    parts.push_back(absl::StrCat(names.size(), " ", what, " (",
                                 absl::Utf8SafeCEscape(absl::StrJoin(names, ", ")), ")"));
  };
  add("missing", missing);
  add("unexpected", unexpected);
  add("wrongly shaped", shapes);
  return absl::InvalidArgumentError(
      absl::StrCat(beginning, ": ", absl::StrJoin(parts, "; "), "; ", end));
}

}  // namespace tost::train
