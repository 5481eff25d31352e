// simt.hpp - CUDA execution model on the host: each thread of a block is a fiber, barriers and
// warp collectives are fiber switches. Included through gpu.cuh when the compiler is not nvcc.
// Sequentially consistent, no timing; finds functional errors, missing barriers and races.

#ifndef TOST_TESTS_SIMT_SIMT_H_
#define TOST_TESTS_SIMT_SIMT_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

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
#define __shared__ static thread_local  // one instance per OS worker thread = per running block
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define TOST_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::tost::simt::dyn_shared(alignof(type)))
// TOST_SHARED(float, tile, [32][33]): exact-size heap block per running block -> bounds and race
// checks.
#define TOST_SHARED(type, name, dims)                     \
  using name##_shared_t = type dims;                      \
  static const char name##_tag = 0;                       \
  name##_shared_t& name = *static_cast<name##_shared_t*>( \
      ::tost::simt::static_shared(&name##_tag, sizeof(name##_shared_t)))

// Plain variables, as in CUDA; the scheduler rewrites threadIdx on every fiber switch.
extern thread_local constinit uint3 threadIdx;
extern thread_local constinit uint3 blockIdx;
extern thread_local constinit dim3 blockDim;
extern thread_local constinit dim3 gridDim;
inline constexpr int warpSize = 32;

namespace tost::simt {
bool checks_accesses();  // whether the access checker is linked in
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class order { forward, reverse, random };
struct options {  // set from a test before launching
  order schedule = order::random;
  std::uint64_t seed = 1;   // fiber order, block order
  unsigned os_threads = 1;  // blocks in parallel; forced to 1 when race checking is linked in
  bool strict_exit = true;  // a thread leaving while others wait at __syncthreads is an error
  std::size_t max_smem = 227 * 1024;
};
options& opts();
struct counters {
  std::uint64_t launches, ptx_launches, blocks, threads, switches, barriers, collectives, accesses;
};
counters& stats();

void* dyn_shared(std::size_t align);
void* static_shared(const void* tag, std::size_t bytes);
void block_barrier(const void* site);
enum class op : unsigned char { syncwarp, idx, up, down, bxor, vote };
// Each waits for the lanes in mask. Return value: the source lane's bits / the ballot.
std::uint64_t shuffle(op k, unsigned mask, std::uint64_t v, int arg, int width, const void* site);
unsigned ballot(op k, unsigned mask, bool p, const void* site);
void fail(const std::string& what);  // ends the running launch; launch() throws
void run_grid(dim3 g, dim3 b, std::size_t smem, void (*call)(void*),
              void (*pack)(void*, unsigned char*), void* ctx, std::size_t ctx_bytes,
              const void* kernel);
// Registered by the output of ptx2cpp.py: launches of the kernel with that mangled name run nvcc's
// PTX instead.
struct ptx_entry {
  ptx_entry(const char* name, void (*f)(const unsigned char* params));
};

template <class T>
inline std::uint64_t pack(T v) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t u = 0;
  std::memcpy(&u, &v, sizeof v);
  return u;
}
template <class T>
inline T unpack(std::uint64_t u) {
  T v;
  std::memcpy(&v, &u, sizeof v);
  return v;
}
template <class T>
__attribute__((noinline)) T shfl(op k, unsigned mask, T v, int arg, int width) {
  return unpack<T>(shuffle(k, mask, pack(v), arg, width, __builtin_return_address(0)));
}
// Atomics live in the runtime so that instrumented kernels see them as calls, not as plain
// accesses.
float atomic_add(float* p, float v);
double atomic_add(double* p, double v);
int atomic_add(int* p, int v);
unsigned atomic_add(unsigned* p, unsigned v);
unsigned long long atomic_add(unsigned long long* p, unsigned long long v);
int atomic_max(int* p, int v);
unsigned atomic_inc(unsigned* p, unsigned lim);
unsigned atomic_cas(unsigned* p, unsigned cmp, unsigned v);
}  // namespace tost::simt

namespace tost::gpu {

inline constexpr bool kEmulated = true;

template <class... P, class... A>
void Start(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t smem, cudaStream_t,
           const A&... a) {
  struct call_t {
    void (*k)(P...);
    std::tuple<std::remove_cv_t<P>...> args;
  } c{kernel, std::tuple<std::remove_cv_t<P>...>(static_cast<P>(a)...)};
  simt::run_grid(
      grid, block, smem,
      [](void* q) {
        auto* t = static_cast<call_t*>(q);
        std::apply(t->k, t->args);
      },
      [](void* q,
         unsigned char* o) {  // parameter block as nvcc lays it out: natural alignment, in order
        std::size_t n = 0;
        auto put = [&](auto& x) {
          n = (n + alignof(std::remove_reference_t<decltype(x)>) - 1) /
              alignof(std::remove_reference_t<decltype(x)>) *
              alignof(std::remove_reference_t<decltype(x)>);
          std::memcpy(o + n, &x, sizeof x);
          n += sizeof x;
        };
        std::apply([&](auto&... x) { (put(x), ...); }, static_cast<call_t*>(q)->args);
      },
      &c, sizeof c, reinterpret_cast<const void*>(kernel));
}
}  // namespace tost::gpu

#define SIMT_NOINLINE inline __attribute__((noinline))
SIMT_NOINLINE void __syncthreads() { ::tost::simt::block_barrier(__builtin_return_address(0)); }
SIMT_NOINLINE void __syncwarp(unsigned m = 0xffffffffu) {
  ::tost::simt::ballot(::tost::simt::op::syncwarp, m, false, __builtin_return_address(0));
}
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
__forceinline__ T __shfl_sync(unsigned m, T v, int src, int w = 32) {
  return ::tost::simt::shfl(::tost::simt::op::idx, m, v, src, w);
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) {
  return ::tost::simt::shfl(::tost::simt::op::up, m, v, int(d), w);
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) {
  return ::tost::simt::shfl(::tost::simt::op::down, m, v, int(d), w);
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned m, T v, int x, int w = 32) {
  return ::tost::simt::shfl(::tost::simt::op::bxor, m, v, x, w);
}
SIMT_NOINLINE unsigned __ballot_sync(unsigned m, int p) {
  return ::tost::simt::ballot(::tost::simt::op::vote, m, p != 0, __builtin_return_address(0));
}
inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, p) == m; }
template <class T>
T atomicAdd(T* p, T v) {
  return ::tost::simt::atomic_add(p, v);
}
inline int atomicMax(int* p, int v) { return ::tost::simt::atomic_max(p, v); }
inline unsigned atomicInc(unsigned* p, unsigned l) { return ::tost::simt::atomic_inc(p, l); }
inline unsigned atomicCAS(unsigned* p, unsigned c, unsigned v) {
  return ::tost::simt::atomic_cas(p, c, v);
}
template <class T>
__forceinline__ T __ldg(const T* p) {
  return *p;
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __float_as_int(float f) { return ::tost::simt::unpack<int>(::tost::simt::pack(f)); }
inline float __int_as_float(int i) { return ::tost::simt::unpack<float>(::tost::simt::pack(i)); }
using std::max;
using std::min;

#endif  // TOST_TESTS_SIMT_SIMT_H_
