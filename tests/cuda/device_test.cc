#include "tests/cuda/device_test.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/tape.h"
#include "cuda/install.h"
#include "gtest/gtest.h"
#include "tests/cuda/executor.h"

namespace tost {
namespace {

constexpr uint64_t kWeightSeed = 20241217;  // any fixed number: the r of Σ fn(x)·r

bool IsFloating(const Tensor& x) {
  return x.dtype() != DType::kInt32 && x.dtype() != DType::kUint16;
}

double LargestFinite(const std::vector<double>& values) {
  double largest = 1;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      largest = std::max(largest, std::abs(a[i] - b[i]));
    }
  }
  return largest;
}

// Both NaN, or the same infinity, counts as equal.
void ExpectClose(const std::vector<double>& actual, const std::vector<double>& expected,
                 double bound, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (actual[i] == expected[i]) continue;
    ASSERT_LE(std::abs(actual[i] - expected[i]), bound)
        << what << ", element " << i << ": device " << actual[i] << ", CPU " << expected[i];
  }
}

// Bit for bit but for the sign of zero and the kind of NaN.
void ExpectIdentical(const std::vector<double>& actual, const std::vector<double>& expected,
                     const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    ASSERT_EQ(actual[i], expected[i]) << what << ", element " << i;
  }
}

// Without a device every test says so instead of running.
class SkipWithoutDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!executor::IsAvailable()) GTEST_SKIP() << "no CUDA device on this machine";
  }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new SkipWithoutDevice);

std::vector<Tensor> Placed(const std::vector<Tensor>& inputs, Tensor (*place)(const Tensor&)) {
  std::vector<Tensor> moved;
  for (const Tensor& input : inputs) moved.push_back(place(input));
  return moved;
}

Tensor ParameterOf(const Tensor& x) {
  return x.WithGrad(
      std::make_shared<Grad>(x.shape(), AccumulateDType(x.dtype()), x.device(), Grad::Kind::kLeaf));
}

// Fills `copy`, a tensor on the device, with the numbers of x.
void CopyIn(const Tensor& x, Tensor copy) {
  RuntimeOf(CudaDevice())
      .CopyIn(copy.mutable_raw(), x.raw(), static_cast<size_t>(x.numel()) * SizeOf(x.dtype()));
}

}  // namespace

Device CudaDevice() {
  static const Device device = [] {
    TOST_CHECK(executor::IsAvailable()) << "no device: skip the test first";
    cuda::InstallCuda(0);
    return Device{DeviceType::kCuda, 0};
  }();
  return device;
}

Tensor OnCuda(const Tensor& x) {
  const Tensor copy = Tensor::Empty(x.shape(), x.dtype(), CudaDevice());
  CopyIn(x, copy);
  return copy;
}

Tensor OnCudaMisaligned(const Tensor& x) {
  const Tensor copy = Tensor::Empty({x.numel() + 1}, x.dtype(), CudaDevice()).View(1, x.shape());
  CopyIn(x, copy);
  return copy;
}

std::vector<DType> DeviceSumDTypes() {
  std::vector<DType> dtypes{DType::kFloat32};
  if (executor::HasDouble()) dtypes.push_back(DType::kFloat64);
  return dtypes;
}
std::vector<DType> DeviceDTypes() {
  std::vector<DType> dtypes = DeviceSumDTypes();
  dtypes.push_back(DType::kBFloat16);
  return dtypes;
}

bool SmallShapesOnly() { return executor::ChecksEveryAccess(); }

void ForEachThreadOrder(const std::function<void(const std::string& order)>& run) {
  for (const std::string& order : executor::ThreadOrders()) {
    executor::UseThreadOrder(order);
    run(order);
  }
}

Tensor As(DType dtype, const Tensor& x) { return Converted(x, dtype); }

ValueAndGradients Evaluate(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                           InputKind kind) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(!IsFloating(input)                ? input
                     : kind == InputKind::kActivations ? Leaf(input)
                                                       : ParameterOf(input));
  }
  ValueAndGradients result;
  Tape tape;
  const Tensor y = fn(leaves);
  result.value = y.ToHost<double>();
  if (y.grad() == nullptr) return result;
  const Tensor weights = As(y.dtype(), RandomTensor(y.shape(), kWeightSeed));
  tape.BackwardFrom(y, y.device() == Device::Cpu() ? weights : OnCuda(weights));
  for (const Tensor& leaf : leaves) {
    const bool has = leaf.grad() != nullptr && leaf.grad()->written();
    result.gradients.push_back(has ? leaf.grad()->value().ToHost<double>() : std::vector<double>());
  }
  return result;
}

namespace {

// How far each result of the device may be from the CPU's.
struct Bounds {
  double value = 0;
  std::vector<double> gradients;
};
Bounds BoundsOf(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                const ValueAndGradients& expected, double tolerance) {
  constexpr double kRoundings = 4;  // of the CPU's own error
  ValueAndGradients truth = expected;
  if (std::ranges::any_of(inputs, [](const Tensor& x) { return x.dtype() == DType::kFloat32; }) &&
      std::ranges::none_of(inputs, [](const Tensor& x) { return x.dtype() == DType::kBFloat16; })) {
    std::vector<Tensor> exact;
    for (const Tensor& x : inputs) exact.push_back(IsFloating(x) ? As(DType::kFloat64, x) : x);
    truth = Evaluate(fn, exact);
  }
  const auto bound = [&](const std::vector<double>& cpu, const std::vector<double>& exact) {
    return std::max(tolerance * LargestFinite(cpu), kRoundings * LargestDifference(cpu, exact));
  };
  Bounds bounds{.value = bound(expected.value, truth.value)};
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    bounds.gradients.push_back(bound(expected.gradients[i], truth.gradients[i]));
  }
  return bounds;
}

void ExpectSame(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs, double tolerance,
                Tensor (*place)(const Tensor&), InputKind kind = InputKind::kActivations) {
  if (!executor::HasDouble() && std::ranges::any_of(cpu_inputs, [](const Tensor& x) {
        return x.dtype() == DType::kFloat64;
      })) {
    return;
  }
  const ValueAndGradients expected = Evaluate(fn, cpu_inputs, kind);
  const Bounds bounds = BoundsOf(fn, cpu_inputs, expected, tolerance);
  const std::vector<Tensor> inputs = Placed(cpu_inputs, place);
  ValueAndGradients first;
  ForEachThreadOrder([&](const std::string& order) {
    SCOPED_TRACE(order);
    const ValueAndGradients actual = Evaluate(fn, inputs, kind);
    ExpectClose(actual.value, expected.value, bounds.value, "value");
    ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
    for (size_t i = 0; i < actual.gradients.size(); ++i) {
      ExpectClose(actual.gradients[i], expected.gradients[i], bounds.gradients[i],
                  "gradient of input " + std::to_string(i));
    }
    if (first.value.empty()) {
      first = actual;
      return;
    }
    ExpectIdentical(actual.value, first.value, "value against that of the first order");
    for (size_t i = 0; i < actual.gradients.size(); ++i) {
      ExpectIdentical(actual.gradients[i], first.gradients[i],
                      "gradient against that of the first order, input " + std::to_string(i));
    }
  });
}

}  // namespace

void ExpectSameAsCpu(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                     double tolerance) {
  ExpectSame(fn, cpu_inputs, tolerance, &OnCuda);
}
void ExpectSameAsCpuForParameters(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                                  double tolerance) {
  ExpectSame(fn, cpu_inputs, tolerance, &OnCuda, InputKind::kParameters);
}
void ExpectSameAsCpuMisaligned(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                               double tolerance) {
  ExpectSame(fn, cpu_inputs, tolerance, &OnCudaMisaligned);
}

void ExpectGradcheck(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs) {
  if (!executor::HasDouble() || SmallShapesOnly()) return;
  const GradcheckReport report =
      Gradcheck(fn, Placed(cpu_inputs, &OnCuda), {.step = 1e-5, .tolerance = 1e-8});
  EXPECT_TRUE(report.passed()) << report.failure << "\n" << report.Table();
}

}  // namespace tost
