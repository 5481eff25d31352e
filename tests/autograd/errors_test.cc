#include "autograd/base/errors.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<int> Half(int number) {
  if (number % 2 != 0) return absl::InvalidArgumentError("odd");
  return number / 2;
}

absl::StatusOr<int> Quarter(int number) {
  TOST_ASSIGN_OR_RETURN(const int half, Half(number));
  TOST_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status Even(int number) {
  TOST_RETURN_IF_ERROR(Half(number).status());
  return absl::OkStatus();
}

TEST(Check, PassingCheckEvaluatesItsConditionOnceAndItsMessageNever) {
  int conditions = 0, messages = 0;
  auto message = [&] { return ++messages; };
  TOST_CHECK(++conditions == 1) << message();
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(messages, 0);
}

TEST(Check, IsOneStatementInAnUnbracedIf) {
  bool other_branch = false;
  if (Half(3).ok())
    TOST_CHECK(false) << "not reached";
  else
    other_branch = true;
  EXPECT_TRUE(other_branch);
}

TEST(CheckDeathTest, PrintsPlaceConditionMessageAndAsksForAReport) {
  EXPECT_DEATH(TOST_CHECK(1 > 2) << "numbers are " << 1 << " and " << 2,
               "internal error: .*errors_test.cc:[0-9]+: 1 > 2: numbers are 1 and 2\n"
               "This is a defect of tost; please report it with: the command you ran");
}

TEST(CheckDeathTest, AsksForTheReportThatMainHasSet) {
  const auto fail = [] {
    SetFailureReport("tost 9.9 (abc), tost train");
    TOST_CHECK(false) << "on purpose";
  };
  EXPECT_DEATH(fail(), "please report it with: tost 9\\.9 \\(abc\\), tost train");
}

TEST(CheckDeathTest, ComparisonsPrintBothValues) {
  EXPECT_DEATH(TOST_CHECK_EQ(3, 4) << "widths", "3 against 4: widths");
  EXPECT_DEATH(TOST_CHECK_LT(5, 5) << "index", "5 against 5: index");
  EXPECT_DEATH(TOST_CHECK_LE(6, 5) << "bound", "6 against 5: bound");
}

TEST(CheckDeathTest, NamesTheInnermostRunningOp) {
  EXPECT_DEATH(
      {
        const OpScope outer("softmax");
        { const OpScope inner("matmul"); }
        TOST_CHECK(false) << "rows";
      },
      "rows \\(while running softmax\\)");
}

TEST(CheckDeathTest, FailureHookSeesTheMessageBeforeTheAbort) {
  EXPECT_DEATH(
      {
        SetFailureHook(
            [](const char* message) { std::fprintf(stderr, "hook saw: %s\n", message); });
        TOST_CHECK(false) << "lost";
      },
      "hook saw: internal error: .*lost");
}

TEST(CheckDeathTest, StatusMacrosPrintTheStatusMessage) {
  EXPECT_DEATH(TOST_CHECK_OK(absl::NotFoundError("no such tensor")), "no such tensor");
  EXPECT_DEATH(TOST_CHECK_VALUE(Half(3)), "errors_test.cc:[0-9]+: odd");
}

TEST(Status, CheckValueHandsOutTheValue) { EXPECT_EQ(TOST_CHECK_VALUE(Half(8)), 4); }

TEST(Status, AssignOrReturnPassesValuesAndErrors) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_THAT(std::string(Quarter(6).status().message()), HasSubstr("odd"));
}

TEST(Status, ReturnIfErrorPassesErrorsOnly) {
  EXPECT_TRUE(Even(2).ok());
  EXPECT_EQ(Even(1).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tost
