// race.cpp - access checker. Kernel files are compiled with -fsanitize=thread, but instead of
// libtsan the program links this file, which defines the __tsan_* callbacks itself: every load and
// store of a kernel arrives here with its address. Reports races (shared and global), accesses
// outside live device memory, reads of bytes never written, and accesses to another thread's stack.
// Not instrumented itself.
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/simt/simt_impl.h"

extern "C" char __executable_start, end;  // bounds of the program image, from the linker
namespace tost::simt {
// One cell per 4 bytes. who: 0 = nobody; else thread+1, with block in the high half; many = several
// readers.
struct cell {
  std::uint32_t wb, rb, wt, rt;
  std::uint16_t wid, rid;
  std::uint8_t wmask, rmask, watomic, init;
};
constexpr std::uint16_t many_block = 0xfffe, many_grid = 0xffff;
struct shadow {
  std::size_t n;
  std::vector<cell> c;
  std::uint64_t launch = 0;
};
static std::map<const char*, shadow> global_sh, shared_sh;
static shadow* last_sh = nullptr;
static const char* last_p = nullptr;
static std::uint64_t launch_no = 0;
static const char* tls_p = nullptr;
static std::size_t tls_n = 0;  // thread-local block of the program

static bool ordered(const fiber& f, std::uint16_t tid,
                    std::uint32_t t) {  // did that access happen before f's last sync?
  if (t < f.block_t) return true;
  return tid < many_block && (tid - 1u) / 32 == f.id / 32 && t < f.warp_t &&
         (f.warp_mask >> ((tid - 1u) & 31) & 1);
}
static void access(const void* a, unsigned n, bool write, bool atomic, const void* site) {
  worker* w = W;
  if (!w || !w->cur) return;
  fiber& f = *w->cur;
  const char* p = static_cast<const char*>(a);
  if (std::size_t off = std::size_t(p - w->stacks); off < w->nstacks * stack_bytes) {
    if (off / stack_bytes != f.id)
      fail("access to the stack of another thread: " + where() + " at " + site_name(site));
    return;
  }
  if (!write && p >= static_cast<char*>(w->ctx) &&
      p + n <= static_cast<char*>(w->ctx) + w->ctx_bytes)
    return;  // kernel parameters
  for (const void* v : {(const void*)&threadIdx, (const void*)&blockIdx, (const void*)&blockDim,
                        (const void*)&gridDim})
    if (!write && p >= v && p + n <= static_cast<const char*>(v) + 12) return;
  ++w->c.accesses;
  if (!last_sh || p < last_p || p + n > last_p + last_sh->n) {
    last_sh = nullptr;
    for (auto* m : {&shared_sh, &global_sh}) {
      auto it = m->upper_bound(p);
      if (it != m->begin() && (--it, p + n <= it->first + it->second.n)) {
        last_p = it->first;
        last_sh = &it->second;
        break;
      }
    }
  }
  const bool sh = last_sh && last_sh->launch == ~0ull;
  if (!last_sh || (!sh && !device_region(p))) {
    last_sh = nullptr;
    if (tls_n && p >= tls_p && p + n <= tls_p + tls_n) {
      shared_sh[tls_p] = {tls_n, std::vector<cell>((tls_n + 3) / 4), ~0ull};
      return access(a, n, write, atomic, site);
    }  // plain __shared__
    for (auto& r : w->statics)
      if (p >= r.p && p + n <= r.p + r.n) {
        auto& s = shared_sh[r.p];
        s = {r.n, std::vector<cell>((r.n + 3) / 4), ~0ull};
        return access(a, n, write, atomic, site);
      }
    if (!write && p >= &__executable_start && p < &end) return;  // constants and __constant__ data
    char b[64];
    std::snprintf(b, sizeof b, "%s of %u bytes at %p ", write ? "write" : "read", n, a);
    fail(std::string("illegal ") + b + "(not in device or shared memory): " + where() + " at " +
         site_name(site));
  }
  if (reinterpret_cast<std::uintptr_t>(p) % (n >= 16 ? 16 : n))
    fail("misaligned access: " + where() + " at " + site_name(site));
  if (!sh && last_sh->launch != launch_no) {  // new launch: forget accesses, keep init bits
    for (auto& c : last_sh->c) {
      auto i = c.init;
      c = {};
      c.init = i;
    }
    last_sh->launch = launch_no;
  }
  const std::uint32_t blk = w->block;
  const std::uint16_t me = std::uint16_t(f.id + 1);
  for (std::size_t o = std::size_t(p - last_p), e = o + n; o < e;) {
    cell& c = last_sh->c[o / 4];
    const unsigned lo = o % 4, len = unsigned(std::min<std::size_t>(4 - lo, e - o));
    const std::uint8_t m = std::uint8_t(((1u << len) - 1) << lo);
    o += len;
    const bool w_conf = c.wid && (c.wmask & m) && !(atomic && c.watomic) &&
                        (c.wb != blk || (c.wid != me && !ordered(f, c.wid, c.wt)));
    const bool r_conf =
        write && c.rid && (c.rmask & m) &&
        (c.rid == many_grid || c.rb != blk || (c.rid != me && !ordered(f, c.rid, c.rt)));
    if (w_conf || r_conf)
      fail(std::string("race on ") + (sh ? "shared" : "global") + " memory: " +
           (atomic  ? "atomic"
            : write ? "write"
                    : "read") +
           " after unordered " + (w_conf ? "write" : "read") + " by block " +
           std::to_string(w_conf ? c.wb : c.rb) +
           (!w_conf && c.rid >= many_block
                ? std::string(", several threads")
                : ", thread " + std::to_string(int(w_conf ? c.wid : c.rid) - 1)) +
           ": " + where() + " at " + site_name(site));
    if ((!write || atomic) && (c.init & m) != m)
      fail(std::string("read of uninitialised ") + (sh ? "shared" : "global") +
           " memory: " + where() + " at " + site_name(site));
    if (write) {
      c.wid = me;
      c.wb = blk;
      c.wt = w->clock;
      c.watomic = atomic;
      c.wmask = m;
      c.init |= m;
      c.rid = 0;
      c.rmask = 0;
    } else if (!c.rid || (c.rid == me && c.rb == blk) ||
               (c.rb == blk && c.rid < many_block && ordered(f, c.rid, c.rt))) {
      c.rid = me;
      c.rb = blk;
      c.rt = w->clock;
      c.rmask = m;
    } else {
      c.rid = c.rb == blk && c.rid != many_grid ? many_block : many_grid;
      c.rt = w->clock;
      c.rmask |= m;
    }
  }
}
static void begin_block(worker& w) {
  shared_sh.clear();
  last_sh = nullptr;
  if (w.dyn.p) shared_sh[w.dyn.p] = {w.dyn.n, std::vector<cell>((w.dyn.n + 3) / 4), ~0ull};
}
static void mark_initialised(const void* p,
                             std::size_t n) {  // cudaMemcpy / cudaMemset from the host
  auto it = global_sh.upper_bound(static_cast<const char*>(p));
  if (it == global_sh.begin()) return;
  --it;
  const std::size_t o = std::size_t(static_cast<const char*>(p) - it->first);
  for (std::size_t i = o; i < o + n; ++i) it->second.c[i / 4].init |= std::uint8_t(1u << i % 4);
}
static struct install {
  install() {
    hooks.host_write = mark_initialised;
    dl_iterate_phdr(
        [](dl_phdr_info* i, std::size_t, void*) {
          for (int k = 0; k < i->dlpi_phnum; ++k)
            if (i->dlpi_phdr[k].p_type == PT_TLS) {
              tls_p = static_cast<char*>(i->dlpi_tls_data);
              tls_n = i->dlpi_phdr[k].p_memsz;
            }
          return 1;
        },
        nullptr);  // first entry = the program itself
    hooks.block_begin = begin_block;
    hooks.launch_begin = [](worker&) {
      ++launch_no;
      last_sh = nullptr;
    };
    hooks.atomic = [](const void* p, unsigned n, bool wr, const void* site) {
      access(p, n, wr, true, site);
    };
    hooks.device_alloc = [](void* p, std::size_t n) {
      last_sh = nullptr;
      char* q = static_cast<char*>(p);
      std::erase_if(global_sh,
                    [=](auto& kv) { return kv.first < q + n && q < kv.first + kv.second.n; });
      global_sh[q] = {n, std::vector<cell>((n + 3) / 4), 0};
    };
  }
} install_;
}  // namespace tost::simt

#define RA __builtin_return_address(0)
#define HOOK(n)                                                                               \
  extern "C" void __tsan_read##n(void* p) { simt::access(p, n, false, false, RA); }           \
  extern "C" void __tsan_write##n(void* p) { simt::access(p, n, true, false, RA); }           \
  extern "C" void __tsan_unaligned_read##n(void* p) { simt::access(p, n, false, false, RA); } \
  extern "C" void __tsan_unaligned_write##n(void* p) { simt::access(p, n, true, false, RA); }
HOOK(1) HOOK(2) HOOK(4) HOOK(8) HOOK(16) extern "C" {
  void __tsan_init() {}
  void __tsan_func_entry(void*) {}
  void __tsan_func_exit() {}
  void __tsan_vptr_update(void**, void*) {}
  void __tsan_vptr_read(void**) {}
  void __tsan_read_range(void* p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) simt::access((char*)p + i, 1, false, false, RA);
  }
  void __tsan_write_range(void* p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) simt::access((char*)p + i, 1, true, false, RA);
  }
}
