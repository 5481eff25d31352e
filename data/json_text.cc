#include "data/json_text.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

constexpr int kDeepest = 256;
constexpr size_t kLongestReason = 160;

// What nlohmann's parser says after its own prefix, "…: syntax error while parsing value - …".
std::string Reason(absl::string_view what) {
  constexpr absl::string_view kPrefix = "syntax error ";
  const size_t begin = what.find(kPrefix);
  if (begin != absl::string_view::npos) what.remove_prefix(begin + kPrefix.size());
  if (what.size() <= kLongestReason) return std::string(what);
  return absl::StrCat(what.substr(0, kLongestReason), "…");
}

// Picks one member of the outermost object while the parser passes by. Returning false ends the
// parsing; `problem` then says why.
class TextPicker : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextPicker(absl::string_view field) : field_(field) {}

  const std::string& problem() const { return problem_; }
  std::optional<std::string> TakeText() { return std::move(text_); }

  bool null() override { return Other("null"); }
  bool boolean(bool) override { return Other("true or false"); }
  bool number_integer(number_integer_t) override { return Other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Other("a number"); }
  bool binary(binary_t&) override { return Other("binary"); }
  bool string(string_t& value) override {
    if (depth_ == 0) return Other("a string");
    if (wanted()) text_ = std::move(value);
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) at_field_ = absl::string_view(name) == field_;
    return true;
  }
  bool start_object(size_t) override { return (depth_ == 0 || Other("an object")) && Deeper(); }
  bool start_array(size_t) override { return Other("an array") && Deeper(); }
  bool end_object() override { return Shallower(); }
  bool end_array() override { return Shallower(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    problem_ = absl::StrCat(" is not JSON at byte ", position, ": ", Reason(error.what()));
    return false;
  }

 private:
  bool wanted() const { return depth_ == 1 && at_field_; }
  // A value that is no string.
  bool Other(absl::string_view kind) {
    if (depth_ == 0) problem_ = absl::StrCat(" is ", kind, ", not an object");
    if (wanted()) problem_ = absl::StrCat(": \"", field_, "\" is ", kind, ", not a string");
    return problem_.empty();
  }
  bool Deeper() {
    if (++depth_ > kDeepest) {
      problem_ = absl::StrCat(" is nested more than ", kDeepest, " deep");
    }
    return problem_.empty();
  }
  bool Shallower() {
    --depth_;
    return true;
  }

  absl::string_view field_;
  int depth_ = 0;
  bool at_field_ = false;
  std::optional<std::string> text_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<std::string> JsonText(absl::string_view line, absl::string_view field,
                                     absl::string_view source) {
  TextPicker picker(field);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &picker)) {
    return absl::InvalidArgumentError(absl::StrCat(source, picker.problem()));
  }
  std::optional<std::string> text = picker.TakeText();
  if (!text.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(source, " has no field \"", field,
                                                   "\"; name the one that holds the text with "
                                                   "--json_field"));
  }
  return *std::move(text);
}

}  // namespace tost::data
