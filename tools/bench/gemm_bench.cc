// GFLOP/s of the matrix products of a training step, ours beside the GEMM library called plainly,
// and GB/s of decoding. `peak` is what the fused multiply-add units can do.
//
//   OMP_NUM_THREADS=1 gemm_bench --benchmark_filter='NT/'
//
// The three forms of a layer [M, in] → [M, out]: NT forward, NN input gradient, TN weight gradient.
// On one thread rates follow CPU time, so that a busy machine disturbs them little.
#include <string>
#include <vector>

#include "autograd/base/parallel.h"
#include "benchmark/benchmark.h"
#include "dnnl.h"
#include "ops/cpu/gemm.h"

namespace tost::ops::cpu {
namespace {

struct Form {
  const char* name;
  bool transpose_a, transpose_b;
  int64_t m, n, k;
};

std::vector<float> Values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f;
  }
  return values;
}

void Report(benchmark::State& state, double operations, const char* unit) {
  // On several threads the clock on the wall counts (see UseRealTime below).
  state.counters[unit] = benchmark::Counter(
      operations * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}

void Product(benchmark::State& state, Form form, bool ours) {
  const std::vector<float> a = Values(form.m * form.k), b = Values(form.k * form.n);
  std::vector<float> c(static_cast<size_t>(form.m * form.n));
  const int64_t a_stride = form.transpose_a ? form.m : form.k;
  const int64_t b_stride = form.transpose_b ? form.k : form.n;
  for (auto _ : state) {
    if (ours) {
      Gemm<float>(form.m, form.n, form.k, {a.data(), a_stride, form.transpose_a},
                  {b.data(), b_stride, form.transpose_b}, /*add=*/false, c.data(), form.n);
    } else {
      dnnl_sgemm(form.transpose_a ? 'T' : 'N', form.transpose_b ? 'T' : 'N', form.m, form.n, form.k,
                 1.0f, a.data(), a_stride, b.data(), b_stride, 0.0f, c.data(), form.n);
    }
    benchmark::ClobberMemory();
  }
  Report(state, 2.0 * static_cast<double>(form.m * form.n * form.k), "GFLOP/s");
}

// y = x wᵀ for few rows x, weights of 4 bytes (float) or 2 (bfloat16): the bytes of w per second.
template <class T>
void Decoding(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const std::vector<T> x(static_cast<size_t>(m * k), T(0.5f));
  const std::vector<T> w(static_cast<size_t>(n * k), T(0.25f));
  std::vector<T> y(static_cast<size_t>(m * n));
  for (auto _ : state) {
    Gemm<T>(m, n, k, {x.data(), k, false}, {w.data(), k, true}, /*add=*/false, y.data(), n);
    benchmark::ClobberMemory();
  }
  Report(state, static_cast<double>(n * k) * sizeof(T), "GB/s");
}

void Peak(benchmark::State& state) {
  typedef float Vector __attribute__((vector_size(64)));
  constexpr int kChains = 16, kRounds = 20000;
  for (auto _ : state) {
    ParallelFor(ThreadCount(), 1, [](int64_t, int64_t) {
      Vector sums[kChains] = {};
      Vector factor = Vector{} + 0.999f;
      benchmark::DoNotOptimize(factor);
      for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
        for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + factor;
      }
      for (Vector& sum : sums) benchmark::DoNotOptimize(sum);
    });
  }
  Report(state, 2.0 * 16 * kChains * kRounds * ThreadCount(), "GFLOP/s");
}

void Register(int64_t rows, int64_t in, int64_t out) {
  const Form forms[] = {{"NT", false, true, rows, out, in},
                        {"NN", false, false, rows, in, out},
                        {"TN", true, false, out, in, rows}};
  for (const Form& form : forms) {
    for (const bool ours : {true, false}) {
      const std::string name = std::string(form.name) + "/" + std::to_string(form.m) + "x" +
                               std::to_string(form.n) + "x" + std::to_string(form.k) +
                               (ours ? "/tost" : "/library");
      auto* entry = benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { Product(state, form, ours); });
      if (ThreadCount() > 1) entry->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace tost::ops::cpu

int main(int argc, char** argv) {
  namespace cpu = tost::ops::cpu;
  const bool parallel = tost::ThreadCount() > 1;
  auto* peak = benchmark::RegisterBenchmark("peak", cpu::Peak);
  if (parallel) peak->UseRealTime();
  const int64_t layers[][3] = {
      {2048, 384, 384},  {2048, 384, 1536}, {2048, 1536, 384}, {2048, 384, 65},   {1024, 768, 768},
      {1024, 768, 3072}, {1024, 3072, 768}, {4096, 768, 768},  {4096, 768, 3072}, {4096, 3072, 768},
      {1024, 128, 128},  {4096, 128, 512},  {4096, 512, 128}};
  for (const auto& [rows, in, out] : layers) cpu::Register(rows, in, out);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{384, 384}, {3072, 768}, {50304, 768}}) {
    for (const int64_t m : {1, 8}) {
      auto* wide = benchmark::RegisterBenchmark("decoding/float32", cpu::Decoding<float>);
      auto* narrow =
          benchmark::RegisterBenchmark("decoding/bfloat16", cpu::Decoding<tost::bfloat16>);
      for (auto* entry : {wide, narrow}) {
        entry->Args({m, n, k});
        if (parallel) entry->UseRealTime();
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
