// GB/s of the passes between matrix products: each tensor read or written is counted once.
//
//   layers_bench --benchmark_filter='layer_norm'
//
// Arguments are rows and columns.
#include <string>

#include "autograd/base/parallel.h"
#include "autograd/tape.h"
#include "benchmark/benchmark.h"
#include "ops/cpu/linear.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace tost {
namespace {

constexpr RandomKey kKey{.seed = 1};

Tensor Values(Shape shape, DType dtype, uint32_t draw) {
  RandomKey key = kKey;
  key.draw = draw;
  Tensor x = Tensor::Empty(shape, DType::kFloat32);
  float* values = x.mutable_data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) values[i] = 2 * Uniform(key, 0, i) - 1;
  return dtype == DType::kFloat32 ? x : Converted(x, dtype);
}

// What all passes work on.
struct Operands {
  Operands(const benchmark::State& state, DType type)
      : dtype(type),
        shape{state.range(0), state.range(1)},
        x(Values(shape, type, 0)),
        y(Values(shape, type, 1)),
        out(Tensor::Empty(shape, type)),
        vector(Values({shape[1]}, DType::kFloat32, 2)) {}
  DType dtype;
  Shape shape;
  Tensor x, y, out, vector;
};

void Report(benchmark::State& state, const Operands& in, int64_t tensors) {
  state.SetBytesProcessed(state.iterations() * in.shape.numel() * tensors *
                          static_cast<int64_t>(SizeOf(in.dtype)));
}

void BiasGelu(benchmark::State& state, DType dtype) {
  Operands in(state, dtype);
  const Tensor bias = Tensor::Zeros({in.shape[1]}, DType::kFloat32);  // x must not drift away
  for (auto _ : state) ops::cpu::BiasGelu(bias, in.x, in.out);
  Report(state, in, 3);
}

void GeluBackward(benchmark::State& state, DType dtype) {
  Operands in(state, dtype);
  for (auto _ : state) ops::linear_gelu_backward_kernel.On(DeviceType::kCpu)(in.x, in.y, in.out);
  Report(state, in, 3);
}

void SumRows(benchmark::State& state, DType dtype) {
  Operands in(state, dtype);
  for (auto _ : state) ops::sum_rows_kernel.On(DeviceType::kCpu)(in.x, false, in.vector);
  Report(state, in, 1);
}

void LayerNorm(benchmark::State& state, DType dtype) {
  const Operands in(state, dtype);
  for (auto _ : state) {
    benchmark::DoNotOptimize(ops::LayerNorm(in.x, in.vector, in.vector, 1e-5));
  }
  Report(state, in, 2);
}

void LayerNormBackward(benchmark::State& state, DType dtype) {
  Operands in(state, dtype);
  const Tensor mean = Tensor::Zeros({in.shape[0]}, DType::kFloat32);
  for (auto _ : state) {
    ops::LayerNormGradients out{.dx = in.out, .add = true, .want_sums = true};
    ops::layer_norm_backward_kernel.On(DeviceType::kCpu)(in.x, in.vector, mean, mean, in.y, out);
  }
  Report(state, in, 4);  // x, dy; dx twice
}

void Residual(benchmark::State& state, DType dtype) {
  const Operands in(state, dtype);
  for (auto _ : state) benchmark::DoNotOptimize(ops::ScaledResidual(in.x, in.vector, in.y));
  Report(state, in, 3);
}

void ResidualBackward(benchmark::State& state, DType dtype) {
  Operands in(state, dtype);
  for (auto _ : state) {
    ops::ScaledResidualGradients out{.dy = in.out, .want_sums = true};
    ops::scaled_residual_backward_kernel.On(DeviceType::kCpu)(in.vector, in.x, in.y, out);
  }
  Report(state, in, 3);
}

void Dropout(benchmark::State& state, DType dtype) {
  const Operands in(state, dtype);
  for (auto _ : state) benchmark::DoNotOptimize(ops::Dropout(in.x, 0.1f, kKey));
  Report(state, in, 2);
}

void EmbeddingBackward(benchmark::State& state, DType dtype) {
  const Operands in(state, dtype);
  const int64_t vocabulary = state.range(2), tokens = in.shape[0];
  Tensor ids = Tensor::Empty({tokens}, DType::kInt32);
  for (int64_t i = 0; i < tokens; ++i) {
    ids.mutable_data<int32_t>()[i] = static_cast<int32_t>(i * 7919 % vocabulary);
  }
  Tensor dtable = Tensor::Zeros({vocabulary, in.shape[1]}, DType::kFloat32);
  for (auto _ : state) {
    ops::embedding_table_backward_kernel.On(DeviceType::kCpu)(ids, in.x, true, dtable);
  }
  Report(state, in, 3);
}

using Pass = void (*)(benchmark::State&, DType);

void Register(const char* name, Pass pass, bool with_vocabulary = false) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    auto* entry =
        benchmark::RegisterBenchmark((std::string(name) + "/" + Name(dtype)).c_str(),
                                     [=](benchmark::State& state) { pass(state, dtype); });
    if (with_vocabulary) {
      entry->Args({2048, 384, 65})->Args({1024, 768, 50304});
    } else {
      entry->Args({2048, 384})->Args({1024, 768})->Args({16384, 768});
    }
    if (ThreadCount() > 1) entry->UseRealTime();
  }
}

}  // namespace
}  // namespace tost

int main(int argc, char** argv) {
  using tost::Register;
  Register("bias_gelu", tost::BiasGelu);
  Register("gelu_backward", tost::GeluBackward);
  Register("sum_rows", tost::SumRows);
  Register("layer_norm", tost::LayerNorm);
  Register("layer_norm_backward", tost::LayerNormBackward);
  Register("scaled_residual", tost::Residual);
  Register("scaled_residual_backward", tost::ResidualBackward);
  Register("dropout", tost::Dropout);
  Register("embedding_backward", tost::EmbeddingBackward, /*with_vocabulary=*/true);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
