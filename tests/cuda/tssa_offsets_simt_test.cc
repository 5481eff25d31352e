// Acceptance statement T5 for the kernels of TSSA: where the last thread of the last block reads,
// beyond 2^32 elements. The emulator lets the host stand in a thread's place, so no memory is
// needed.
#include "cuda/tssa_tile.cuh"
#include "gtest/gtest.h"

namespace tost::cuda {
namespace {

constexpr int kPack = kTssaPack<float>;
constexpr int64_t kTokens = 262144;
constexpr TssaExtents kExtents{.batch = 2, .tokens = kTokens, .heads = 64, .head_dim = 128};

// The last thread of the last block of this launch.
TssaBlock<kPack> LastThread(const TssaLaunch& launch) {
  blockIdx = {launch.grid.x - 1, launch.grid.y - 1, 0};
  blockDim = launch.block;
  threadIdx = {launch.block.x - 1, 0, 0};
  return TssaBlock<kPack>(kExtents, launch.heads);
}

TEST(T5, OffsetsOfTheKernelsAre64Bit) {
  for (const bool all_heads : {false, true}) {
    SCOPED_TRACE(all_heads);
    const TssaLaunch launch(kExtents, kPack, all_heads);
    EXPECT_EQ(launch.grid.x, 2 * kTokens / kTssaChunk);
    const TssaBlock<kPack> block = LastThread(launch);
    EXPECT_EQ(block.first_row, 2 * kTokens - kTssaChunk);
    const TssaPlace last{.inside = true, .head = block.heads - 1, .channel = 8192 - kPack};
    EXPECT_TRUE(block.Has(last, kTssaRowTokens - 1));
    EXPECT_EQ(block.Offset(last) + (kTssaRowTokens - 1) * block.width, (int64_t{1} << 32) - kPack);
    EXPECT_EQ(block.HeadOffset(block.heads - 1, kTssaChunk - 1), 2 * kTokens * 64 - 1);
    EXPECT_EQ(block.SumRow(kExtents), (2 * kTokens / kTssaChunk - 1) * (8192 + 64));
  }
}

}  // namespace
}  // namespace tost::cuda
