// The text sets on which language models are tested without training on them, in the files of their
// distributions: LAMBADA (Paperno et al. 2016), WikiText-2 raw (Merity et al. 2017), Penn Treebank
// as prepared by Mikolov, and the Children's Book Test (Hill et al. 2016).
#ifndef TOST_DATA_ZERO_SHOT_SETS_H_
#define TOST_DATA_ZERO_SHOT_SETS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

enum class ZeroShotSet { kLambada, kWikiText2, kPennTreebank, kClozeCommonNouns, kClozeEntities };

// "lambada", "wikitext2", "ptb", "cbt-cn", "cbt-ne".
const char* Name(ZeroShotSet set);

// One split of a set as it was found.
struct SetFile {
  std::string path;
  std::string split;   // "train", "val" or "test"; "unknown" for a file whose name tells nothing
  std::string digest;  // SHA-256 of the file, in hexadecimal
};

// `data` is a folder holding the file of `split` under its usual name, or a file. Errors name the
// files expected.
absl::StatusOr<SetFile> FindSetFile(ZeroShotSet set, const std::string& data,
                                    absl::string_view split);

// LAMBADA's passages, in order, without white space at their ends. Each line of the file is one
// passage, or, in OpenAI's version (told by .jsonl or a first byte `{`), an object with its "text".
// Blank lines are skipped. A passage of a single word, which leaves nothing to predict from, is an
// error, as is an empty file; errors name the line.
absl::StatusOr<std::vector<std::string>> ReadPassages(const std::string& path);

// A question of the Children's Book Test.
struct ClozeQuestion {
  static constexpr size_t kSentences = 20;
  static constexpr size_t kCandidates = 10;
  static constexpr char kBlank[] = "XXXXX";

  std::array<std::string, kSentences> context;
  std::string question;  // holds kBlank where a word is missing
  std::array<std::string, kCandidates> candidates;
  size_t answer = 0;  // among the candidates
};

// The blocks of a file: 20 numbered sentences, then "21 question<TAB>answer<TAB><TAB>a|b|…", parted
// by blank lines. Errors name the block and the line: a block cut short, a line that is not
// numbered as it should be, a question without a blank, candidates that are not ten or do not
// include the answer.
absl::StatusOr<std::vector<ClozeQuestion>> ReadClozeQuestions(const std::string& path);

// A text's lines without their ends (LF or CRLF); the last one need not have an end.
std::vector<std::string> Lines(absl::string_view text);

}  // namespace tost::data

#endif  // TOST_DATA_ZERO_SHOT_SETS_H_
