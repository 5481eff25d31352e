#ifndef TOST_TESTS_SIMT_SIMT_IMPL_H_
#define TOST_TESTS_SIMT_SIMT_IMPL_H_
// simt_impl.hpp - state shared by the scheduler (simt.cpp) and the access checker (race.cpp).

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <vector>

#include "tests/simt/simt.h"

namespace tost::simt {
enum class state : unsigned char { ready, at_block, at_warp, done };
struct fiber {
  void* sp;
  char* stack;
  uint3 tid;
  unsigned id;
  state st;
  const void* site;
  std::uint32_t block_t, warp_t;
  unsigned warp_mask;  // when this thread last passed a block / warp sync
};
struct snapshot {
  std::uint64_t v[32];
  unsigned mask, arrived, unread;
  op kind;
};
struct warp {
  snapshot pool[33];
  snapshot* pend[32];
  unsigned exited, pending;
};
struct region {
  char* p;
  std::size_t n;
  const void* tag;
};
struct worker {
  std::vector<fiber> f;
  std::vector<warp> w;
  std::vector<unsigned> q;
  std::size_t qh = 0, qn = 0;
  std::vector<region> statics;
  region dyn{};
  char* stacks = nullptr;
  std::size_t nstacks = 0;
  fiber* cur = nullptr;
  void* main_sp = nullptr;
  std::string err;
  unsigned nthreads = 0, live = 0, waiting = 0;
  std::uint32_t clock = 0, block = 0;
  std::uint64_t rng = 0;
  void (*call)(void*) = nullptr;
  void* ctx = nullptr;
  std::size_t ctx_bytes = 0;
  const void* kernel = nullptr;
  counters c{};
};
extern thread_local worker* W;
constexpr std::size_t stack_bytes = 64 * 1024;
std::string site_name(const void* pc);
std::string where();                         // "kernel, block (..), thread (..)"
const region* device_region(const void* p);  // live cudaMalloc block holding p
struct hooks_t {
  void (*block_begin)(worker&);
  void (*launch_begin)(worker&);
  void (*atomic)(const void*, unsigned, bool, const void*);
  void (*device_alloc)(void*, std::size_t), (*host_write)(const void*, std::size_t);
};
extern hooks_t hooks;  // all null unless race.cpp is linked in
}  // namespace tost::simt
#endif  // TOST_TESTS_SIMT_SIMT_IMPL_H_
