#include "autograd/recompute.h"

#include <string>
#include <vector>

#include "autograd/base/philox.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/autograd/tiny_ops.h"

namespace tost {
namespace {

using ::testing::ElementsAre;
using tiny::GradientOf;
using tiny::LeafOf;
using tiny::Plus;
using tiny::Scaled;
using tiny::Times;
using tiny::Total;

struct Nothing {};

// block(x) = w·x·x
Tensor Block(const Tensor& x, const Tensor& w) { return Times(Times(x, x), w); }

// A block that draws one random factor from its state.
Tensor Noisy(const Tensor& x, RandomStream& random) {
  return Scaled(x, static_cast<double>(Uniform(random.Next(), 0, 0)) + 1);
}

TEST(Recompute, GivesTheValueAndTheGradientsOfThePlainBlock) {
  const Tensor w = LeafOf({2, 3});
  Nothing state;
  auto block = [w](const Tensor& x, Nothing&) { return Block(x, w); };
  std::vector<double> values[2], dx[2], dw[2];
  for (int recompute = 0; recompute < 2; ++recompute) {
    const Tensor x = LeafOf({5, 7});
    w.grad()->Reset();
    Tape tape;
    const Tensor input = Scaled(x, 0.5);
    const Tensor y = recompute == 1 ? Recompute(block, input, state) : Block(input, w);
    values[recompute] = y.ToHost<double>();
    tape.Backward(Total(Times(y, y)));
    dx[recompute] = GradientOf(x);
    dw[recompute] = GradientOf(w);
  }
  EXPECT_EQ(values[1], values[0]);
  EXPECT_EQ(dx[1], dx[0]);
  EXPECT_EQ(dw[1], dw[0]);
}

TEST(Recompute, RecordsOneNodeAndKeepsOnlyTheInput) {
  const Tensor w = LeafOf(std::vector<double>(1000, 1.0));
  const Tensor x = LeafOf(std::vector<double>(1000, 2.0));
  Nothing state;
  Tape tape;
  const int64_t before = RuntimeOf(Device::Cpu()).Memory().live_bytes;
  const Tensor y = Recompute([w](const Tensor& in, Nothing&) { return Block(in, w); }, x, state);
  EXPECT_EQ(tape.node_count(), 1u);
  // The output alone is new: at most an eighth above its 8,000 bytes.
  EXPECT_LE(RuntimeOf(Device::Cpu()).Memory().live_bytes - before, 9000);
}

TEST(Recompute, WithoutATapeIsThePlainBlock) {
  const Tensor w = LeafOf({2});
  int runs = 0;
  Nothing state;
  const Tensor y = Recompute(
      [w, &runs](const Tensor& x, Nothing&) {
        ++runs;
        return Block(x, w);
      },
      LeafOf({3}), state);
  EXPECT_EQ(y.Item(), 18);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(y.grad(), nullptr);
}

TEST(Recompute, ReplaysItsDrawsAndAdvancesTheCallersStream) {
  double factors[2];
  for (int recompute = 0; recompute < 2; ++recompute) {
    const Tensor x = LeafOf({1});
    RandomStream random(/*seed=*/1, /*step=*/2);
    Tape tape;
    Tensor y = x;
    for (int block = 0; block < 3; ++block) {
      y = recompute == 1 ? Recompute(Noisy, y, random) : Noisy(y, random);
    }
    EXPECT_EQ(random.Next().draw, 3u);
    tape.Backward(y);
    factors[recompute] = GradientOf(x)[0];
    EXPECT_EQ(factors[recompute], y.Item());  // y is linear in x = 1
  }
  EXPECT_EQ(factors[1], factors[0]);
}

TEST(Recompute, NestsAndAnnouncesTiedLeavesOnce) {
  const Tensor tied = LeafOf({2}), inner_only = LeafOf({3}), x = LeafOf({1});
  std::vector<std::string> events;
  Tape tape;
  tape.set_on_leaf_ready([&](Grad& grad) {
    const char* name = &grad == tied.grad().get() ? "tied"
                       : &grad == x.grad().get()  ? "x"
                                                  : "inner";
    events.push_back(std::string(name) + "=" +
                     std::to_string(static_cast<int>(grad.value().Item())));
  });
  Nothing state;
  auto inner = [=](const Tensor& in, Nothing&) { return Times(Times(in, inner_only), tied); };
  auto outer = [=](const Tensor& in, Nothing& nothing) {
    return Recompute(inner, Recompute(inner, in, nothing), nothing);
  };
  const Tensor first = Times(x, tied);
  const Tensor y = Times(Recompute(outer, first, state), tied);  // x · tied⁴ · inner²
  EXPECT_EQ(y.Item(), 144);
  tape.Backward(y);
  EXPECT_THAT(GradientOf(tied), ElementsAre(288));
  EXPECT_THAT(GradientOf(inner_only), ElementsAre(96));
  EXPECT_THAT(GradientOf(x), ElementsAre(144));
  EXPECT_THAT(events, ElementsAre("inner=96", "x=144", "tied=288"));
}

TEST(Recompute, AConstantInputIsFine) {
  const Tensor w = LeafOf({2});
  Nothing state;
  Tape tape;
  const Tensor y = Recompute([w](const Tensor& x, Nothing&) { return Block(x, w); },
                             Tensor::FromHost({1}, std::vector<double>{3}), state);
  tape.Backward(y);
  EXPECT_THAT(GradientOf(w), ElementsAre(9));
}

}  // namespace
}  // namespace tost
