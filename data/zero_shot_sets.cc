#include "data/zero_shot_sets.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/digest.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

// A file's usual name, where the split's own word stands for %.
struct UsualName {
  ZeroShotSet set;
  absl::string_view split;
  const char* name;
};

// Where two names are given the first one found is taken: the version that GPT-2's figures are for.
constexpr UsualName kUsualNames[] = {
    {ZeroShotSet::kLambada, "test", "lambada_test.jsonl"},
    {ZeroShotSet::kLambada, "test", "lambada_test_plain_text.txt"},
    {ZeroShotSet::kLambada, "val", "lambada_development_plain_text.txt"},
    {ZeroShotSet::kWikiText2, "train", "wiki.train.raw"},
    {ZeroShotSet::kWikiText2, "val", "wiki.valid.raw"},
    {ZeroShotSet::kWikiText2, "test", "wiki.test.raw"},
    {ZeroShotSet::kPennTreebank, "train", "ptb.train.txt"},
    {ZeroShotSet::kPennTreebank, "val", "ptb.valid.txt"},
    {ZeroShotSet::kPennTreebank, "test", "ptb.test.txt"},
    {ZeroShotSet::kClozeCommonNouns, "train", "cbtest_CN_train.txt"},
    {ZeroShotSet::kClozeCommonNouns, "val", "cbtest_CN_valid_2000ex.txt"},
    {ZeroShotSet::kClozeCommonNouns, "test", "cbtest_CN_test_2500ex.txt"},
    {ZeroShotSet::kClozeEntities, "train", "cbtest_NE_train.txt"},
    {ZeroShotSet::kClozeEntities, "val", "cbtest_NE_valid_2000ex.txt"},
    {ZeroShotSet::kClozeEntities, "test", "cbtest_NE_test_2500ex.txt"},
};

std::vector<std::string> UsualNames(ZeroShotSet set, absl::string_view split) {
  std::vector<std::string> names;
  for (const UsualName& usual : kUsualNames) {
    if (usual.set == set && usual.split == split) names.push_back(usual.name);
  }
  return names;
}

std::string SplitIn(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (const char* word : {"valid", "development"}) {
    if (absl::StrContains(name, word)) return "val";
  }
  for (const char* word : {"train", "test"}) {
    if (absl::StrContains(name, word)) return word;
  }
  return "unknown";
}

// The text of a line of OpenAI's version.
absl::StatusOr<std::string> TextOf(const std::string& line, absl::string_view where) {
  const nlohmann::json object = nlohmann::json::parse(line, /*cb=*/nullptr, /*throw=*/false);
  if (!object.is_object()) {
    return absl::DataLossError(absl::StrCat(where, " is no JSON object"));
  }
  const auto text = object.find("text");
  if (text == object.end() || !text->is_string()) {
    return absl::DataLossError(absl::StrCat(where, " has no string \"text\""));
  }
  return text->get<std::string>();
}

// Reads blocks line by line and knows where it is.
class ClozeReader {
 public:
  ClozeReader(const std::string& path, absl::string_view text) : path_(path), lines_(Lines(text)) {}

  absl::StatusOr<std::vector<ClozeQuestion>> Read() {
    std::vector<ClozeQuestion> questions;
    for (SkipBlankLines(); next_ < lines_.size(); SkipBlankLines()) {
      block_ = questions.size() + 1;
      TOST_ASSIGN_OR_RETURN(ClozeQuestion question, ReadBlock());
      questions.push_back(std::move(question));
    }
    if (questions.empty()) {
      return absl::DataLossError(absl::StrCat(path_, ": holds no question"));
    }
    return questions;
  }

 private:
  void SkipBlankLines() {
    while (next_ < lines_.size() && absl::StripAsciiWhitespace(lines_[next_]).empty()) ++next_;
  }

  absl::Status Error(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat(path_, ": block ", block_, ", line ", next_, ": ", what));
  }

  // The block's line `number` without the number.
  absl::StatusOr<std::string> NumberedLine(size_t number) {
    if (next_ == lines_.size() || lines_[next_].empty()) {
      return Error(absl::StrCat("the block ends after ", number - 1, " of 21 lines"));
    }
    absl::string_view line = lines_[next_++];
    if (!absl::ConsumePrefix(&line, absl::StrCat(number, " "))) {
      return Error(absl::StrCat("the line does not begin with its number ", number));
    }
    return std::string(line);
  }

  absl::StatusOr<ClozeQuestion> ReadBlock() {
    ClozeQuestion result;
    for (size_t i = 0; i < ClozeQuestion::kSentences; ++i) {
      TOST_ASSIGN_OR_RETURN(result.context[i], NumberedLine(i + 1));
    }
    TOST_ASSIGN_OR_RETURN(const std::string line, NumberedLine(ClozeQuestion::kSentences + 1));
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() != 4 || fields[3].empty()) {
      return Error("no candidates; a question is: text, tab, answer, two tabs, candidates a|b|…");
    }
    result.question = fields[0];
    if (!absl::StrContains(result.question, ClozeQuestion::kBlank)) {
      return Error(absl::StrCat("the question has no ", ClozeQuestion::kBlank));
    }
    const std::vector<std::string> candidates = absl::StrSplit(fields[3], '|');
    if (candidates.size() != ClozeQuestion::kCandidates) {
      return Error(absl::StrCat(candidates.size(), " candidates, not 10"));
    }
    const auto answer = std::find(candidates.begin(), candidates.end(), fields[1]);
    if (answer == candidates.end()) {
      return Error(absl::StrCat("the answer '", fields[1], "' is not among the candidates"));
    }
    result.answer = static_cast<size_t>(answer - candidates.begin());
    std::copy(candidates.begin(), candidates.end(), result.candidates.begin());
    return result;
  }

  std::string path_;
  std::vector<std::string> lines_;
  size_t next_ = 0;  // lines taken, so the number of the last one, from 1
  size_t block_ = 0;
};

}  // namespace

const char* Name(ZeroShotSet set) {
  switch (set) {
    case ZeroShotSet::kLambada:
      return "lambada";
    case ZeroShotSet::kWikiText2:
      return "wikitext2";
    case ZeroShotSet::kPennTreebank:
      return "ptb";
    case ZeroShotSet::kClozeCommonNouns:
      return "cbt-cn";
    case ZeroShotSet::kClozeEntities:
      return "cbt-ne";
  }
  return "";
}

absl::StatusOr<SetFile> FindSetFile(ZeroShotSet set, const std::string& data,
                                    absl::string_view split) {
  const std::vector<std::string> names = UsualNames(set, split);
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--split ", split, ": ", Name(set),
                                                   " has no such split; it is train, val or test"));
  }
  const std::string expected = absl::StrJoin(names, " or ");
  if (data.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--task ", Name(set), " needs --data: a folder with ", expected, ", or such a file"));
  }
  SetFile file{.path = data, .split = SplitIn(data), .digest = ""};
  if (fs::is_directory(data)) {
    file = {.path = "", .split = std::string(split), .digest = ""};
    // The archive of the Children's Book Test keeps its files in a folder "data".
    for (const fs::path& folder : {fs::path(data), fs::path(data) / "data"}) {
      for (const std::string& name : names) {
        if (file.path.empty() && fs::exists(folder / name)) file.path = (folder / name).string();
      }
    }
    if (file.path.empty()) {
      return absl::NotFoundError(absl::StrCat(data, ": holds no ", expected, ", the ", split,
                                              " split of ", Name(set),
                                              "; --data may also name a file"));
    }
  }
  TOST_ASSIGN_OR_RETURN(file.digest, Sha256OfFile(file.path));
  return file;
}

std::vector<std::string> Lines(absl::string_view text) {
  absl::ConsumeSuffix(&text, "\n");
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    if (absl::EndsWith(line, "\r")) line.pop_back();
  }
  return lines;
}

absl::StatusOr<std::vector<std::string>> ReadPassages(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const bool objects = absl::EndsWith(path, ".jsonl") ||
                       absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
  std::vector<std::string> passages;
  size_t number = 0;
  for (std::string& line : Lines(text)) {
    ++number;
    absl::StripAsciiWhitespace(&line);
    if (line.empty()) continue;
    const std::string where = absl::StrCat(path, ": line ", number);
    if (objects) {
      TOST_ASSIGN_OR_RETURN(line, TextOf(line, where));
      absl::StripAsciiWhitespace(&line);
    }
    if (!absl::StrContains(line, ' ')) {
      return absl::DataLossError(
          absl::StrCat(where, " is a single word: there is nothing to predict it from"));
    }
    passages.push_back(std::move(line));
  }
  if (passages.empty()) return absl::DataLossError(absl::StrCat(path, ": holds no passage"));
  return passages;
}

absl::StatusOr<std::vector<ClozeQuestion>> ReadClozeQuestions(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ClozeReader(path, text).Read();
}

}  // namespace tost::data
