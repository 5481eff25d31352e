// A device that is the CPU behind a fence: its memory cannot be touched but by copies and kernels.
// Whatever else of the program reads or writes a tensor's bytes on the host ends with SIGSEGV here,
// as it would end on a GPU. The kernels are the CPU's, so a run on it has the CPU's bits.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "autograd/base/block_cache.h"
#include "autograd/base/errors.h"
#include "autograd/device.h"
#include "autograd/device_backend.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/binary_functors.h"
#include "ops/class_attention.h"
#include "ops/conv2d.h"
#include "ops/cross_covariance_attention.h"
#include "ops/dropout.h"
#include "ops/elementwise_kernels.h"
#include "ops/embedding.h"
#include "ops/ista.h"
#include "ops/layer_norm.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/optimizer_kernels.h"
#include "ops/reduce.h"
#include "ops/reduce_functors.h"
#include "ops/residual.h"
#include "ops/softmax.h"
#include "ops/tssa.h"
#include "ops/unary_functors.h"

namespace tost {
namespace {

constexpr size_t kArenaBytes = size_t{1} << 30;
constexpr size_t kAlignment = 64;

// Address space that is open while a copy or kernel runs.
class Arena {
 public:
  Arena() {
    void* bytes =
        mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TOST_CHECK(bytes != MAP_FAILED) << "no address space for the guarded device";
    // Opening and closing cost by the page.
    madvise(bytes, kArenaBytes, MADV_HUGEPAGE);
    begin_ = static_cast<std::byte*>(bytes);
  }
  void* Take(size_t bytes) {
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ + size > kArenaBytes) return nullptr;
    used_ += size;
    return begin_ + used_ - size;
  }
  int64_t unused() const { return static_cast<int64_t>(kArenaBytes - used_); }
  void Open() {
    if (depth_++ == 0) Protect(PROT_READ | PROT_WRITE);
  }
  void Close() {
    if (--depth_ == 0) Protect(PROT_NONE);
  }

 private:
  void Protect(int protection) {
    TOST_CHECK(mprotect(begin_, kArenaBytes, protection) == 0) << "mprotect";
  }

  std::byte* begin_;
  size_t used_ = 0;
  int depth_ = 0;  // kernels call kernels; all on the thread that computes
};

Arena& TheArena() {
  static auto* arena = new Arena;  // outlives every tensor
  return *arena;
}

class Opened {
 public:
  Opened() { TheArena().Open(); }
  ~Opened() { TheArena().Close(); }
};

class GuardedRuntime final : public DeviceRuntime {
 public:
  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* block, size_t bytes) override { blocks_.Release(block, bytes); }
  void CopyIn(void* device, const void* host, size_t bytes) override { Copy(device, host, bytes); }
  void CopyOut(void* host, const void* device, size_t bytes) override { Copy(host, device, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    const Opened opened;
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void FillZero(void* device, size_t bytes) override {
    const Opened opened;
    std::memset(device, 0, bytes);
  }
  void Synchronize() override {}
  MemoryStatistics Memory() const override { return blocks_.Memory(); }
  void ResetPeakMemory() override { blocks_.ResetPeakMemory(); }
  int64_t FreeBytes() const override { return TheArena().unused(); }

 private:
  // The arena is never given back: what is released waits in the cache.
  BlockCache blocks_{
      {.allocate = [](size_t size) { return TheArena().Take(size); }, .release = [](void*) {}}};
};

// The CPU's kernel of a slot, run with the arena open.
template <auto& kSlot>
struct Guarded;
template <class Result, class... Arguments, ops::Kernel<Result(Arguments...)>& kSlot>
struct Guarded<kSlot> {
  static Result Run(Arguments... arguments) {
    const Opened opened;
    return kSlot.On(DeviceType::kCpu).function()(arguments...);
  }
  static void Install() { kSlot.Install(DeviceType::kCuda, &Run); }
};

template <auto&... kSlots>
void InstallAll() {
  (Guarded<kSlots>::Install(), ...);
}

template <class F>
void InstallUnary() {
  InstallAll<ops::unary_kernel<F>, ops::unary_backward_kernel<F>>();
}

// Those of the primitives that models and trainers use.
void InstallPrimitives() {
  InstallUnary<ops::functor::GeluExact>();
  InstallUnary<ops::functor::GeluByTanh>();
  InstallUnary<ops::functor::Affine>();
  InstallUnary<ops::functor::Clamped>();
  InstallUnary<ops::functor::Logarithm>();
  InstallAll<ops::binary_kernel<ops::functor::Sum>>();
  InstallAll<ops::reduce_kernel<ops::functor::Total>, ops::reduce_kernel<ops::functor::Largest>,
             ops::reduce_kernel<ops::functor::SumOfExponentials>>();
}

absl::Status Install(int) {
  InstallRuntime(DeviceType::kCuda, std::make_unique<GuardedRuntime>());
  using namespace ops;  // NOLINT: a list of its names
  InstallAll<attention_kernel, attention_backward_kernel, attention_fill_kernel,
             attention_step_kernel, squared_deviations_kernel, normalise_channels_kernel,
             batch_norm_gradient_sums_kernel, batch_norm_backward_kernel, track_statistic_kernel,
             reciprocal_deviation_kernel, class_attention_kernel, class_attention_backward_kernel,
             unfold_kernel, fold_kernel, rearrange_conv_weight_kernel, cross_covariance_kernel,
             cross_covariance_backward_kernel, dropout_kernel, scaled_copy_kernel, embedding_kernel,
             embedding_table_backward_kernel, embedding_positions_backward_kernel,
             ista_residual_kernel, ista_threshold_kernel, ista_gradient_kernel, ista_combine_kernel,
             layer_norm_kernel, layer_norm_backward_kernel, permute_kernel, copy_range_kernel,
             index_select_kernel, index_select_backward_kernel, gather_kernel,
             gather_backward_kernel, gemm_kernel, linear_kernel, linear_gelu_kernel,
             linear_gelu_backward_kernel, sum_rows_kernel>();
  InstallAll<cross_entropy_kernel, cross_entropy_backward_kernel, count_targets_kernel,
             soft_cross_entropy_kernel, soft_cross_entropy_backward_kernel,
             projected_cross_entropy_kernel, scale_gradient_kernel, sum_losses_kernel,
             matmul_kernel, squared_norm_kernel, begin_update_kernel, adamw_kernel, sgd_kernel,
             exponential_moving_average_kernel, cumsum_kernel, scaled_residual_kernel,
             scaled_residual_backward_kernel, accumulate_kernel, softmax_kernel, log_softmax_kernel,
             softmax_backward_kernel, log_softmax_backward_kernel, tssa_kernel,
             tssa_backward_kernel, causal_tssa_kernel, causal_tssa_backward_kernel,
             causal_tssa_step_kernel>();
  InstallPrimitives();
  return absl::OkStatus();
}

}  // namespace

const DeviceBackend* CudaBackend() {
  static constexpr DeviceBackend kBackend{
      .device_count = [] { return absl::StatusOr<int>(1); },
      .install = &Install,
      .describe = [](int) { return std::string("the CPU behind a fence"); }};
  return &kBackend;
}

}  // namespace tost
