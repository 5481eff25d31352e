#include "autograd/base/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

template <class Action>
std::string StandardErrorOf(Action&& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

class Log : public testing::Test {
 protected:
  void TearDown() override { SetLogRank(0, 1); }
};

TEST_F(Log, OneLineWithTheTime) {
  const std::string text = StandardErrorOf([] { LogInfo("loss 1.5"); });
  EXPECT_THAT(text, testing::MatchesRegex("\\[[0-9]+:[0-9]+:[0-9]+\\] loss 1.5\n"));
}

TEST_F(Log, WarningsSaySo) {
  EXPECT_THAT(StandardErrorOf([] { LogWarning("disk full"); }),
              testing::EndsWith("] warning: disk full\n"));
}

TEST_F(Log, OtherRanksOnlyWarn) {
  SetLogRank(2, 4);
  EXPECT_EQ(StandardErrorOf([] { LogInfo("loss 1.5"); }), "");
  EXPECT_THAT(StandardErrorOf([] { LogWarning("disk full"); }),
              testing::HasSubstr(" rank 2] warning: disk full\n"));
}

}  // namespace
}  // namespace tost
