#include "cuda/blas.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "autograd/base/errors.h"
#include "autograd/tensor.h"
#include "cuda/blas_description.h"
#include "cuda/gpu.h"

namespace tost::cuda {
namespace {

// What NVIDIA recommends for its newest architecture; older ones ask for less.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// The largest power of two, 256 at most, that divides all three addresses.
uint32_t AlignmentOf(const void* a, const void* b, const void* c) {
  const auto bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                    reinterpret_cast<uintptr_t>(c);
  return static_cast<uint32_t>(std::min<uintptr_t>(bits & (~bits + 1), 256));
}

// A product with the algorithm chosen for it, if there is one.
struct Plan {
  std::unique_ptr<ProductDescription> description;
  bool exists = false;
  cublasLtMatmulAlgo_t algorithm;
};

// cuBLASLt on this process's device: its handle, workspace, and a plan for every form of product
// met so far. The heuristic's first choice is taken and kept: timing candidates would make the
// choice, and with it the last bits, differ between runs.
class Products {
 public:
  Products() {
    CheckBlas(cublasLtCreate(&handle_), "cublasLtCreate");
    workspace_ = Tensor::Empty({kWorkspaceBytes / 4}, DType::kFloat32, {DeviceType::kCuda, 0});
  }

  void Multiply(const Product& p, const void* a, const void* b, const void* bias, void* c,
                cudaStream_t stream) {
    if (p.m == 0 || p.n == 0) return;
    const Plan& plan = PlanFor(p, bias != nullptr, AlignmentOf(a, b, c));
    TOST_CHECK(plan.exists) << "cuBLASLt has no algorithm for a product [" << p.m << ", " << p.k
                            << "] x [" << p.k << ", " << p.n << "] of " << Name(p.operands)
                            << " into " << Name(p.result);
    if (bias != nullptr) plan.description->set_bias(bias);
    const float alpha = static_cast<float>(p.alpha), beta = p.add ? 1.0f : 0.0f;
    CheckBlas(
        cublasLtMatmul(handle_, plan.description->operation(), &alpha, b, plan.description->first(),
                       a, plan.description->second(), &beta, c, plan.description->result(), c,
                       plan.description->result(), &plan.algorithm,
                       workspace_.mutable_data<float>(), kWorkspaceBytes, stream),
        "cublasLtMatmul");
  }

  bool CanAddBias(const Product& product, const void* a, const void* b, const void* c) {
    return PlanFor(product, /*with_bias=*/true, AlignmentOf(a, b, c)).exists;
  }

  void set_mode(Float32Products mode) { mode_ = mode; }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, DType, DType, int, uint32_t, Float32Products>;

  const Plan& PlanFor(const Product& p, bool with_bias, uint32_t alignment) {
    const int flags =
        (p.transpose_a ? 1 : 0) | (p.transpose_b ? 2 : 0) | (p.add ? 4 : 0) | (with_bias ? 8 : 0);
    const Key key{p.m,        p.n,       p.k,       p.a_stride, p.b_stride,
                  p.c_stride, p.batches, p.a_batch, p.b_batch,  p.c_batch,
                  p.operands, p.result,  flags,     alignment,  mode_};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    Plan plan{.description = std::make_unique<ProductDescription>(p, mode_, with_bias)};
    const AlgorithmPreference preference(kWorkspaceBytes, alignment);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.description->operation(), plan.description->first(),
        plan.description->second(), plan.description->result(), plan.description->result(),
        preference.get(), 1, &result, &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      CheckBlas(status, "cublasLtMatmulAlgoGetHeuristic");
    }
    plan.exists = count == 1;
    plan.algorithm = result.algo;
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  cublasLtHandle_t handle_ = nullptr;
  Tensor workspace_;
  Float32Products mode_ = Float32Products::kExact;
  std::map<Key, Plan> plans_;
};

Products& TheProducts() {
  // Never destroyed: the device goes away with the process.
  static auto* products = new Products;
  return *products;
}

}  // namespace

void SetFloat32Products(Float32Products mode) { TheProducts().set_mode(mode); }

bool CanAddBias(const Product& product, const void* a, const void* b, const void* c) {
  return TheProducts().CanAddBias(product, a, b, c);
}

void Multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
              cudaStream_t stream) {
  TheProducts().Multiply(product, a, b, bias, c, stream);
}

}  // namespace tost::cuda
