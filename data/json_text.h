// The text field of one line of a .jsonl file.
#ifndef TOST_DATA_JSON_TEXT_H_
#define TOST_DATA_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// The string that member `field` of a JSON object holds, escapes resolved (a lone surrogate is an
// error). Of members with the same name the last one counts. The stack does not grow with the
// depth of the line, which may be 256. Errors begin with `source`, which names file and line.
absl::StatusOr<std::string> JsonText(absl::string_view line, absl::string_view field,
                                     absl::string_view source);

}  // namespace tost::data

#endif  // TOST_DATA_JSON_TEXT_H_
