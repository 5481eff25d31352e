// Random texts that hold what tokenizers get wrong.
#ifndef TOST_TESTS_DATA_RANDOM_TEXT_H_
#define TOST_TESTS_DATA_RANDOM_TEXT_H_

#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace tost {

// `units` times one of: letters, digits, punctuation, contractions and their parts, runs of white
// space of several kinds, characters of two to four bytes, bytes that are no UTF-8, half
// characters.
inline std::string RandomText(std::mt19937& random, size_t units) {
  static constexpr absl::string_view kUnits[] = {"a",
                                                 "e",
                                                 "the",
                                                 "S",
                                                 "s",
                                                 "t",
                                                 "re",
                                                 "ve",
                                                 "ll",
                                                 "0",
                                                 "1",
                                                 "42",
                                                 "!",
                                                 ".",
                                                 "-",
                                                 "--",
                                                 "'",
                                                 "'s",
                                                 "'t",
                                                 "'m",
                                                 "'d",
                                                 "'S",
                                                 "’",
                                                 " ",
                                                 " ",
                                                 " ",
                                                 "  ",
                                                 "   ",
                                                 "\n",
                                                 "\n\n",
                                                 "\t",
                                                 "\r",
                                                 "é",
                                                 "ß",
                                                 "日",
                                                 "本",
                                                 "😀",
                                                 "½",
                                                 "٣",
                                                 "\xC2\x85",
                                                 "\xC2\xA0",
                                                 "\xE3\x80\x80",
                                                 "\xE1\xA0\x8E",
                                                 "\xEF\xBB\xBF",
                                                 "\xCC\x81",
                                                 "\xFF",
                                                 "\x80",
                                                 "\xC3",
                                                 "\xE2\x82",
                                                 "\xF0\x9F\x98",
                                                 "\x1C"};
  std::string text;
  for (size_t i = 0; i < units; ++i) {
    const absl::string_view unit = kUnits[random() % std::size(kUnits)];
    text.append(unit.data(), unit.size());
  }
  return text;
}

}  // namespace tost

#endif  // TOST_TESTS_DATA_RANDOM_TEXT_H_
