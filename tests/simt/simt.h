// CUDA for kernels that g++ compiles: the words that nvcc knows by itself. Included by cuda/gpu.h.
//
// Each thread of a block is a fiber; barriers and warp collectives switch fibers. CUDA's own
// headers give dim3, float4, __nv_bfloat16 and the declarations of the runtime. Memory is
// sequentially consistent. An intrinsic that is missing here is added together with a test.
#ifndef TOST_TESTS_SIMT_SIMT_H_
#define TOST_TESTS_SIMT_SIMT_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

#include "tests/simt/emulator.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static_assert(false, "write TOST_SHARED or TOST_DYNAMIC_SHARED");
#define __constant__ static_assert(false, "pass constants as kernel arguments");
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define TOST_SIMT_NOINLINE inline __attribute__((noinline))

// A block of memory of exactly this size for each running block of threads: accesses beyond it are
// seen.
#define TOST_SHARED(type, name, extents)                                  \
  using tost_shared_type_##name = type extents;                           \
  static constexpr char tost_shared_tag_##name = 0;                       \
  tost_shared_type_##name& name = *static_cast<tost_shared_type_##name*>( \
      ::tost::simt::SharedArray(&tost_shared_tag_##name, sizeof(tost_shared_type_##name)))
#define TOST_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::tost::simt::DynamicShared())

// Written by the scheduler at every switch.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

namespace tost::simt {

void* SharedArray(const void* tag, size_t bytes);
void* DynamicShared();

// `site` is where the caller was called, for messages.
void Barrier(const void* site);
enum class Collective : uint8_t { kSyncWarp, kIndex, kUp, kDown, kXor, kVote };
// Both wait for the lanes in `mask`. The bits of the source lane; the lanes whose `predicate`
// holds.
uint64_t Shuffle(Collective kind, unsigned mask, uint64_t bits, int argument, int width,
                 const void* site);
unsigned Ballot(Collective kind, unsigned mask, bool predicate, const void* site);

template <class T>
__attribute__((noinline)) T ShuffleValue(Collective kind, unsigned mask, T value, int argument,
                                         int width) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = Shuffle(kind, mask, bits, argument, width, __builtin_return_address(0));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Integers only: sums of floats in the order of threads are forbidden.
int AtomicAdd(int* to, int value);
unsigned AtomicAdd(unsigned* to, unsigned value);
unsigned long long AtomicAdd(unsigned long long* to, unsigned long long value);
int AtomicMax(int* to, int value);

// A launch with copies of its arguments.
struct KernelCall {
  dim3 grid, block;
  size_t shared_bytes = 0;
  const void* kernel = nullptr;
  std::shared_ptr<const void> arguments;
  size_t argument_bytes = 0;
  void (*run_thread)(const void* arguments) = nullptr;
  // Writes the arguments as nvcc lays them out: in order, at their natural alignment.
  void (*pack)(const void* arguments, unsigned char* parameters) = nullptr;
};
inline constexpr size_t kParameterBytes = 4096;  // CUDA's limit

void Launch(KernelCall call, cudaStream_t stream);

template <class... Parameters>
struct Arguments {
  void (*kernel)(Parameters...);
  std::tuple<std::remove_cv_t<Parameters>...> values;

  static void RunThread(const void* arguments) {
    const auto* call = static_cast<const Arguments*>(arguments);
    std::apply(call->kernel, call->values);
  }
  static void Pack(const void* arguments, unsigned char* parameters) {
    size_t offset = 0;
    const auto put = [&](const auto& value) {
      constexpr size_t kAlignment = alignof(std::remove_reference_t<decltype(value)>);
      offset = (offset + kAlignment - 1) / kAlignment * kAlignment;
      std::memcpy(parameters + offset, &value, sizeof(value));
      offset += sizeof(value);
    };
    std::apply([&](const auto&... value) { (put(value), ...); },
               static_cast<const Arguments*>(arguments)->values);
  }
};

}  // namespace tost::simt

namespace tost::gpu {

inline constexpr bool kEmulated = true;

using simt::HandOut;

template <class... Parameters, class... Given>
void Start(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
           cudaStream_t stream, const Given&... given) {
  using Arguments = simt::Arguments<Parameters...>;
  static_assert(sizeof(Arguments) <= simt::kParameterBytes);
  simt::Launch({.grid = grid,
                .block = block,
                .shared_bytes = shared_bytes,
                .kernel = reinterpret_cast<const void*>(kernel),
                .arguments = std::make_shared<const Arguments>(
                    Arguments{kernel, {static_cast<Parameters>(given)...}}),
                .argument_bytes = sizeof(Arguments),
                .run_thread = &Arguments::RunThread,
                .pack = &Arguments::Pack},
               stream);
}

}  // namespace tost::gpu

TOST_SIMT_NOINLINE void __syncthreads() { ::tost::simt::Barrier(__builtin_return_address(0)); }
TOST_SIMT_NOINLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  ::tost::simt::Ballot(::tost::simt::Collective::kSyncWarp, mask, false,
                       __builtin_return_address(0));
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return ::tost::simt::ShuffleValue(::tost::simt::Collective::kIndex, mask, value, lane, width);
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return ::tost::simt::ShuffleValue(::tost::simt::Collective::kUp, mask, value,
                                    static_cast<int>(distance), width);
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return ::tost::simt::ShuffleValue(::tost::simt::Collective::kDown, mask, value,
                                    static_cast<int>(distance), width);
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return ::tost::simt::ShuffleValue(::tost::simt::Collective::kXor, mask, value, lanes, width);
}
TOST_SIMT_NOINLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::tost::simt::Ballot(::tost::simt::Collective::kVote, mask, predicate != 0,
                              __builtin_return_address(0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

template <class T>
T atomicAdd(T* to, T value) {
  static_assert(!std::is_floating_point_v<T>, "sums of floats must not depend on thread order");
  return ::tost::simt::AtomicAdd(to, value);
}
inline int atomicMax(int* to, int value) { return ::tost::simt::AtomicMax(to, value); }

template <class T>
__forceinline__ T __ldg(const T* from) {
  return *from;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
using std::max;
using std::min;

#endif  // TOST_TESTS_SIMT_SIMT_H_
