// What the tests of the CUDA backend share. The same objects are linked with the emulated device
// (plain, with sanitizers, with the access checker, with nvcc's PTX) and, on a machine with a GPU,
// with the real one: the linker chooses who executes the kernels.
#ifndef TOST_TESTS_CUDA_DEVICE_TEST_H_
#define TOST_TESTS_CUDA_DEVICE_TEST_H_

#include <functional>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tensor.h"

namespace tost {

// The device under test, with runtime and kernels installed.
Device CudaDevice();

// A copy of a host tensor on the device under test, as a constant.
Tensor OnCuda(const Tensor& x);

// The same one element past an aligned address, where no access can be wider than an element.
Tensor OnCudaMisaligned(const Tensor& x);

// The types in which the device has kernels. float64 serves finite differences; a GPU lacks it.
std::vector<DType> DeviceDTypes();
std::vector<DType> DeviceSumDTypes();  // of sums and master values: those but bfloat16

// Whether every access is checked one by one: some 10^5 of them are a test's measure then.
bool SmallShapesOnly();

// Calls `run` once for every order in which the executor can run threads and blocks.
void ForEachThreadOrder(const std::function<void(const std::string& order)>& run);

// The value of fn and the gradients of Σ fn(x)·r, r fixed and random, with respect to the floating
// inputs.
struct ValueAndGradients {
  std::vector<double> value;
  std::vector<std::vector<double>> gradients;  // empty for int32 inputs
};
// Of whom the gradients of bfloat16 inputs are: a parameter gathers its own in float32.
enum class InputKind { kActivations, kParameters };
ValueAndGradients Evaluate(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                           InputKind kind = InputKind::kActivations);

// fn on the device gives what fn gives on the CPU, value and gradients, to `tolerance` relative to
// the largest number of each tensor (at least 1), and the same bits in every order of threads.
// Where numbers cancel, as in gradients that sum over everything, float32 results may differ by
// four times what the CPU's own differ from float64's; fn must take any floating type of its
// inputs, therefore. Infinities are equal to themselves and to nothing else. Inputs in float64 are
// left out where the device has no kernels for it.
void ExpectSameAsCpu(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                     double tolerance);
void ExpectSameAsCpuForParameters(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                                  double tolerance);
// The same with every input misaligned on the device.
void ExpectSameAsCpuMisaligned(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs,
                               double tolerance);

// Finite differences in double on the device, to 1e-8 relative. Skipped where it has no double, and
// where every access is checked: they make no access that comparing with the CPU does not.
void ExpectGradcheck(const TensorFunction& fn, const std::vector<Tensor>& cpu_inputs);

// `x` (float64) as another floating type on the CPU.
Tensor As(DType dtype, const Tensor& x);

}  // namespace tost

#endif  // TOST_TESTS_CUDA_DEVICE_TEST_H_
