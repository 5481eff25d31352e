// How often the kernels pass over their tensors, counted access by access on the emulated device:
// as often as roofline/ says. Exactly, since a byte too many is a pass nobody planned.
#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/optimizer_kernels.h"
#include "ops/residual.h"
#include "ops/softmax.h"
#include "ops/tssa.h"
#include "roofline/traffic.h"
#include "tests/cuda/device_test.h"
#include "tests/simt/emulator.h"

namespace tost {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

int64_t BytesOf(const Tensor& x) { return x.numel() * static_cast<int64_t>(SizeOf(x.dtype())); }

// How often the kernels of `run` read and write each byte of a tensor.
struct Passes {
  double reads = 0, writes = 0;
  friend bool operator==(const Passes&, const Passes&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Passes& passes) {
    return out << passes.reads << " reads, " << passes.writes << " writes";
  }
};
constexpr Passes kRead{.reads = 1}, kWritten{.writes = 1}, kUpdated{.reads = 1, .writes = 1};

Passes PassesOver(const Tensor& x) {
  const simt::AccessCount count = simt::AccessesTo(x.raw());
  const auto bytes = static_cast<double>(BytesOf(x));
  return {static_cast<double>(count.read) / bytes, static_cast<double>(count.written) / bytes};
}

void Counted(const std::function<void()>& run) {
  RuntimeOf(CudaDevice()).Synchronize();
  simt::ResetAccessCounts();
  run();
  RuntimeOf(CudaDevice()).Synchronize();
}

Tensor OnDevice(DType dtype, const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return OnCuda(As(dtype, RandomTensor(shape, seed, low, high)));
}

// An op's first input x, its result y and their gradients.
struct OpPasses {
  Passes forward_x, forward_y, backward_x, backward_y, dy, dx;
};
OpPasses PassesOf(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.dtype() == DType::kInt32 ? input : Leaf(input));
  }
  OpPasses passes;
  Tape tape;
  Tensor y;
  Counted([&] { y = fn(leaves); });
  passes.forward_x = PassesOver(leaves[0]);
  passes.forward_y = PassesOver(y);
  const Tensor dy = OnDevice(y.dtype(), y.shape(), 9);
  Counted([&] { tape.BackwardFrom(y, dy); });
  passes.backward_x = PassesOver(leaves[0]);
  passes.backward_y = PassesOver(y);
  passes.dy = PassesOver(dy);
  if (leaves[0].grad() != nullptr) passes.dx = PassesOver(leaves[0].grad()->value());
  return passes;
}

constexpr int64_t kBatch = 2, kTokens = 70, kHeads = 4, kWidth = 64;

Tensor TokensOf(DType dtype) { return OnDevice(dtype, {kBatch, kTokens, kWidth}, 1); }
Tensor Temperatures() { return OnDevice(DType::kFloat32, {kHeads, 1}, 2, 0.2, 2); }
Tensor Vector(uint64_t seed) { return OnDevice(DType::kFloat32, {kWidth}, seed); }

void ExpectTssaPasses(const OpPasses& passes, const roofline::TssaPasses& forward,
                      const roofline::TssaPasses& backward) {
  const auto w_accesses = [](const roofline::TssaPasses& of) {
    return Passes{.reads = static_cast<double>(of.w_reads + of.w_again)};
  };
  EXPECT_EQ(passes.forward_x, w_accesses(forward));
  EXPECT_EQ(passes.forward_y, kWritten);
  EXPECT_EQ(passes.backward_x, w_accesses(backward));
  EXPECT_EQ(passes.dy, (Passes{.reads = static_cast<double>(backward.dy_reads)}));
  EXPECT_EQ(passes.dx, kWritten);
}

TEST(Traffic, Tssa) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    ExpectTssaPasses(PassesOf([](const auto& in) { return ops::Tssa(in[0], in[1]); },
                              {TokensOf(dtype), Temperatures()}),
                     roofline::kTssaPasses, roofline::kTssaBackwardPasses);
  }
}

TEST(Traffic, UnnormalizedTssa) {
  const OpPasses passes =
      PassesOf([](const auto& in) { return ops::Tssa(in[0], in[1], {}, {.normalized = false}); },
               {TokensOf(DType::kFloat32), Temperatures()});
  ExpectTssaPasses(passes, roofline::kUnnormalizedTssaPasses, roofline::kTssaBackwardPasses);
}

TEST(Traffic, CausalTssa) {
  const Tensor bias = OnDevice(DType::kFloat32, {kHeads, kTokens, 1}, 3, -0.1, 0.1);
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    ExpectTssaPasses(PassesOf([](const auto& in) { return ops::CausalTssa(in[0], in[1], in[2]); },
                              {TokensOf(dtype), Temperatures(), bias}),
                     roofline::kCausalTssaPasses, roofline::kCausalTssaBackwardPasses);
  }
}

TEST(Traffic, LayerNorm) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    const OpPasses passes =
        PassesOf([](const auto& in) { return ops::LayerNorm(in[0], in[1], in[2], 1e-5); },
                 {TokensOf(dtype), Vector(2), Vector(3)});
    EXPECT_EQ(passes.forward_x, kRead);
    EXPECT_EQ(passes.forward_y, kWritten);
    EXPECT_EQ(passes.backward_x, kRead);
    EXPECT_EQ(passes.dy, kRead);
    EXPECT_EQ(passes.dx, kWritten);
  }
}

TEST(Traffic, ScaledResidual) {
  const OpPasses passes =
      PassesOf([](const auto& in) { return ops::ScaledResidual(in[1], in[2], in[0]); },
               {TokensOf(DType::kFloat32), TokensOf(DType::kFloat32), Vector(2)});
  EXPECT_EQ(passes.forward_x, kRead);
  EXPECT_EQ(passes.forward_y, kWritten);
  EXPECT_EQ(passes.backward_x, kRead);
  EXPECT_EQ(passes.dx, kWritten);
}

// A row's elements are read once for its sum of exponentials and once, from cache, for the result.
TEST(Traffic, Softmax) {
  const OpPasses passes =
      PassesOf([](const auto& in) { return ops::Softmax(in[0], -1); }, {TokensOf(DType::kFloat32)});
  EXPECT_EQ(passes.forward_x, Passes{.reads = 2});
  EXPECT_EQ(passes.forward_y, kWritten);
  EXPECT_EQ(passes.backward_y, Passes{.reads = 2});
  EXPECT_EQ(passes.dy, Passes{.reads = 2});
  EXPECT_EQ(passes.dx, kWritten);
}

// A row of the table and one of the positions for each token.
TEST(Traffic, Embedding) {
  constexpr int32_t kRows = 9;
  std::vector<int32_t> ids(2 * 20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i) % (kRows - 1);
  const Tensor tokens = OnCuda(Tensor::FromHost<int32_t>({2, 20}, ids));
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    const Tensor table = OnDevice(dtype, {kRows, kWidth}, 1);
    const Tensor positions = OnDevice(dtype, {20, kWidth}, 2);
    Tensor y;
    Counted([&] { y = ops::Embedding(tokens, table, positions); });
    EXPECT_EQ(simt::AccessesTo(table.raw()).read, BytesOf(y));
    EXPECT_EQ(simt::AccessesTo(positions.raw()).read, BytesOf(y));
    EXPECT_EQ(PassesOver(y), kWritten);
    const roofline::Traffic claimed = roofline::EmbeddingTraffic(tokens, table, positions, 0, y);
    EXPECT_EQ(claimed.bytes_read, BytesOf(tokens) + 2 * BytesOf(y));
    EXPECT_EQ(claimed.bytes_written, BytesOf(y));
  }
}

// Rows of the table's gradient whose ids occur are added to, once; here all do.
TEST(Traffic, EmbeddingBackward) {
  constexpr int32_t kRows = 9;
  std::vector<int32_t> ids(20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i) % kRows;
  const Tensor tokens = OnCuda(Tensor::FromHost<int32_t>({20}, ids));
  const Tensor dy = OnDevice(DType::kBFloat16, {20, kWidth}, 1);
  Tensor gradient = OnDevice(DType::kFloat32, {kRows, kWidth}, 2);
  const auto& backward = ops::embedding_table_backward_kernel.On(DeviceType::kCuda);
  for (const bool add : {false, true}) {
    SCOPED_TRACE(add);
    Counted([&] { backward(tokens, dy, add, gradient); });
    const simt::AccessCount counted = simt::AccessesTo(gradient.raw());
    EXPECT_EQ(PassesOver(dy), kRead);
    EXPECT_EQ(counted.read, BytesOf(gradient));
    EXPECT_EQ(counted.written, BytesOf(gradient));
    const roofline::Traffic claimed =
        roofline::EmbeddingTableBackwardTraffic(tokens, dy, add, gradient);
    EXPECT_EQ(claimed.bytes_read, BytesOf(tokens) + BytesOf(dy) + counted.read);
    // Counted are kernels' accesses; the zeroing is the runtime's.
    EXPECT_EQ(claimed.bytes_written, counted.written + (add ? 0 : BytesOf(gradient)));
  }
}

TEST(Traffic, CrossEntropy) {
  std::vector<int32_t> ids(20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const Tensor targets = OnCuda(Tensor::FromHost<int32_t>({20}, ids));
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    const OpPasses passes = PassesOf(
        [](const auto& in) {
          return ops::CrossEntropy(in[0], in[1], {.reduction = ops::Reduction::kSum});
        },
        {OnDevice(dtype, {20, 256}, 1), targets});
    // And the target's logit by itself.
    EXPECT_EQ(passes.forward_x, Passes{.reads = 1 + 1 / 256.0});
    EXPECT_EQ(passes.backward_x, kRead);
    EXPECT_EQ(passes.dx, kWritten);
  }
}

TEST(Traffic, LinearGelu) {
  const Tensor x = OnDevice(DType::kBFloat16, {40, 16}, 1);
  const Tensor w = OnDevice(DType::kBFloat16, {24, 16}, 2);
  Tensor y;
  Counted([&] { y = ops::LinearGelu(x, w, OnDevice(DType::kFloat32, {24}, 3)); });
  EXPECT_EQ(PassesOver(y), kWritten);
}

TEST(Traffic, Optimizers) {
  const auto numbers = [](DType dtype, uint64_t seed) { return OnDevice(dtype, {5000}, seed); };
  const Tensor gradient = numbers(DType::kFloat32, 1);
  Tensor value = numbers(DType::kFloat32, 2), first = numbers(DType::kFloat32, 3);
  Tensor second = numbers(DType::kFloat32, 4), average = numbers(DType::kFloat32, 5);
  Tensor compute = numbers(DType::kBFloat16, 6);
  Tensor squares = OnCuda(Tensor::FromHost<double>({}, {0.0}));
  Tensor scalars = ops::NewUpdateScalars(CudaDevice());
  Counted([&] { ops::SquaredNorm(gradient, /*add=*/false, squares); });
  EXPECT_EQ(PassesOver(gradient), kRead);
  ops::BeginUpdate({}, squares, scalars);
  Counted([&] { ops::AdamW({}, scalars, gradient, value, first, second, compute); });
  EXPECT_EQ(PassesOver(gradient), kRead);
  for (const Tensor& updated : {value, first, second}) EXPECT_EQ(PassesOver(updated), kUpdated);
  EXPECT_EQ(PassesOver(compute), kWritten);
  Counted([&] { ops::ExponentialMovingAverage(0.9, scalars, value, average); });
  EXPECT_EQ(PassesOver(value), kRead);
  EXPECT_EQ(PassesOver(average), kUpdated);
}

}  // namespace
}  // namespace tost
