// Time of the TSSA operators: ns per token, and bytes of w, y, dy, dw per second (each counted
// once).
//
//   tssa_bench --benchmark_filter=CausalTssa
//
// Arguments are tokens; 12 heads of 64 channels, one sequence.
#include "autograd/tape.h"
#include "benchmark/benchmark.h"
#include "ops/tssa.h"

namespace tost {
namespace {

constexpr int64_t kHeads = 12, kWidth = 768;

Tensor RandomValues(Shape shape, DType dtype) {
  Tensor x = Tensor::Empty(shape, DType::kFloat32);
  float* values = x.mutable_data<float>();
  uint32_t state = 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
  }
  return dtype == DType::kFloat32 ? x : Converted(x, dtype);
}

void Report(benchmark::State& state, int64_t tokens, int64_t tensors, DType dtype) {
  const int64_t elements = state.iterations() * tokens * kWidth;
  state.SetBytesProcessed(elements * tensors * static_cast<int64_t>(SizeOf(dtype)));
  state.counters["s/token"] =
      benchmark::Counter(static_cast<double>(state.iterations() * tokens),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

struct Operands {
  Operands(int64_t tokens, DType dtype)
      : w(Leaf(RandomValues({1, tokens, kWidth}, dtype))),
        temp(Leaf(RandomValues({kHeads, 1}, DType::kFloat32))),
        bias(Leaf(RandomValues({kHeads, tokens, 1}, DType::kFloat32))) {}
  Tensor w, temp, bias;
};

enum class Variant { kCausal, kVision };

Tensor Apply(Variant variant, const Operands& in) {
  return variant == Variant::kCausal ? ops::CausalTssa(in.w, in.temp, in.bias)
                                     : ops::Tssa(in.w, in.temp);
}

void Forward(benchmark::State& state, Variant variant, DType dtype) {
  const Operands in(state.range(0), dtype);
  for (auto _ : state) benchmark::DoNotOptimize(Apply(variant, in));
  Report(state, state.range(0), 2, dtype);
}

void ForwardBackward(benchmark::State& state, Variant variant, DType dtype) {
  const Operands in(state.range(0), dtype);
  const Tensor dy = RandomValues(in.w.shape(), dtype);
  for (auto _ : state) {
    Tape tape;
    tape.BackwardFrom(Apply(variant, in), dy);
    in.w.grad()->Reset();
    in.temp.grad()->Reset();
    in.bias.grad()->Reset();
  }
  Report(state, state.range(0), 5, dtype);
}

void Step(benchmark::State& state) {
  const Operands in(1024, DType::kFloat32);
  const Tensor w = RandomValues({state.range(0), kWidth}, DType::kFloat32);
  auto sums = ops::CausalTssaState::Zeros(state.range(0), kHeads, kWidth / kHeads);
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::CausalTssaStep(sums, w, in.temp, in.bias, 100));
  }
  Report(state, state.range(0), 2, DType::kFloat32);
}

void Lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(4)->Range(256, 262144)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(Forward, CausalTssa, Variant::kCausal, DType::kFloat32)->Apply(Lengths);
BENCHMARK_CAPTURE(ForwardBackward, CausalTssa, Variant::kCausal, DType::kFloat32)->Apply(Lengths);
BENCHMARK_CAPTURE(ForwardBackward, CausalTssaBf16, Variant::kCausal, DType::kBFloat16)
    ->Apply(Lengths);
BENCHMARK_CAPTURE(Forward, Tssa, Variant::kVision, DType::kFloat32)->Apply(Lengths);
BENCHMARK_CAPTURE(ForwardBackward, Tssa, Variant::kVision, DType::kFloat32)->Apply(Lengths);
BENCHMARK(Step)->Arg(1)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace tost

BENCHMARK_MAIN();
