// tost bench kernels: how near each kernel comes to the speed of a plain copy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/philox.h"
#include "autograd/tape.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/optimizer_kernels.h"
#include "ops/residual.h"
#include "ops/tssa.h"
#include "roofline/counting_device.h"
#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"

namespace tost {
namespace {

struct KernelsOptions {
  int64_t batch = 8;
  int64_t tokens = 1024;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t vocabulary = 50304;
  int repeats = 20;
  std::string compute_dtype = "float32";
  bool json = false;
  Device device;
};

using Work = std::function<void()>;

// One row of the table: what prepares the operands on a device and gives the work to time.
struct KernelCase {
  const char* name;
  Work (*prepare)(const KernelsOptions& options, Device device, DType dtype);
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Tensor RandomOn(Device device, DType dtype, const Shape& shape, uint64_t seed) {
  return ops::Cast(ops::DropoutMask(shape, 0.5f, {.seed = seed}, DType::kFloat32, device) +
                       (seed % 2 == 0 ? -0.75 : 0.25),
                   dtype);
}

// Runs `apply` forward and backward from a fixed gradient; with leaves that start anew each time.
template <class Apply>
Work ForwardAndBackward(const std::vector<Tensor>& leaves, const Tensor& dy, const Apply& apply) {
  return [leaves, dy, apply] {
    for (const Tensor& leaf : leaves) leaf.grad()->Reset();
    Tape tape;
    tape.BackwardFrom(apply(), dy);
  };
}

Tensor Activations(const KernelsOptions& o, Device device, DType dtype, uint64_t seed) {
  return RandomOn(device, dtype, {o.batch, o.tokens, o.width}, seed);
}

struct TssaOperands {
  Tensor w, temp, bias;
};
TssaOperands TssaOn(const KernelsOptions& o, Device device, DType dtype) {
  return {Leaf(Activations(o, device, dtype, 1)),
          Leaf(Tensor::FromHost<float>(
              {o.heads, 1}, std::vector<float>(static_cast<size_t>(o.heads), 1.0f), device)),
          Leaf(Tensor::Zeros({o.heads, o.tokens, 1}, DType::kFloat32, device))};
}

Work CausalTssaForward(const KernelsOptions& o, Device device, DType dtype) {
  return [x = TssaOn(o, device, dtype)] { ops::CausalTssa(x.w, x.temp, x.bias); };
}
Work CausalTssaBoth(const KernelsOptions& o, Device device, DType dtype) {
  const TssaOperands x = TssaOn(o, device, dtype);
  return ForwardAndBackward({x.w, x.temp, x.bias}, Activations(o, device, dtype, 2),
                            [x] { return ops::CausalTssa(x.w, x.temp, x.bias); });
}
Work TssaForward(const KernelsOptions& o, Device device, DType dtype) {
  return [x = TssaOn(o, device, dtype)] { ops::Tssa(x.w, x.temp); };
}
Work TssaBoth(const KernelsOptions& o, Device device, DType dtype) {
  const TssaOperands x = TssaOn(o, device, dtype);
  return ForwardAndBackward({x.w, x.temp}, Activations(o, device, dtype, 2),
                            [x] { return ops::Tssa(x.w, x.temp); });
}

struct NormOperands {
  Tensor x, weight, bias;
};
NormOperands NormOn(const KernelsOptions& o, Device device, DType dtype) {
  return {Leaf(Activations(o, device, dtype, 1)),
          Leaf(RandomOn(device, DType::kFloat32, {o.width}, 3)),
          Leaf(RandomOn(device, DType::kFloat32, {o.width}, 4))};
}
Work LayerNormForward(const KernelsOptions& o, Device device, DType dtype) {
  return [in = NormOn(o, device, dtype)] { ops::LayerNorm(in.x, in.weight, in.bias, 1e-5); };
}
Work LayerNormBoth(const KernelsOptions& o, Device device, DType dtype) {
  const NormOperands in = NormOn(o, device, dtype);
  return ForwardAndBackward({in.x, in.weight, in.bias}, Activations(o, device, dtype, 2),
                            [in] { return ops::LayerNorm(in.x, in.weight, in.bias, 1e-5); });
}

Work ResidualBoth(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor x = Leaf(Activations(o, device, dtype, 1)),
               y = Leaf(Activations(o, device, dtype, 3)),
               gamma = Leaf(RandomOn(device, DType::kFloat32, {o.width}, 5));
  return ForwardAndBackward({x, y, gamma}, Activations(o, device, dtype, 2),
                            [=] { return ops::ScaledResidual(x, gamma, y); });
}

Work GeluBoth(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor x = Leaf(Activations(o, device, dtype, 1));
  return ForwardAndBackward({x}, Activations(o, device, dtype, 2), [x] { return ops::Gelu(x); });
}

Work DropoutForward(const KernelsOptions& o, Device device, DType dtype) {
  return [x = Activations(o, device, dtype, 1)] { ops::Dropout(x, 0.1f, {.seed = 1}); };
}

std::vector<int32_t> RandomIds(int64_t count, int64_t classes) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    const float u = Uniform({.seed = 1}, static_cast<int64_t>(i), 0);
    ids[i] = static_cast<int32_t>(u * static_cast<float>(classes));
  }
  return ids;
}

Work EmbeddingBoth(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor table = Leaf(RandomOn(device, dtype, {o.vocabulary, o.width}, 1));
  const Tensor ids =
      Tensor::FromHost({o.batch, o.tokens}, RandomIds(o.batch * o.tokens, o.vocabulary), device);
  return ForwardAndBackward({table}, Activations(o, device, dtype, 2),
                            [=] { return ops::Embedding(ids, table); });
}

Work AttentionForward(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor qkv = RandomOn(device, dtype, {o.batch, o.tokens, 3 * o.width}, 1);
  const int heads = static_cast<int>(o.heads);
  return [=] { ops::Attention(qkv, {.heads = heads, .causal = true}); };
}
Work AttentionBoth(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor qkv = Leaf(RandomOn(device, dtype, {o.batch, o.tokens, 3 * o.width}, 1));
  const int heads = static_cast<int>(o.heads);
  return ForwardAndBackward({qkv}, Activations(o, device, dtype, 2),
                            [=] { return ops::Attention(qkv, {.heads = heads, .causal = true}); });
}

Work LinearBoth(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor x = Leaf(Activations(o, device, dtype, 1)),
               w = Leaf(RandomOn(device, dtype, {4 * o.width, o.width}, 3));
  return ForwardAndBackward({x, w}, RandomOn(device, dtype, {o.batch, o.tokens, 4 * o.width}, 2),
                            [=] { return ops::Linear(x, w); });
}

Work VocabularyLoss(const KernelsOptions& o, Device device, DType dtype) {
  const Tensor x = Leaf(Activations(o, device, dtype, 1)),
               w = Leaf(RandomOn(device, dtype, {o.vocabulary, o.width}, 3)),
               targets = Tensor::FromHost({o.batch, o.tokens},
                                          RandomIds(o.batch * o.tokens, o.vocabulary), device);
  return [=] {
    x.grad()->Reset();
    w.grad()->Reset();
    Tape tape;
    tape.Backward(ops::ProjectedCrossEntropy(x, w, targets));
  };
}

// As many parameters as a batch has activations; the bfloat16 copy is written too.
Work AdamWUpdate(const KernelsOptions& o, Device device, DType dtype) {
  const Shape shape{o.batch * o.tokens * o.width};
  const auto zeros = [&] { return Tensor::Zeros(shape, DType::kFloat32, device); };
  const Tensor gradient = RandomOn(device, DType::kFloat32, shape, 1);
  const Tensor update = ops::NewUpdateScalars(device, 1);
  Tensor compute;
  if (dtype == DType::kBFloat16) compute = Tensor::Zeros(shape, dtype, device);
  return [=, value = zeros(), first = zeros(), second = zeros()]() mutable {
    ops::AdamW({}, update, gradient, value, first, second, compute);
  };
}

Work GradientNorm(const KernelsOptions& o, Device device, DType) {
  const Tensor x = RandomOn(device, DType::kFloat32, {o.batch * o.tokens * o.width}, 1);
  return [x, sum = Tensor::Zeros({}, DType::kFloat64, device)]() mutable {
    ops::SquaredNorm(x, /*add=*/false, sum);
  };
}

constexpr KernelCase kCases[] = {
    {"causal_tssa", &CausalTssaForward},
    {"causal_tssa, backward too", &CausalTssaBoth},
    {"tssa", &TssaForward},
    {"tssa, backward too", &TssaBoth},
    {"layer_norm", &LayerNormForward},
    {"layer_norm, backward too", &LayerNormBoth},
    {"scaled_residual, backward too", &ResidualBoth},
    {"gelu, backward too", &GeluBoth},
    {"dropout", &DropoutForward},
    {"embedding, backward too", &EmbeddingBoth},
    {"adamw", &AdamWUpdate},
    {"squared_norm", &GradientNorm},
    {"linear [4C, C], backward too", &LinearBoth},
    {"vocabulary loss and gradients", &VocabularyLoss},
    {"causal attention", &AttentionForward},
    {"causal attention, backward too", &AttentionBoth},
};

// Median seconds of one call, until the device is done with it.
double Time(const KernelsOptions& options, const Work& work) {
  constexpr int kWarmUp = 2;
  DeviceRuntime& runtime = RuntimeOf(options.device);
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < options.repeats; ++i) {
    runtime.Synchronize();
    const double start = Seconds();
    work();
    runtime.Synchronize();
    if (i >= 0) seconds.push_back(Seconds() - start);
  }
  std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
  return seconds[seconds.size() / 2];
}

// Bytes per second of a copy within the device's memory, read and written: the yardstick.
double CopyBandwidth(const KernelsOptions& options) {
  const int64_t elements =
      options.device == Device::Cpu() ? int64_t{64} << 20 : int64_t{256} << 20;  // of 4 bytes
  const Tensor from = Tensor::Zeros({elements}, DType::kFloat32, options.device);
  Tensor to = Tensor::Zeros({elements}, DType::kFloat32, options.device);
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  const double seconds =
      Time(options, [&] { RuntimeOf(options.device).Copy(to.mutable_raw(), from.raw(), bytes); });
  return 2 * static_cast<double>(bytes) / seconds;
}

// What one call of the case reads, writes and computes, by counting.
roofline::Traffic TrafficOf(const KernelCase& kernel, const KernelsOptions& options, DType dtype) {
  const Work work = kernel.prepare(options, roofline::CountingDevice(), dtype);
  roofline::TakeLaunches();
  work();
  roofline::Traffic total;
  for (const roofline::Launch& launch : roofline::TakeLaunches()) total += launch.traffic;
  return total;
}

void PrintRow(const KernelsOptions& options, const char* name, const roofline::Traffic& traffic,
              double seconds, double copy) {
  const double bytes_per_second = static_cast<double>(traffic.bytes()) / seconds;
  const double flops_per_second = static_cast<double>(traffic.flops()) / seconds;
  if (options.json) {
    std::printf(
        "{\"bench\":\"kernels\",\"kernel\":\"%s\",\"device\":\"%s\",\"compute_dtype\":\"%s\","
        "\"bytes\":%lld,\"flops\":%lld,\"seconds\":%.9f,\"copy_bytes_per_second\":%.4g}\n",
        name, options.device.ToString().c_str(), options.compute_dtype.c_str(),
        static_cast<long long>(traffic.bytes()), static_cast<long long>(traffic.flops()), seconds,
        copy);
    return;
  }
  std::printf("%-32s %9.1f %11.3f %9.1f %7.0f %% %9.2f\n", name,
              static_cast<double>(traffic.bytes()) / 1e6, seconds * 1e3, bytes_per_second / 1e9,
              100 * bytes_per_second / copy, flops_per_second / 1e12);
}

absl::Status BenchKernels(const KernelsOptions& options) {
  for (const auto& [name, value] : {std::pair{"batch", options.batch},
                                    {"tokens", options.tokens},
                                    {"width", options.width},
                                    {"heads", options.heads},
                                    {"vocabulary", options.vocabulary},
                                    {"repeats", int64_t{options.repeats}}}) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " must be at least 1, got ", value));
    }
  }
  if (options.width % options.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--width ", options.width, " is not a multiple of --heads ", options.heads));
  }
  TOST_ASSIGN_OR_RETURN(const DType dtype, train::ComputeDTypeNamed(options.compute_dtype));
  const double copy = CopyBandwidth(options);
  if (!options.json) {
    std::printf("a copy on %s: %.1f GB/s, read and written\n\n", options.device.ToString().c_str(),
                copy / 1e9);
    std::printf("%-32s %9s %11s %9s %9s %9s\n", "kernel", "MB", "ms", "GB/s", "of copy", "TFLOP/s");
  }
  for (const KernelCase& kernel : kCases) {
    const roofline::Traffic traffic = TrafficOf(kernel, options, dtype);
    PrintRow(options, kernel.name, traffic,
             Time(options, kernel.prepare(options, options.device, dtype)), copy);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace

void AddBenchKernelsCommand(CLI::App& bench, Commands& commands) {
  auto options = std::make_shared<KernelsOptions>();
  Command& command = commands.emplace_back(bench, "kernels",
                                           "Bytes, time and share of a copy's speed of each kernel",
                                           "tost --threads 2 bench kernels --batch 2 --repeats 5");
  command.Add("batch", options->batch, "Sequences");
  command.Add("tokens", options->tokens, "Tokens in a sequence");
  command.Add("width", options->width, "Channels");
  command.Add("heads", options->heads, "Heads");
  command.Add("vocabulary", options->vocabulary, "Rows of the embedding");
  command.Add("compute_dtype", options->compute_dtype, "float32 or bfloat16");
  command.Add("repeats", options->repeats, "Timed repetitions; the median counts");
  command.Add("json", options->json, "One JSON line for each kernel instead of the table");
  command.AddDevice(options->device);
  command.set_run([options] { return BenchKernels(*options); });
}

}  // namespace tost
