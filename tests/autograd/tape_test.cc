#include "autograd/tape.h"

#include <pthread.h>

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/autograd/tiny_ops.h"

namespace tost {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tiny::GradientOf;
using tiny::LeafOf;
using tiny::Plus;
using tiny::Scaled;
using tiny::Times;
using tiny::Total;

TEST(Tape, ChainRule) {
  const Tensor x = LeafOf({1, 2, 3});
  Tape tape;
  const Tensor y = Times(x, x);
  tape.Backward(Total(Scaled(y, 5)));
  EXPECT_THAT(GradientOf(x), ElementsAre(10, 20, 30));
}

// f = x(xa) + (xx)a + x(xa) = 3x²a: every operand is used several times and in both places.
TEST(Tape, RepeatedOperandsAddUp) {
  const Tensor x = LeafOf({1}), a = LeafOf({1});
  Tape tape;
  const Tensor xa = Times(x, a);
  const Tensor f = Plus(Plus(Times(x, xa), Times(Times(x, x), a)), Times(x, xa));
  tape.Backward(f);
  EXPECT_THAT(GradientOf(x), ElementsAre(6));
  EXPECT_THAT(GradientOf(a), ElementsAre(3));
}

TEST(Tape, ATensorAddedToItselfGetsTwiceTheGradient) {
  const Tensor x = LeafOf({1, 2});
  Tape tape;
  const Tensor y = Scaled(x, 3);
  tape.Backward(Total(Plus(y, y)));
  EXPECT_THAT(GradientOf(x), ElementsAre(6, 6));
}

TEST(Tape, BackwardRunsNodesFromLastToFirst) {
  std::string order;
  auto traced = [&order](const Tensor& x, char name) {
    return Tape::Current()->Record(
        "traced", {x.grad()}, x.Detached(), [&order, name, x = SavedShape(x)](const Tensor& dy) {
          order += name;
          x.Gradient([&](Tensor& dx, bool add) {
            tiny::Write(dx, add, [&](int64_t i) { return tiny::At(dy, i); });
          });
        });
  };
  const Tensor x = LeafOf({1});
  Tape tape;
  const Tensor a = traced(x, 'a'), b = traced(x, 'b'), c = traced(a, 'c');
  tape.Backward(Plus(b, c));
  EXPECT_EQ(order, "cba");
}

TEST(Tape, ScaleMultipliesTheGradient) {
  const Tensor x = LeafOf({1, 2});
  Tape tape;
  tape.Backward(Total(x), 0.25);
  EXPECT_THAT(GradientOf(x), ElementsAre(0.25, 0.25));
}

TEST(Tape, BackwardFromIsAVectorJacobianProduct) {
  const Tensor x = LeafOf({1, 2});
  Tape tape;
  const Tensor y = Times(x, x);
  tape.BackwardFrom(y, Tensor::FromHost({2}, std::vector<double>{1, 10}));
  EXPECT_THAT(GradientOf(x), ElementsAre(2, 40));
}

TEST(Tape, LeavesGatherOverTapesUntilReset) {
  const Tensor x = LeafOf({3});
  for (int pass = 0; pass < 2; ++pass) {
    Tape tape;
    tape.Backward(Scaled(x, 2));
  }
  EXPECT_THAT(GradientOf(x), ElementsAre(4));
  x.grad()->Reset();
  EXPECT_FALSE(x.grad()->written());
  {
    Tape tape;
    tape.Backward(Scaled(x, 2));
  }
  EXPECT_THAT(GradientOf(x), ElementsAre(2));
}

TEST(Tape, NothingIsRecordedWithoutATape) {
  const Tensor x = LeafOf({1});
  EXPECT_EQ(Tape::Current(), nullptr);
  EXPECT_EQ(Scaled(x, 2).grad(), nullptr);
}

TEST(Tape, ConstantsAreNotRecorded) {
  const Tensor constant = Tensor::Scalar(2, DType::kFloat64);
  Tape tape;
  EXPECT_EQ(Times(constant, constant).grad(), nullptr);
  EXPECT_EQ(tape.node_count(), 0u);
}

TEST(Tape, TheInnermostTapeRecords) {
  const Tensor x = LeafOf({1});
  Tape outer;
  {
    Tape inner;
    EXPECT_EQ(Tape::Current(), &inner);
    Scaled(x, 2);
    EXPECT_EQ(inner.node_count(), 1u);
  }
  EXPECT_EQ(Tape::Current(), &outer);
  EXPECT_EQ(outer.node_count(), 0u);
}

TEST(Tape, NothingIsRecordedWhileBackwardRuns) {
  const Tensor x = LeafOf({1});
  bool recording = true;
  Tape tape;
  const Tensor y = tape.Record("watch", {x.grad()}, x.Detached(),
                               [&](const Tensor&) { recording = Tape::Current() != nullptr; });
  tape.Backward(y);
  EXPECT_FALSE(recording);
  EXPECT_EQ(Tape::Current(), &tape);
}

// e = (a + b)d with d = 1, twice on one kept graph.
TEST(Tape, AKeptGraphRunsAgainAndGradientsAdd) {
  const Tensor a = LeafOf({2}), b = LeafOf({3}), d = LeafOf({1});
  Tape tape;
  const Tensor e = Times(Plus(a, b), d);
  tape.Backward(e, 1, Tape::Graph::kKeep);
  tape.Backward(e, 1, Tape::Graph::kKeep);
  EXPECT_THAT(GradientOf(a), ElementsAre(2));
  EXPECT_THAT(GradientOf(b), ElementsAre(2));
  EXPECT_THAT(GradientOf(d), ElementsAre(10));
}

TEST(TapeDeathTest, AFreedGraphDoesNotRunAgain) {
  const Tensor x = LeafOf({1});
  Tape tape;
  const Tensor y = Scaled(x, 2);
  tape.Backward(y);
  EXPECT_DEATH(tape.Backward(y), "already called and has freed the graph");
  EXPECT_DEATH(Scaled(x, 2), "recording scaled on a tape that has already run backward");
}

TEST(TapeDeathTest, MisuseIsNamed) {
  const Tensor x = LeafOf({1, 2});
  Tape tape;
  const Tensor y = Scaled(x, 2);
  EXPECT_DEATH(tape.Backward(y), "Backward starts from one number, not from \\[2\\]");
  EXPECT_DEATH(tape.BackwardFrom(y, Tensor::Scalar(1, DType::kFloat64)),
               "gradient \\[\\] of a tensor \\[2\\]");
  EXPECT_DEATH(tape.BackwardFrom(x, y), "Backward must start from the result of an op");
  EXPECT_DEATH(x.grad()->value(), "no gradient has been written");
}

TEST(TapeDeathTest, WritingIntoASavedValueNamesTheOpAndTheShape) {
  const Tensor x = LeafOf({1, 2});
  Tape tape;
  Tensor y = Scaled(x, 2);
  const Tensor loss = Total(Times(y, y));
  y.mutable_data<double>()[0] = 7;
  EXPECT_DEATH(tape.Backward(loss),
               "a tensor of shape \\[2\\] that backward needs was written to after the op had "
               "used it \\(while running times\\)");
}

TEST(TapeDeathTest, TapesEndInReverseOrder) {
  EXPECT_DEATH(
      {
        auto first = std::make_unique<Tape>();
        auto second = std::make_unique<Tape>();
        first.reset();
      },
      "tapes end in the reverse order");
}

TEST(Tape, SavedTensorsDieAsTheTapeUnwinds) {
  const DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
  const Tensor x = LeafOf(std::vector<double>(1000, 1.0));
  x.grad()->Write(x.shape(),
                  [](Tensor& out, bool) { tiny::Write(out, false, [](int64_t) { return 0.0; }); });
  const int64_t before = cpu.Memory().live_bytes;
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = Times(y, y);
  EXPECT_GT(cpu.Memory().live_bytes, before + 9 * 8000);
  tape.Backward(Total(y));
  y = Tensor();
  EXPECT_EQ(cpu.Memory().live_bytes, before);
}

// Of a chain of additions, every gradient is the loss's own buffer handed down: no new memory.
TEST(Tape, PassedGradientsAreNotCopied) {
  const DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
  const Tensor x = LeafOf(std::vector<double>(1000, 1.0));
  const Tensor constant = x.Detached();
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = Plus(constant, y);
  const Tensor loss = Total(y);
  y = Tensor();
  RuntimeOf(Device::Cpu()).ResetPeakMemory();
  const int64_t before = cpu.Memory().live_bytes;
  tape.Backward(loss);
  EXPECT_THAT(GradientOf(x), testing::Each(1.0));
  // The gradient of the sum, the leaf's own, and one scalar seed; each at most an eighth larger.
  EXPECT_LE(cpu.Memory().peak_bytes - before, 2 * 9000 + 512);
}

TEST(Tape, GradientsAreNotHandedOnWhenTheCallerKeepsThem) {
  const Tensor x = LeafOf({1, 2});
  const Tensor constant = x.Detached();
  const Tensor dy = Tensor::FromHost({2}, std::vector<double>{3, 4});
  Tape tape;
  const Tensor y = Scaled(x, 1);
  const Tensor z = Plus(constant, y);
  tape.BackwardFrom(Plus(z, y), dy);
  EXPECT_THAT(GradientOf(x), ElementsAre(6, 8));
  EXPECT_THAT(dy.ToHost<double>(), ElementsAre(3, 4));
}

class LeafReady : public testing::Test {
 protected:
  // Names the leaves that `tape` announces, with the gradient they had at that moment.
  void Watch(Tape& tape, std::vector<std::pair<std::string, Tensor>> leaves) {
    tape.set_on_leaf_ready([this, leaves](Grad& grad) {
      for (const auto& [name, leaf] : leaves) {
        if (leaf.grad().get() != &grad) continue;
        const std::string value =
            grad.written() ? std::to_string(static_cast<int>(grad.value().Item())) : "none";
        events_.push_back(name + "=" + value);
      }
    });
  }
  std::vector<std::string> events_;
};

TEST_F(LeafReady, ComesInReverseOrderOfFirstUse) {
  const Tensor a = LeafOf({2}), b = LeafOf({3});
  Tape tape;
  Watch(tape, {{"a", a}, {"b", b}});
  const Tensor y = Times(Scaled(a, 5), b);
  ASSERT_EQ(tape.leaves().size(), 2u);
  EXPECT_EQ(tape.leaves()[0], a.grad());
  tape.Backward(y);
  EXPECT_THAT(events_, ElementsAre("b=10", "a=15"));
}

TEST_F(LeafReady, ASharedLeafIsReadyOnlyPastItsFirstUse) {
  const Tensor tied = LeafOf({2}), other = LeafOf({3});
  Tape tape;
  Watch(tape, {{"tied", tied}, {"other", other}});
  const Tensor first = Scaled(tied, 1);
  tape.Backward(Times(Times(first, other), tied));  // tied² · other
  EXPECT_THAT(events_, ElementsAre("other=4", "tied=12"));
}

TEST_F(LeafReady, ALeafOfAnUnusedBranchIsReadyToo) {
  const Tensor used = LeafOf({2}), unused = LeafOf({3});
  Tape tape;
  Watch(tape, {{"used", used}, {"unused", unused}});
  const Tensor y = Scaled(used, 4);
  Scaled(unused, 4);
  tape.Backward(y);
  EXPECT_THAT(events_, ElementsAre("unused=none", "used=4"));
}

TEST(LeavesOnlyTape, NotesLeavesAndKeepsNoNodes) {
  const Tensor a = LeafOf({2}), b = LeafOf({3});
  Tape tape(Tape::Kind::kLeavesOnly);
  const Tensor y = Times(Times(a, b), a);
  EXPECT_EQ(y.grad(), nullptr);
  EXPECT_EQ(tape.node_count(), 0u);
  EXPECT_THAT(tape.leaves(), ElementsAre(a.grad(), b.grad()));
}

TEST(LeavesOnlyTapeDeathTest, HasNoBackward) {
  const Tensor x = LeafOf({2});
  Tape tape(Tape::Kind::kLeavesOnly);
  EXPECT_DEATH(tape.Backward(Scaled(x, 2)), "a leaves-only tape has no graph");
}

TEST(Saved, ShapeOnlyKeepsNoMemory) {
  const DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
  const int64_t before = cpu.Memory().live_bytes;
  Tensor x = Tensor::Zeros({1000}, DType::kFloat32);
  const SavedShape saved(x);
  x = Tensor();
  EXPECT_EQ(cpu.Memory().live_bytes, before);
  EXPECT_EQ(saved.shape(), Shape{1000});
}

TEST(Saved, AnAbsentOperandWantsNothing) {
  const Saved absent{Tensor()};
  EXPECT_FALSE(absent.wants_gradient());
  EXPECT_FALSE(absent.value().defined());
  absent.Gradient([](Tensor&, bool) { FAIL(); });
}

// Runs `body` on a thread whose stack holds `stack_bytes`.
void OnSmallStack(size_t stack_bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* argument) -> void* {
                  (*static_cast<std::function<void()>*>(argument))();
                  return nullptr;
                },
                &body),
            0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

constexpr size_t kSmallStack = 256 * 1024;
constexpr int kManyNodes = 1'000'000;

TEST(DeepGraph, AMillionNodesRunBackwardOnASmallStack) {
  const Tensor x = LeafOf({1});
  OnSmallStack(kSmallStack, [&] {
    Tape tape;
    Tensor y = x;
    for (int i = 0; i < kManyNodes; ++i) y = Scaled(y, i % 2 == 0 ? 2 : 0.5);
    EXPECT_EQ(tape.node_count(), static_cast<size_t>(kManyNodes));
    tape.Backward(y);
    EXPECT_EQ(tape.node_count(), 0u);
  });
  EXPECT_THAT(GradientOf(x), ElementsAre(1));
}

// Each node here also holds the value that the one before it made.
TEST(DeepGraph, AMillionNodesAreFreedUnusedOnASmallStack) {
  const Tensor x = LeafOf({1});
  const int64_t before = RuntimeOf(Device::Cpu()).Memory().live_bytes;
  OnSmallStack(kSmallStack, [&] {
    Tape tape;
    Tensor y = x;
    for (int i = 0; i < kManyNodes; ++i) y = Times(y, y);
  });
  EXPECT_EQ(RuntimeOf(Device::Cpu()).Memory().live_bytes, before);
}

}  // namespace
}  // namespace tost
