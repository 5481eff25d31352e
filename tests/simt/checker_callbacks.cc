// The functions that -fsanitize=thread calls, in place of libtsan.
#include <cstdint>

#include "tests/simt/checker.h"

using tost::simt::Access;
using tost::simt::CheckAccess;

#define TOST_CALLER __builtin_return_address(0)
#define TOST_ACCESS(bytes)                                                                  \
  void __tsan_read##bytes(void* p) { CheckAccess(p, bytes, Access::kRead, TOST_CALLER); }   \
  void __tsan_write##bytes(void* p) { CheckAccess(p, bytes, Access::kWrite, TOST_CALLER); } \
  void __tsan_unaligned_read##bytes(void* p) {                                              \
    CheckAccess(p, bytes, Access::kRead, TOST_CALLER);                                      \
  }                                                                                         \
  void __tsan_unaligned_write##bytes(void* p) {                                             \
    CheckAccess(p, bytes, Access::kWrite, TOST_CALLER);                                     \
  }
// Host code of the same files uses atomics. Order as strong as any.
#define TOST_ATOMIC(bits, type)                                                                    \
  type __tsan_atomic##bits##_load(const volatile type* p, int) {                                   \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile type* p, type v, int) {                                \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_add(volatile type* p, type v, int) {                            \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_sub(volatile type* p, type v, int) {                            \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_and(volatile type* p, type v, int) {                            \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  type __tsan_atomic##bits##_fetch_or(volatile type* p, type v, int) {                             \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                              \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* expected, type v,     \
                                                     int, int) {                                   \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* expected, type v, int,  \
                                                   int) {                                          \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }

extern "C" {
TOST_ACCESS(1)
TOST_ACCESS(2)
TOST_ACCESS(4)
TOST_ACCESS(8)
TOST_ACCESS(16)
TOST_ATOMIC(8, uint8_t)
TOST_ATOMIC(32, uint32_t)
TOST_ATOMIC(64, uint64_t)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, size_t bytes) { CheckAccess(p, bytes, Access::kRead, TOST_CALLER); }
void __tsan_write_range(void* p, size_t bytes) {
  CheckAccess(p, bytes, Access::kWrite, TOST_CALLER);
}
void __tsan_atomic_thread_fence(int) {}
}
