// Time per element of the functions in ops/cpu/simd_math.h over 4096 floats in the L1 cache, one
// thread.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::cpu {
namespace {

constexpr size_t kElements = 4096;

template <class Function>
void Register(const std::string& name, float low, float high, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    std::vector<float> x(kElements), y(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      x[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(kElements);
    }
    const float* __restrict from = x.data();
    float* __restrict to = y.data();
    for (auto _ : state) {
      for (size_t i = 0; i < kElements; ++i) to[i] = function(from[i]);
      benchmark::DoNotOptimize(to);
      benchmark::ClobberMemory();
    }
    const double elements = static_cast<double>(state.iterations()) * kElements;
    state.counters["per_element"] =
        benchmark::Counter(elements, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  });
}

void RegisterAll() {
  Register("exp", -20, 20, [](float x) { return Exp(x); });
  Register("log", 1e-3f, 1e3f, [](float x) { return Log(x); });
  Register("erf", -4, 4, [](float x) { return Erf(x); });
  Register("tanh", -6, 6, [](float x) { return Tanh(x); });
  Register("gelu_erf", -6, 6, [](float x) { return GeluErf(x); });
  Register("gelu_erf_grad", -6, 6, [](float x) { return GeluErfGrad(x); });
}

}  // namespace
}  // namespace tost::ops::cpu

int main(int argc, char** argv) {
  tost::ops::cpu::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
