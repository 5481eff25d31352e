#include "autograd/parameter.h"
#include "autograd/recompute.h"
#include "autograd/gradcheck.h"
#include "autograd/base/philox.h"
#include "gtest/gtest.h"
#include "autograd/base/log.h"
namespace tost {
TEST(Philox, KnownAnswer) {
  Philox4 r = Philox({{0, 0, 0, 0}}, 0, 0);
  EXPECT_EQ(r.word[0], 0x6627e8d5u);
}
}
