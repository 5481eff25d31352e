// ptx_rt.hpp - what the output of ptx2cpp.py is written against.
#ifndef TOST_TESTS_SIMT_PTX_RUNTIME_H_
#define TOST_TESTS_SIMT_PTX_RUNTIME_H_

#include <algorithm>
#include <bit>

#include "cuda/gpu.h"
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
constexpr u32 DYN = 0x10000000u;  // shared-window offset at which dynamic shared memory starts
template <class T, class R>
inline T rd(R r) {  // register bits as a value
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == sizeof(R));
    return std::bit_cast<T>(r);
  } else
    return static_cast<T>(r);
}
template <class R, class T>
inline void wr(R& r, T v) {
  if constexpr (std::is_floating_point_v<T>)
    r = std::bit_cast<std::conditional_t<sizeof(T) == 4, u32, u64>>(v);
  else
    r = static_cast<R>(v);  // sign- or zero-extends as the type says
}
template <class T>
inline T shift(T v, u32 n, bool left) {  // PTX clamps shift counts
  constexpr u32 w = sizeof(T) * 8;
  if (left) return n >= w ? T(0) : static_cast<T>(static_cast<u64>(v) << n);
  return n >= w ? (v < T(0) ? static_cast<T>(-1) : T(0)) : static_cast<T>(v >> n);
}
template <class T>
inline T ldm(const void* p, int i) {
  return static_cast<const T*>(p)[i];
}
template <class T>
inline void stm(void* p, int i, T v) {
  static_cast<T*>(p)[i] = v;
}
inline float bf16_to_f(u16 b) { return std::bit_cast<float>(u32(b) << 16); }
inline u16 f_to_bf16(float f) {  // round to nearest even
  const u32 u = std::bit_cast<u32>(f);
  return (u & 0x7fffffffu) > 0x7f800000u ? u16(0x7fff) : u16((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
#define GL(a) reinterpret_cast<void*>(a)
#define SH(a) ((a) >= DYN ? static_cast<char*>(tost::simt::dyn_shared(16)) + ((a)-DYN) : S + (a))
inline __attribute__((noinline)) const void* PC() { return __builtin_return_address(0); }
struct SF {
  u32 v;
  bool p;
};
inline u32 lane_id() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u;
}
inline SF shfl(tost::simt::op k, u32 v, u32 b, u32 c, u32 mask, const void* pc) {
  const int w = 32 - int(c >> 8 & 31), ln = int(lane_id()), lo = ln & ~(w - 1), d = int(b & 31);
  const bool in = k == tost::simt::op::up     ? ln - d >= lo
                  : k == tost::simt::op::down ? ln + d < lo + w
                  : k == tost::simt::op::bxor ? (ln ^ d) < lo + w
                                              : true;
  return {static_cast<u32>(tost::simt::shuffle(k, mask, v, d, w, pc)), in};
}

#endif  // TOST_TESTS_SIMT_PTX_RUNTIME_H_
