// Bytes and FLOPs of operators, worked out by hand.
#include "roofline/traffic.h"

#include <cstdint>
#include <map>
#include <string>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/tssa.h"
#include "roofline/counting_device.h"

namespace tost::roofline {
namespace {

Tensor On(Shape shape, DType dtype) { return Tensor::Empty(shape, dtype, CountingDevice()); }
Tensor LeafOn(Shape shape, DType dtype) { return Leaf(On(shape, dtype)); }

// The launches since the last call, added up by kernel.
std::map<std::string, Traffic> Taken() {
  std::map<std::string, Traffic> by_kernel;
  for (const Launch& launch : TakeLaunches()) by_kernel[launch.kernel] += launch.traffic;
  return by_kernel;
}

TEST(Traffic, OfALinearLayer) {
  // x [30, 8], w [5, 8]: 2·30·8·5 FLOPs for y, for dx and for dw.
  constexpr int64_t kX = 30 * 8 * 2, kW = 5 * 8 * 2, kY = 30 * 5 * 2;
  const Tensor x = LeafOn({3, 10, 8}, DType::kBFloat16);
  const Tensor w = LeafOn({5, 8}, DType::kBFloat16), b = LeafOn({5}, DType::kFloat32);
  Taken();
  Tape tape;
  const Tensor y = ops::Linear(x, w, b);
  auto forward = Taken();
  EXPECT_EQ(forward["linear: product"],
            (Traffic{.bytes_read = kX + kW, .bytes_written = kY, .bfloat16_products = 2400}));
  EXPECT_EQ(forward["linear: bias"],
            (Traffic{.bytes_read = kY + 20, .bytes_written = kY, .vector_flops = 150}));
  EXPECT_EQ(forward.size(), 2u);

  tape.BackwardFrom(y, On({3, 10, 5}, DType::kBFloat16));
  auto backward = Taken();
  EXPECT_EQ(backward["gemm"], (Traffic{.bytes_read = kY + kW + kY + kX,
                                       .bytes_written = kX + kW,
                                       .bfloat16_products = 4800}));
  EXPECT_EQ(backward["sum_rows"],
            (Traffic{.bytes_read = kY, .bytes_written = 20, .vector_flops = 150}));
}

TEST(Traffic, OfALinearLayerWithGelu) {
  const Tensor b = LeafOn({5}, DType::kFloat32);
  const auto launches = [&](DType dtype) {
    const Tensor x = LeafOn({30, 8}, dtype), w = LeafOn({5, 8}, dtype);
    Taken();
    ops::LinearGelu(x, w, b);
    return Taken();
  };
  // A float32 bias joins the product; GELU reads u and writes y.
  auto float32 = launches(DType::kFloat32);
  EXPECT_EQ(
      float32["linear_gelu: product"],
      (Traffic{.bytes_read = 4 * (240 + 40 + 5), .bytes_written = 600, .float32_products = 2400}));
  EXPECT_EQ(float32["linear_gelu: GELU"],
            (Traffic{.bytes_read = 600, .bytes_written = 600, .vector_flops = 900}));
  // A bfloat16 product leaves it to the pass after it, which writes u once more.
  EXPECT_EQ(launches(DType::kBFloat16)["linear_gelu: GELU"],
            (Traffic{.bytes_read = 300 + 20, .bytes_written = 600, .vector_flops = 900}));
}

TEST(Traffic, AProductThatAddsReadsItsResult) {
  const Tensor a = On({4, 6}, DType::kFloat32), b = On({4, 9}, DType::kFloat32);
  const Tensor c = On({6, 9}, DType::kFloat32);
  EXPECT_EQ(GemmTraffic({.transpose_a = true, .add = true}, a, b, c),
            (Traffic{.bytes_read = 4 * (24 + 36 + 54),
                     .bytes_written = 4 * 54,
                     .float32_products = 2 * 6 * 9 * 4}));
}

TEST(Traffic, ElementByElement) {
  const Tensor x = LeafOn({7, 5}, DType::kFloat32), row = LeafOn({5}, DType::kFloat32);
  Taken();
  Tape tape;
  const Tensor y = x * row;
  EXPECT_EQ(Taken()["multiply"],
            (Traffic{.bytes_read = 140 + 20, .bytes_written = 140, .vector_flops = 35}));
  tape.BackwardFrom(y, On({7, 5}, DType::kFloat32));
  // dx reads row and dy, the other side x and dy; its sum over the rows is a reduction.
  EXPECT_EQ(
      Taken()["multiply backward"],
      (Traffic{.bytes_read = 140 + 20 + 140 + 140, .bytes_written = 280, .vector_flops = 140}));
}

TEST(Traffic, AnOperandGivenTwiceIsReadOnce) {
  const Tensor x = On({6}, DType::kFloat32);
  Taken();
  x* x;
  EXPECT_EQ(Taken()["multiply"].bytes_read, 24);
}

TEST(Traffic, FillsAndCopiesOnTheDevice) {
  Taken();
  const Tensor zeros = Tensor::Zeros({10}, DType::kFloat32, CountingDevice());
  EXPECT_EQ(Taken()["fill"], (Traffic{.bytes_written = 40}));
  EXPECT_EQ(zeros.ToHost(), std::vector<float>(10, 0.0f));
  EXPECT_TRUE(Taken().empty());
}

TEST(Traffic, OfAnEmbedding) {
  const Tensor ids = On({2, 3}, DType::kInt32), table = LeafOn({50, 4}, DType::kFloat32);
  const Tensor places = LeafOn({9, 4}, DType::kFloat32);
  Taken();
  Tape tape;
  const Tensor y = ops::Embedding(ids, table, places);
  // Six rows of the table and as many of the positions.
  EXPECT_EQ(Taken()["embedding"],
            (Traffic{.bytes_read = 24 + 96 + 96, .bytes_written = 96, .vector_flops = 24}));
  tape.BackwardFrom(y, On({2, 3, 4}, DType::kFloat32));
  EXPECT_EQ(Taken()["embedding_table_backward"],
            (Traffic{.bytes_read = 24 + 96 + 96, .bytes_written = 800 + 96, .vector_flops = 24}));
}

// Two sequences of 40 tokens (two chunks), 3 heads of 4 channels, bfloat16.
struct TssaBytes {
  static constexpr int64_t kW = 2 * 40 * 12 * 2;
  static constexpr int64_t kMemberships = 2 * 40 * 3 * 4;
  static constexpr int64_t kChunkChannels = 2 * 2 * 12 * 4, kChunkHeads = 2 * 2 * 3 * 4;
  static constexpr int64_t kChannels = 2 * 12 * 4, kHeads = 2 * 3 * 4;
  static constexpr int64_t kTemp = 3 * 4, kBias = 3 * 40 * 4;
};

TEST(Traffic, OfTssa) {
  using B = TssaBytes;
  const Tensor w = LeafOn({2, 40, 12}, DType::kBFloat16), temp = LeafOn({3, 1}, DType::kFloat32);
  Taken();
  Tape tape;
  const Tensor y = ops::Tssa(w, temp);
  EXPECT_EQ(Taken()["tssa"], (Traffic{.bytes_read = 3 * B::kW + B::kMemberships + B::kTemp +
                                                    4 * B::kChunkChannels + 2 * B::kChunkHeads,
                                      .bytes_written = B::kW + B::kMemberships +
                                                       2 * (B::kChunkChannels + B::kChannels) +
                                                       B::kChunkHeads + B::kHeads,
                                      .vector_flops = 12 * 960 + 5 * 240}));
  tape.BackwardFrom(y, On({2, 40, 12}, DType::kBFloat16));
  const Traffic backward = Taken()["tssa_backward"];
  // Five readings of data of the size of w and one writing, but for small sums.
  EXPECT_EQ(backward.bytes_read, 5 * B::kW + 2 * B::kMemberships + B::kTemp +
                                     6 * B::kChunkChannels + 4 * B::kChunkHeads);
  EXPECT_EQ(backward.bytes_written,
            B::kW + B::kMemberships + B::kTemp +
                2 * (B::kChunkChannels + B::kChannels + B::kChunkHeads + B::kHeads));
}

TEST(Traffic, OfCausalTssa) {
  using B = TssaBytes;
  const Tensor w = LeafOn({2, 40, 12}, DType::kBFloat16), temp = LeafOn({3, 1}, DType::kFloat32);
  const Tensor bias = LeafOn({3, 40, 1}, DType::kFloat32);
  Taken();
  Tape tape;
  const Tensor y = ops::CausalTssa(w, temp, bias);
  constexpr int64_t kSums = 4 * B::kChunkChannels + 2 * B::kChunkHeads;
  EXPECT_EQ(Taken()["causal_tssa"],
            (Traffic{.bytes_read = 3 * B::kW + B::kMemberships + B::kTemp + B::kBias + kSums,
                     .bytes_written = B::kW + B::kMemberships + kSums,
                     .vector_flops = 13 * 960 + 5 * 240}));
  tape.BackwardFrom(y, On({2, 40, 12}, DType::kBFloat16));
  EXPECT_EQ(Taken()["causal_tssa_backward"],
            (Traffic{.bytes_read = 5 * B::kW + 5 * B::kMemberships + B::kTemp + B::kBias + kSums +
                                   6 * B::kChunkChannels + 3 * B::kChunkHeads,
                     .bytes_written = B::kW + B::kMemberships + B::kTemp + B::kBias + kSums,
                     .vector_flops = 33 * 960 + 5 * 240}));
}

TEST(Traffic, OfAttention) {
  // 130 tokens are three tiles of 64 queries; with a causal mask they see 64, 128 and 130 keys.
  const Tensor qkv = On({1, 130, 24}, DType::kFloat32), y = On({1, 130, 8}, DType::kFloat32);
  const Tensor log_sum = On({1, 2, 130}, DType::kFloat32);
  const Traffic whole = AttentionTraffic({.heads = 2}, qkv, y, log_sum);
  EXPECT_EQ(whole.bytes_read, 8 * 4 * (130 + 2 * 3 * 130));
  EXPECT_EQ(whole.bytes_written, 4 * (130 * 8 + 2 * 130));
  EXPECT_EQ(whole.vector_flops, 130 * 130 * (4 * 8 + 5 * 2));
  const Traffic causal = AttentionTraffic({.heads = 2, .causal = true}, qkv, y, log_sum);
  EXPECT_EQ(causal.bytes_read, 8 * 4 * (130 + 2 * (64 + 128 + 130)));
  EXPECT_EQ(causal.vector_flops, 130 * 131 / 2 * (4 * 8 + 5 * 2));
}

TEST(Traffic, OfTheVocabularyProjection) {
  const int64_t vocabulary = ops::kDeviceLossChunk / 4;  // chunks of four rows
  const Tensor x = LeafOn({10, 8}, DType::kBFloat16), w = LeafOn({vocabulary, 8}, DType::kBFloat16);
  const Tensor targets = On({10}, DType::kInt32);
  Taken();
  Tape tape;
  ops::ProjectedCrossEntropy(x, w, targets);
  auto launches = Taken();
  const int64_t products = 2 * 10 * 8 * vocabulary, logits = 10 * vocabulary;
  EXPECT_EQ(launches["projected cross entropy: logits"],
            (Traffic{.bytes_read = 160 + 3 * 16 * vocabulary,
                     .bytes_written = 4 * logits,
                     .bfloat16_products = products}));
  EXPECT_EQ(launches["projected cross entropy: loss of logits"],
            (Traffic{.bytes_read = 2 * 4 * logits + 40,
                     .bytes_written = 2 * logits + 40,
                     .vector_flops = 7 * logits}));
  // The gradient of w is float32, set by the first of three chunks and added to by the others.
  EXPECT_EQ(launches["projected cross entropy: gradient of w"],
            (Traffic{.bytes_read = 2 * logits + 160 + 2 * 32 * vocabulary,
                     .bytes_written = 3 * 32 * vocabulary,
                     .bfloat16_products = products}));
}

}  // namespace
}  // namespace tost::roofline
