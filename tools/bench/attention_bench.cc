// Softmax attention without its projections: forward, and forward with backward.
//   attention_bench --benchmark_filter=Causal
// Arguments: tokens, heads, head width; batch 1. Its peer in PyTorch is
// F.scaled_dot_product_attention.
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "benchmark/benchmark.h"
#include "ops/attention.h"

namespace tost::ops {
namespace {

Tensor Input(const benchmark::State& state, int64_t channels, DType dtype) {
  return Converted(RandomTensor({1, state.range(0), channels}, 1), dtype);
}

void Forward(benchmark::State& state, DType dtype, bool causal) {
  const int64_t width = state.range(1) * state.range(2);
  const Tensor qkv = Input(state, 3 * width, dtype);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Attention(qkv, {.heads = static_cast<int>(state.range(1)), .causal = causal}));
  }
}

void ForwardBackward(benchmark::State& state, DType dtype, bool causal, float dropout) {
  const int64_t width = state.range(1) * state.range(2);
  const Tensor qkv = Leaf(Input(state, 3 * width, dtype));
  const Tensor dy = Input(state, width, dtype);
  for (auto _ : state) {
    qkv.grad()->Reset();
    Tape tape;
    const Tensor y = Attention(
        qkv, {.heads = static_cast<int>(state.range(1)), .causal = causal, .dropout = dropout});
    tape.BackwardFrom(y, dy);
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1024, 12, 64})->Args({4096, 12, 64})->Args({197, 6, 64});
  benchmark->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK_CAPTURE(Forward, Causal, DType::kFloat32, true)->Apply(Sizes);
BENCHMARK_CAPTURE(Forward, Full, DType::kFloat32, false)->Apply(Sizes);
BENCHMARK_CAPTURE(ForwardBackward, Causal, DType::kFloat32, true, 0.0f)->Apply(Sizes);
BENCHMARK_CAPTURE(ForwardBackward, Full, DType::kFloat32, false, 0.0f)->Apply(Sizes);
BENCHMARK_CAPTURE(ForwardBackward, CausalBFloat16, DType::kBFloat16, true, 0.0f)->Apply(Sizes);
BENCHMARK_CAPTURE(ForwardBackward, CausalDropout, DType::kFloat32, true, 0.1f)->Apply(Sizes);

}  // namespace
}  // namespace tost::ops

BENCHMARK_MAIN();
