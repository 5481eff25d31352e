// Shared memory of the running block, and atomics.
#include <algorithm>
#include <cstdlib>

#include "tests/simt/checks.h"
#include "tests/simt/execution.h"
#include "tests/simt/launch.h"
#include "tests/simt/memory.h"

namespace tost::simt {
namespace {

constexpr int kNaNByte = 0xff;

SharedMemory AllocateArray(size_t bytes, const void* tag) {
  constexpr size_t kAlignment = 128;
  const SharedMemory array{.begin = AllocateWithGap(kAlignment, bytes), .bytes = bytes, .tag = tag};
  if (array.begin == nullptr) std::abort();
  std::memset(array.begin, kNaNByte, bytes);
  return array;
}

// Returns the old value. Every atomic goes through here, as a call, so that kernels under the
// checker do not count it among plain accesses.
template <class T, class Change>
T ChangeAtomically(T* at, const void* site, const Change& change) {
  if (checks != nullptr) checks->atomic(at, sizeof(T), site);
  const T old = *at;
  *at = change(old);
  return old;
}

}  // namespace

void AllocateShared(const KernelCall& call) {
  execution.dynamic = {};
  if (call.shared_bytes > 0) execution.dynamic = AllocateArray(call.shared_bytes, nullptr);
}

void ClearShared() {
  const SharedMemory& dynamic = execution.dynamic;
  if (dynamic.bytes > 0) std::memset(dynamic.begin, kNaNByte, dynamic.bytes);
  for (const SharedMemory& array : execution.declared) {
    std::memset(array.begin, kNaNByte, array.bytes);
  }
}

void FreeShared() {
  std::free(execution.dynamic.begin);
  for (const SharedMemory& array : execution.declared) std::free(array.begin);
  execution.declared.clear();
  execution.dynamic = {};
}

void* SharedArray(const void* tag, size_t bytes) {
  Execution& e = execution;
  size_t total = e.dynamic.bytes + bytes;
  for (const SharedMemory& array : e.declared) {
    if (array.tag == tag) return array.begin;
    total += array.bytes;
  }
  if (total - e.dynamic.bytes > kSharedBytesByDefault) {
    Fail("more than 48 KiB of declared shared memory");
  }
  if (total > SharedBytesAllowed(e.call->kernel)) {
    Fail("declared and dynamic shared memory together are " + std::to_string(total) +
         " bytes, more than the kernel may have");
  }
  e.declared.push_back(AllocateArray(bytes, tag));
  return e.declared.back().begin;
}

void* DynamicShared() {
  if (execution.dynamic.begin == nullptr) Fail("the launch gives no dynamic shared memory");
  return execution.dynamic.begin;
}

int AtomicAdd(int* to, int value) {
  return static_cast<int>(AtomicAdd(reinterpret_cast<unsigned*>(to), static_cast<unsigned>(value)));
}
unsigned AtomicAdd(unsigned* to, unsigned value) {
  return ChangeAtomically(to, __builtin_return_address(0),
                          [value](unsigned old) { return old + value; });
}
unsigned long long AtomicAdd(unsigned long long* to, unsigned long long value) {
  return ChangeAtomically(to, __builtin_return_address(0),
                          [value](unsigned long long old) { return old + value; });
}
int AtomicMax(int* to, int value) {
  return ChangeAtomically(to, __builtin_return_address(0),
                          [value](int old) { return std::max(old, value); });
}

}  // namespace tost::simt
