#include "trainers/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/small_byte_pairs.h"
#include "tests/data/test_files.h"
#include "tests/models/tiny_model.h"
#include "trainers/sample_language.h"

namespace tost::train {
namespace {

using data::ClozeQuestion;
using models::TinyModel;

constexpr int64_t kIds = data::kSmallBytePairs, kRows = 304;

const data::Tokenizer& BytePairs() {
  static const data::Tokenizer* const tokenizer = new data::Tokenizer(data::SmallBytePairs());
  return *tokenizer;
}

std::vector<int32_t> Encoded(const std::string& text) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(BytePairs().Encode(text, "text", ids).ok());
  return ids;
}

// The model is made once; it is only read.
const TinyModel& Tiny() {
  static const TinyModel* const tiny = new TinyModel({.context = 200, .vocabulary = kRows});
  return *tiny;
}

ZeroShotSubject Subject(const TinyModel& tiny, int64_t batch = 4) {
  return {tiny.model, BytePairs(), {.batch = batch}, "file"};
}

// Logits of every token, one row of the model per call.
std::vector<float> Logits(const models::LanguageModel& model, const std::vector<int32_t>& tokens) {
  models::Pass pass;
  return model.Logits(Tensor::FromHost({1, static_cast<int64_t>(tokens.size())}, tokens), pass)
      .ToHost();
}

// Loss of the last `scored` of the tokens, and whether each is the most likely.
SequenceScore ScoreByHand(const models::LanguageModel& model, std::vector<int32_t> tokens,
                          size_t scored) {
  const std::vector<int32_t> inputs(tokens.begin(), tokens.end() - 1);
  const std::vector<float> logits = Logits(model, inputs);
  SequenceScore score;
  for (size_t i = tokens.size() - scored; i < tokens.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * kRows, kRows);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    score.loss += std::log(sum) - static_cast<double>(row[static_cast<size_t>(tokens[i])]);
    const auto known = row.first(kIds);
    score.most_likely &= std::ranges::max_element(known) - known.begin() == tokens[i];
  }
  return score;
}

// What comes after c by greedy drawing, and its first word.
std::string Continuation(const models::LanguageModel& model, const std::string& prompt) {
  std::vector<int32_t> drawn;
  Generate(model, Encoded(prompt), 10, {.temperature = 0, .vocabulary = kIds}, {},
           [&](int32_t id) { drawn.push_back(id); });
  return BytePairs().Decode(drawn);
}

std::vector<std::string> Passages() {
  std::vector<std::string> passages;
  for (const char* text :
       {"He looked at the door and went through it", "\u201cNo,\u201d she said. \u201cNever",
        "Rain fell on the roof all night", "It was cold outside, so they stayed in", "a b"}) {
    passages.push_back(text);
  }
  // One whose last word is what the model finds most likely.
  const std::string context = "They came from the";
  const std::vector<float> logits = Logits(Tiny().model, Encoded(context));
  const auto row = std::span(logits).last(kRows).first(kIds);
  const auto best = std::ranges::max_element(row);
  const std::string word =
      BytePairs().Decode(std::vector<int32_t>{static_cast<int32_t>(best - row.begin())});
  if (absl::StartsWith(word, " ") && word.rfind(' ') == 0) passages.push_back(context + word);
  return passages;
}

// A model that finds " the" most likely everywhere, but for a padding row that is more likely
// still.
std::unique_ptr<TinyModel> ModelThatSaysThe() {
  auto tiny = std::make_unique<TinyModel>(TinyModel::Options{.context = 64, .vocabulary = kRows});
  Tensor bias = tiny->params.Find("transformer.ln_f.bias")->value();
  Tensor wte = tiny->params.Find("transformer.wte.weight")->value();
  const int64_t width = wte.shape()[1];
  for (int64_t i = 0; i < width; ++i) {
    bias.mutable_data<float>()[i] = 30;
    wte.mutable_data<float>()[data::kSmallThe * width + i] = 1;
    wte.mutable_data<float>()[300 * width + i] = 2;
  }
  return tiny;
}

TEST(LastWords, EqualThoseByHandForEveryBatch) {
  const std::vector<std::string> passages = Passages();
  SequenceScore all;
  int64_t correct = 0, tokens = 0;
  for (const std::string& passage : passages) {
    const size_t space = passage.rfind(' ');
    std::vector<int32_t> ids = Encoded(passage.substr(0, space));
    const std::vector<int32_t> word = Encoded(passage.substr(space));
    ids.insert(ids.end(), word.begin(), word.end());
    const SequenceScore score = ScoreByHand(Tiny().model, ids, word.size());
    all.loss += score.loss;
    correct += score.most_likely;
    tokens += static_cast<int64_t>(word.size());
  }
  for (int64_t batch : {1, 3, 32}) {
    EvaluationProgress progress("passages", static_cast<int64_t>(passages.size()));
    const auto result = PredictLastWords(Subject(Tiny(), batch), passages, progress);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(result->loss, all.loss, 1e-5 * all.loss);
    EXPECT_EQ(result->tokens, tokens);
    EXPECT_EQ(result->accuracy.correct, correct);
    EXPECT_EQ(result->accuracy.examples, static_cast<int64_t>(passages.size()));
    EXPECT_EQ(result->accuracy.truncated, 0);
  }
}

TEST(LastWords, PaddingIsNeverTheMostLikely) {
  const auto tiny = ModelThatSaysThe();
  const std::vector<std::string> passages = {"one of the", "one of a", "many of the"};
  EvaluationProgress progress("passages", 6);
  EXPECT_EQ(PredictLastWords(Subject(*tiny), passages, progress)->accuracy.correct, 2);
  // Ten times " the": the lower-cased word need only occur in it.
  const std::vector<std::string> words = {"one of The", "one of he", "a cat"};
  EXPECT_EQ(ContinueGreedily(Subject(*tiny), words, progress)->correct, 2);
}

TEST(LastWords, LongPassagesKeepTheirEnd) {
  std::string text = "zero";
  for (int i = 1; i < 100; ++i) absl::StrAppend(&text, " word");
  const std::vector<int32_t> ids = Encoded(text);
  const SequenceScore expected =
      ScoreByHand(Tiny().model, std::vector<int32_t>(ids.end() - 201, ids.end()), 5);
  EvaluationProgress progress("passages", 1);
  const auto result = PredictLastWords(Subject(Tiny()), std::vector<std::string>{text}, progress);
  EXPECT_NEAR(result->loss, expected.loss, 1e-5);
  EXPECT_EQ(result->accuracy.truncated, 1);
  std::string odd = "a ";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&odd, "q", i % 10, "~");
  ExpectOneLine(
      PredictLastWords(Subject(Tiny()), std::vector<std::string>{"a b", odd}, progress).status(),
      {"file", "passage 2", "context of 200"});
}

TEST(LastWords, GreedyContinuationsAreThoseOfSampling) {
  std::vector<std::string> passages;
  int64_t expected = 0;
  for (const std::string& passage : Passages()) {
    const std::string context = passage.substr(0, passage.rfind(' '));
    std::string prompt = absl::StrCat("\n", context);
    for (const char* quote : {"\u201c", "\u201d"}) {
      prompt = absl::StrJoin(absl::StrSplit(prompt, quote), "\"");
    }
    const std::string continuation = LowerCased(Continuation(Tiny().model, prompt));
    // A piece of the continuation without a space, and a word that is none.
    std::string piece = continuation.substr(continuation.size() / 2, 3);
    std::erase(piece, ' ');
    for (const std::string& word : {piece, std::string("xyzzyx")}) {
      if (word.empty()) continue;
      passages.push_back(absl::StrCat(context, " ", word));
      expected += absl::StrContains(continuation, LowerCased(word));
    }
  }
  ASSERT_GT(expected, 2);
  for (int64_t batch : {1, 4}) {
    EvaluationProgress progress("passages", static_cast<int64_t>(passages.size()));
    const auto result = ContinueGreedily(Subject(Tiny(), batch), passages, progress);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->correct, expected);
    EXPECT_EQ(result->examples, static_cast<int64_t>(passages.size()));
  }
}

TEST(LastWords, GreedyContinuationNeedsRoom) {
  const TinyModel tiny({.context = 9, .vocabulary = kRows});
  EvaluationProgress progress("passages", 1);
  ExpectOneLine(ContinueGreedily(Subject(tiny), std::vector<std::string>{"a b"}, progress).status(),
                {"context of 9"});
}

ClozeQuestion Question(int number, const std::string& question) {
  ClozeQuestion result;
  result.context.fill(".");
  result.context[7] = absl::StrCat("Number ", number, " !");
  result.question = question;
  const char* names[] = {"cat", "dog",  "Underground", "Mr", "tea",
                         "a b", "Syme", "red",         "go", "house"};
  std::copy(std::begin(names), std::end(names), result.candidates.begin());
  return result;
}

std::string WithCandidate(std::string text, const std::string& candidate) {
  return absl::StrJoin(absl::StrSplit(text, "XXXXX"), candidate);
}

// The candidate chosen by the formula, for a model whose context is `context`.
size_t ChosenByHand(const models::LanguageModel& model, const ClozeQuestion& question,
                    bool official) {
  const auto context = static_cast<size_t>(model.config().context);
  const std::string before = absl::StrJoin(question.context, " ");
  const size_t space = question.question.find("XXXXX") == 0
                           ? std::string::npos
                           : question.question.rfind(' ', question.question.find("XXXXX"));
  const std::string given = space == std::string::npos
                                ? before
                                : absl::StrCat(before, " ", question.question.substr(0, space));
  const std::string rest = space == std::string::npos ? absl::StrCat(" ", question.question)
                                                      : question.question.substr(space);
  std::vector<std::pair<std::vector<int32_t>, size_t>> all;  // tokens, scored
  size_t longest = 0;
  for (const std::string& candidate : question.candidates) {
    std::vector<int32_t> ids, scored;
    if (official) {
      ids = {data::kSmallEndOfText};
      scored = Encoded(absl::StrCat(before, " ", WithCandidate(question.question, candidate)));
    } else {
      ids = Encoded(given);
      scored = Encoded(WithCandidate(rest, candidate));
    }
    ids.insert(ids.end(), scored.begin(), scored.end());
    longest = std::max(longest, ids.size());
    all.emplace_back(ids, scored.size());
  }
  const size_t excess = longest > context + 1 ? longest - context - 1 : 0;
  size_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < all.size(); ++i) {
    auto& [ids, scored] = all[i];
    const auto first = ids.begin() + (official ? 1 : 0);
    ids.erase(first, first + static_cast<std::ptrdiff_t>(excess));
    const double loss = ScoreByHand(model, ids, official ? scored - excess : scored).loss;
    if (loss < lowest) best = i;
    lowest = std::min(lowest, loss);
  }
  return best;
}

// With `right` the answers are those chosen by hand, otherwise those after them.
std::vector<ClozeQuestion> Questions(const models::LanguageModel& model, bool official,
                                     size_t wrong) {
  std::vector<ClozeQuestion> questions;
  const char* texts[] = {"The XXXXX sat on it .", "XXXXX said no .", "`` Oh , '' said un-XXXXX",
                         "A XXXXX is a XXXXX ."};
  for (int i = 0; i < 4; ++i) {
    ClozeQuestion question = Question(i, texts[i]);
    const size_t chosen = ChosenByHand(model, question, official);
    question.answer = questions.size() < wrong ? (chosen + 1) % 10 : chosen;
    questions.push_back(question);
  }
  return questions;
}

TEST(Cloze, ChoicesEqualThoseByHand) {
  const TinyModel shorter({.context = 64, .vocabulary = kRows});
  for (const TinyModel* tiny : {&Tiny(), &shorter}) {
    for (bool official : {false, true}) {
      const auto questions = Questions(tiny->model, official, /*wrong=*/1);
      for (int64_t batch : {1, 7, 64}) {
        EvaluationProgress progress("candidates", 40);
        const ZeroShotSubject subject = Subject(*tiny, batch);
        const auto result = official ? AnswerClozeOfficially(subject, questions, progress)
                                     : AnswerCloze(subject, questions, progress);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->examples, 4);
        EXPECT_EQ(result->correct, 3) << official << " " << batch;
        EXPECT_EQ(result->truncated, tiny == &shorter ? 4 : 0);
      }
    }
  }
}

TEST(Cloze, QuestionLongerThanTheContextIsOneLine) {
  const TinyModel tiny({.context = 30, .vocabulary = kRows});
  const std::vector<ClozeQuestion> questions = {
      Question(0, "XXXXX went on and on and on and on and on and on .")};
  EvaluationProgress progress("candidates", 10);
  ExpectOneLine(AnswerCloze(Subject(tiny), questions, progress).status(),
                {"file", "question 1", "context of 30"});
}

TEST(Accuracy, StandardError) {
  const Accuracy accuracy{.examples = 400, .correct = 100};
  EXPECT_DOUBLE_EQ(accuracy.Share(), 0.25);
  EXPECT_DOUBLE_EQ(accuracy.StandardError(), std::sqrt(0.25 * 0.75 / 400));
}

TEST(LowerCased, KnowsMoreThanAscii) {
  EXPECT_EQ(LowerCased("\u00c9COLE Stra\u00dfe \u0394"), "\u00e9cole stra\u00dfe \u03b4");
}

}  // namespace
}  // namespace tost::train
