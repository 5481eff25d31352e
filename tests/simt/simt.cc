// simt.cpp - fiber scheduler and runtime of the host SIMT emulator. Never compiled with
// instrumentation.
#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/simt/simt_impl.h"
extern "C" void __asan_unpoison_memory_region(const void*, std::size_t)
    __attribute__((weak));  // present in ASan builds

thread_local constinit uint3 threadIdx{}, blockIdx{};
thread_local constinit dim3 blockDim{}, gridDim{};

// Saves callee-saved registers on the old stack, adopts the new one (x86-64 SysV).
extern "C" void simt_switch(void** save, void* load);
asm(R"(
.text
.globl simt_switch
.type simt_switch,@function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch,.-simt_switch
)");

namespace tost::simt {
thread_local worker* W = nullptr;
hooks_t hooks{};
static counters total;
bool checks_accesses() { return hooks.block_begin != nullptr; }
options& opts() {
  static options o;
  return o;
}
counters& stats() { return total; }
static std::mutex mu;
static std::map<const char*, region> device;  // live device allocations
static std::map<const void*, int>
    smem_opt_in;  // kernels given more than 48 KiB through cudaFuncSetAttribute

static std::uint64_t rnd(worker& w) {
  w.rng ^= w.rng << 13;
  w.rng ^= w.rng >> 7;
  w.rng ^= w.rng << 17;
  return w.rng;
}

std::string site_name(const void* pc) {
  Dl_info d{};
  char b[512];
  if (!pc || !dladdr(pc, &d) || !d.dli_fname) return "?";
  std::snprintf(b, sizeof b, "addr2line -e %s -Csi %#zx 2>/dev/null", d.dli_fname,
                std::size_t((const char*)pc - (const char*)d.dli_fbase) - 1);
  std::string out;
  if (FILE* p = popen(b, "r")) {
    while (fgets(b, sizeof b, p))
      if (out.empty() || out.rfind("simt.hpp", 0) == 0)
        out = b;  // inlined frames: the first one outside the emulator
    pclose(p);
  }
  while (!out.empty() && (out.back() == '\n')) out.pop_back();
  return out.empty() ? "?" : out;
}
static std::string kernel_name(const void* k) {
  Dl_info d{};
  int st = 1;
  if (!dladdr(k, &d) || !d.dli_sname) return "kernel";
  char* n = abi::__cxa_demangle(d.dli_sname, nullptr, nullptr, &st);
  std::string s = st == 0 ? n : d.dli_sname;
  std::free(n);
  return s.substr(0, s.find('('));
}
std::string where() {
  char b[160];
  const uint3 &x = blockIdx, &t = W->cur->tid;
  std::snprintf(b, sizeof b, ", block (%u,%u,%u), thread (%u,%u,%u)", x.x, x.y, x.z, t.x, t.y, t.z);
  return kernel_name(W->kernel) + b;
}

static void push(worker& w, unsigned id) { w.q[(w.qh + w.qn++) % w.q.size()] = id; }
static fiber* pop(worker& w) {
  if (!w.qn) return nullptr;
  const std::size_t n = w.q.size();
  if (opts().schedule == order::random) std::swap(w.q[w.qh], w.q[(w.qh + rnd(w) % w.qn) % n]);
  unsigned id = w.q[w.qh];
  w.qh = (w.qh + 1) % n;
  --w.qn;
  return &w.f[id];
}
static void go(worker& w, void** save, fiber* to) {
  w.cur = to;
  threadIdx = to->tid;
  ++w.c.switches;
  simt_switch(save, to->sp);
}
static void to_main(worker& w) {
  void* dead;
  simt_switch(w.cur ? &w.cur->sp : &dead, w.main_sp);
  __builtin_unreachable();
}
void fail(const std::string& what) {
  if (!W) throw error(what);
  W->err = what;
  to_main(*W);
}

static void deadlock(worker& w) {
  unsigned nb = 0, nw = 0, ne = 0;
  const fiber *b = nullptr, *x = nullptr;
  for (auto& f : w.f) {
    if (f.st == state::at_block) {
      ++nb;
      b = &f;
    }
    if (f.st == state::at_warp) {
      ++nw;
      x = &f;
    }
    if (f.st == state::done) ++ne;
  }
  fail("deadlock in " + where() + ": " + std::to_string(nb) + " threads at __syncthreads" +
       (b ? " (" + site_name(b->site) + ")" : "") + ", " + std::to_string(nw) +
       " in warp collectives" + (x ? " (" + site_name(x->site) + ")" : "") + ", " +
       std::to_string(ne) + " exited");
}
static void block_on(worker& w, state s, const void* site) {
  fiber* me = w.cur;
  me->st = s;
  me->site = site;
  fiber* nx = pop(w);
  if (!nx) deadlock(w);
  if (nx != me) go(w, &me->sp, nx);
}
static void release_block(worker& w, const fiber* self) {
  w.waiting = 0;
  ++w.clock;
  ++w.c.barriers;
  const bool rev = opts().schedule == order::reverse;
  for (unsigned i = 0; i < w.nthreads; ++i) {
    fiber& f = w.f[rev ? w.nthreads - 1 - i : i];
    if (f.st == state::at_block || &f == self) {
      f.st = state::ready;
      f.block_t = f.warp_t = w.clock;
      push(w, f.id);
    }
  }
}
void block_barrier(const void* site) {
  worker& w = *W;
  fiber* me = w.cur;
  if (opts().strict_exit && w.live != w.nthreads)
    fail("__syncthreads reached after " + std::to_string(w.nthreads - w.live) +
         " threads of the block returned: " + where() + " at " + site_name(site));
  if (++w.waiting == w.live) release_block(w, me);
  block_on(w, w.waiting ? state::at_block : state::ready, site);
}
static void finish_group(worker& w, warp& wp, snapshot* s) {
  const unsigned need = s->mask & ~wp.exited;
  const unsigned base = unsigned(&wp - w.w.data()) * 32;
  wp.pend[__builtin_ctz(s->mask)] = nullptr;
  --wp.pending;
  s->unread = unsigned(__builtin_popcount(s->arrived));
  ++w.c.collectives;
  if (s->kind == op::syncwarp) ++w.clock;
  const bool rev = opts().schedule == order::reverse;
  for (int k = 0; k < 32; ++k) {
    const int i = rev ? 31 - k : k;
    if (!(need >> i & 1)) continue;
    fiber& f = w.f[base + unsigned(i)];
    if (s->kind == op::syncwarp) {
      f.warp_t = w.clock;
      f.warp_mask = s->mask;
    }
    f.st = state::ready;
    push(w, f.id);
  }
}
static bool complete(const warp& wp, const snapshot* s) {
  return (s->mask & ~wp.exited & ~s->arrived) == 0;
}

static const snapshot* exchange(op k, unsigned mask, std::uint64_t v, const void* site) {
  worker& w = *W;
  fiber* me = w.cur;
  warp& wp = w.w[me->id / 32];
  const unsigned ln = me->id & 31u;
  if (!(mask >> ln & 1)) fail("lane not in its own mask: " + where() + " at " + site_name(site));
  const int slot = __builtin_ctz(mask);
  snapshot* s = wp.pend[slot];
  if (!s) {
    if (wp.pending)
      for (auto* o : wp.pend)
        if (o && (o->mask & mask))
          fail("overlapping masks of concurrent warp collectives: " + where() + " at " +
               site_name(site));
    for (auto& c : wp.pool)
      if (!c.unread) {
        s = &c;
        break;
      }
    s->mask = mask;
    s->arrived = 0;
    s->kind = k;
    s->unread = 1;
    wp.pend[slot] = s;
    ++wp.pending;
  } else if (s->mask != mask || s->kind != k) {
    fail("warp collective mismatch (mask or kind differs between lanes): " + where() + " at " +
         site_name(site));
  }
  s->v[ln] = v;
  s->arrived |= 1u << ln;
  const bool last = complete(wp, s);
  if (last) finish_group(w, wp, s);
  block_on(w, last ? state::ready : state::at_warp, site);
  --s->unread;
  return s;  // nobody reuses it before the caller switches again
}
std::uint64_t shuffle(op k, unsigned mask, std::uint64_t v, int arg, int width, const void* site) {
  if (width <= 0 || width > 32 || (width & (width - 1)))
    fail("shuffle width is no power of two: " + where());
  const snapshot* s = exchange(k, mask, v, site);
  const int ln = int(W->cur->id & 31u), lo = ln & ~(width - 1), hi = lo + width;
  int src = ln;
  if (k == op::idx)
    src = lo | (arg & (width - 1));
  else if (k == op::up) {
    if (ln - arg >= lo) src = ln - arg;
  } else if (k == op::down) {
    if (ln + arg < hi) src = ln + arg;
  } else if ((ln ^ arg) < hi)
    src = ln ^ arg;
  if (!(s->arrived >> src & 1))
    fail("shuffle reads lane " + std::to_string(src) + " that does not take part: " + where() +
         " at " + site_name(site));
  return s->v[src];
}
unsigned ballot(op k, unsigned mask, bool p, const void* site) {
  const snapshot* s = exchange(k, mask, p, site);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if (s->arrived >> i & 1) r |= unsigned(s->v[i]) << i;
  return r;
}
static void fiber_main() {
  worker& w = *W;
  w.call(w.ctx);
  fiber* me = w.cur;
  me->st = state::done;
  --w.live;
  warp& wp = w.w[me->id / 32];
  wp.exited |= 1u << (me->id & 31u);
  if (wp.pending)
    for (auto* s : wp.pend)
      if (s && (s->mask >> (me->id & 31u) & 1) && complete(wp, s)) finish_group(w, wp, s);
  if (w.waiting) {
    if (opts().strict_exit) fail("thread returned while others wait at __syncthreads: " + where());
    if (w.waiting == w.live) release_block(w, nullptr);
  }
  fiber* nx = pop(w);
  if (nx) go(w, &me->sp, nx);
  if (w.live) deadlock(w);
  to_main(w);
}
void* dyn_shared(std::size_t align) {
  if (!W->dyn.p || reinterpret_cast<std::uintptr_t>(W->dyn.p) % align)
    fail("dynamic shared memory not requested at launch: " + where());
  return W->dyn.p;
}
static char* alloc_smem(std::size_t n) {
  void* p = nullptr;
  if (posix_memalign(&p, 128, n)) throw error("out of memory");
  return static_cast<char*>(p);
}
void* static_shared(const void* tag, std::size_t n) {
  for (auto& r : W->statics)
    if (r.tag == tag) return r.p;
  W->statics.push_back({alloc_smem(n), n, tag});
  std::memset(W->statics.back().p, 0xff, n);
  std::size_t sum = 0;
  for (auto& r : W->statics) sum += r.n;
  if (sum > 48 * 1024) fail("more than 48 KiB of static shared memory: " + where());
  return W->statics.back().p;
}
static void run_block(worker& w, uint3 bi, std::uint32_t linear, dim3 bd) {
  blockIdx = bi;
  w.block = linear;
  w.live = w.nthreads;
  w.waiting = 0;
  w.qh = w.qn = 0;
  w.clock = 1;
  w.cur = nullptr;
  if (w.dyn.p) std::memset(w.dyn.p, 0xff, w.dyn.n);  // NaN pattern: stale data never helps
  for (auto& r : w.statics) std::memset(r.p, 0xff, r.n);
  for (auto& x : w.w) {
    x.exited = 0;
    x.pending = 0;
    for (auto& p : x.pend) p = nullptr;
    for (auto& s : x.pool) s.unread = 0;
  }
  const bool rev = opts().schedule == order::reverse;
  for (unsigned i = 0; i < w.nthreads; ++i) {
    fiber& f = w.f[i];
    f.st = state::ready;
    f.block_t = f.warp_t = 1;
    f.warp_mask = 0;
    f.tid = {i % bd.x, i / bd.x % bd.y, i / (bd.x * bd.y)};
    void** top = reinterpret_cast<void**>(
        f.stack + stack_bytes - 72 -
        i * 192 % 4096);  // rsp = 8 mod 16 at entry; staggered against cache-set conflicts
    top[0] = nullptr;
    *--top = reinterpret_cast<void*>(&fiber_main);
    top -= 6;
    f.sp = top;
    push(w, rev ? w.nthreads - 1 - i : i);
  }
  if (unsigned r = w.nthreads % 32) w.w.back().exited = ~0u << r;  // lanes that do not exist
  if (hooks.block_begin) hooks.block_begin(w);
  ++w.c.blocks;
  w.c.threads += w.nthreads;
  go(w, &w.main_sp, pop(w));
}
static std::map<std::string, void (*)(const unsigned char*)>& ptx() {
  static std::map<std::string, void (*)(const unsigned char*)> m;
  return m;
}
ptx_entry::ptx_entry(const char* name, void (*f)(const unsigned char*)) { ptx()[name] = f; }
struct ptx_call {
  void (*f)(const unsigned char*);
  unsigned char params[4096];
};
void run_grid(dim3 g, dim3 b, std::size_t smem, void (*call)(void*),
              void (*pack)(void*, unsigned char*), void* ctx, std::size_t ctx_bytes,
              const void* kernel) {
  ptx_call pc;
  Dl_info di{};
  if (!ptx().empty() && dladdr(kernel, &di) && di.dli_sname)
    if (auto it = ptx().find(di.dli_sname); it != ptx().end()) {
      pc.f = it->second;
      pack(ctx, pc.params);
      ctx = &pc;
      ctx_bytes = sizeof pc;
      ++total.ptx_launches;
      call = [](void* q) {
        auto* c = static_cast<ptx_call*>(q);
        c->f(c->params);
      };
    }
  const std::size_t nt = std::size_t(b.x) * b.y * b.z, nb = std::size_t(g.x) * g.y * g.z;
  if (!nt || nt > 1024 || b.z > 64 || !nb || g.y > 65535 || g.z > 65535 || g.x > 0x7fffffffu)
    throw error("invalid launch configuration of " + kernel_name(kernel));
  {
    std::lock_guard l(mu);
    auto it = smem_opt_in.find(kernel);
    if (smem > 48 * 1024 &&
        (it == smem_opt_in.end() || std::size_t(it->second) < smem || smem > opts().max_smem))
      throw error("dynamic shared memory above 48 KiB without cudaFuncSetAttribute: " +
                  kernel_name(kernel));
  }
  if (W) throw error("launch from device code");
  std::vector<std::uint32_t> perm(nb);
  std::iota(perm.begin(), perm.end(), 0u);
  std::uint64_t seed = opts().seed * 0x9e3779b97f4a7c15ull | 1;
  if (opts().schedule == order::reverse) std::reverse(perm.begin(), perm.end());
  if (opts().schedule == order::random)
    for (std::size_t i = nb; i > 1; --i) {
      seed ^= seed << 13;
      seed ^= seed >> 7;
      seed ^= seed << 17;
      std::swap(perm[i - 1], perm[seed % i]);
    }
  std::atomic<std::size_t> next{0};
  std::string err;
  auto work = [&](unsigned id) {
    static thread_local worker w;
    W = &w;
    w.err.clear();
    w.rng = seed + 77 * id + 1;
    w.c = {};
    w.call = call;
    w.ctx = ctx;
    w.ctx_bytes = ctx_bytes;
    w.kernel = kernel;
    w.nthreads = unsigned(nt);
    blockDim = b;
    gridDim = g;
    if (w.nstacks < nt) {
      if (w.stacks) munmap(w.stacks, w.nstacks * stack_bytes);
      w.nstacks = nt;
      w.stacks = static_cast<char*>(mmap(nullptr, nt * stack_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    w.f.assign(nt, {});
    w.w.resize((nt + 31) / 32);
    w.q.assign(nt + 1, 0);
    for (unsigned i = 0; i < nt; ++i) {
      w.f[i].id = i;
      w.f[i].stack = w.stacks + i * stack_bytes;
    }
    w.dyn = {smem ? alloc_smem(smem) : nullptr, smem, nullptr};
    if (hooks.launch_begin) hooks.launch_begin(w);
    for (std::size_t i; w.err.empty() && (i = next++) < nb;) {
      const std::uint32_t n = perm[i];
      run_block(w, {n % g.x, n / g.x % g.y, n / (g.x * g.y)}, n, b);
    }
    std::free(w.dyn.p);
    for (auto& r : w.statics) std::free(r.p);
    w.statics.clear();
    if (!w.err.empty() && __asan_unpoison_memory_region)
      __asan_unpoison_memory_region(w.stacks, w.nstacks * stack_bytes);
    std::lock_guard l(mu);
    if (!w.err.empty()) {
      err = w.err;
      next = nb;
    }
    total.blocks += w.c.blocks;
    total.threads += w.c.threads;
    total.switches += w.c.switches;
    total.barriers += w.c.barriers;
    total.collectives += w.c.collectives;
    total.accesses += w.c.accesses;
    W = nullptr;
  };
  const unsigned nw =
      hooks.block_begin ? 1 : unsigned(std::min<std::size_t>(opts().os_threads, nb));
  ++total.launches;
  if (nw <= 1)
    work(0);
  else {
    std::vector<std::thread> ts;
    for (unsigned i = 0; i < nw; ++i) ts.emplace_back(work, i);
    for (auto& t : ts) t.join();
  }
  if (!err.empty()) throw error(err);
}
template <class T, class F>
static T rmw(T* p, F f, const void* site) {
  if (hooks.atomic) hooks.atomic(p, sizeof(T), true, site);
  T old, nw;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do nw = f(old);
  while (!__atomic_compare_exchange(p, &old, &nw, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
#define SITE __builtin_return_address(0)
float atomic_add(float* p, float v) {
  return rmw(
      p, [=](float o) { return o + v; }, SITE);
}
double atomic_add(double* p, double v) {
  return rmw(
      p, [=](double o) { return o + v; }, SITE);
}
int atomic_add(int* p, int v) {
  return rmw(
      p, [=](int o) { return int(unsigned(o) + unsigned(v)); }, SITE);
}
unsigned atomic_add(unsigned* p, unsigned v) {
  return rmw(
      p, [=](unsigned o) { return o + v; }, SITE);
}
unsigned long long atomic_add(unsigned long long* p, unsigned long long v) {
  return rmw(
      p, [=](unsigned long long o) { return o + v; }, SITE);
}
int atomic_max(int* p, int v) {
  return rmw(
      p, [=](int o) { return std::max(o, v); }, SITE);
}
unsigned atomic_inc(unsigned* p, unsigned lim) {
  return rmw(
      p, [=](unsigned o) { return o >= lim ? 0 : o + 1; }, SITE);
}
unsigned atomic_cas(unsigned* p, unsigned c, unsigned v) {
  return rmw(
      p, [=](unsigned o) { return o == c ? v : o; }, SITE);
}

const region* device_region(const void* p) {
  auto it = device.upper_bound(static_cast<const char*>(p));
  if (it == device.begin()) return nullptr;
  --it;
  const region& r = it->second;
  return static_cast<const char*>(p) < r.p + std::max<std::size_t>(r.n, 1) ? &r : nullptr;
}
static bool inside(const void* p, std::size_t n) {
  auto* r = device_region(p);
  return r && static_cast<const char*>(p) + n <= r->p + r->n;
}
}  // namespace tost::simt

// The part of the CUDA runtime API that the sample needs; streams run eagerly.
extern "C" {
cudaError_t cudaMalloc(void** p, size_t n) {
  std::lock_guard l(tost::simt::mu);
  if (posix_memalign(p, 256, n ? n : 1)) return cudaErrorMemoryAllocation;
  std::memset(*p, 0xff, n);
  auto* c = static_cast<char*>(*p);
  tost::simt::device[c] = {c, n, nullptr};
  if (tost::simt::hooks.device_alloc) tost::simt::hooks.device_alloc(*p, n);
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  std::lock_guard l(tost::simt::mu);
  if (!tost::simt::device.erase(static_cast<char*>(p))) return cudaErrorInvalidValue;
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind k) {
  std::lock_guard l(tost::simt::mu);
  const bool dd = k == cudaMemcpyHostToDevice || k == cudaMemcpyDeviceToDevice,
             sd = k == cudaMemcpyDeviceToHost || k == cudaMemcpyDeviceToDevice;
  if ((dd ? !tost::simt::inside(d, n) : tost::simt::device_region(d) != nullptr) ||
      (sd ? !tost::simt::inside(s, n) : tost::simt::device_region(s) != nullptr))
    return cudaErrorInvalidValue;
  std::memmove(d, s, n);
  if (dd && tost::simt::hooks.host_write) tost::simt::hooks.host_write(d, n);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* d, int v, size_t n) {
  std::lock_guard l(tost::simt::mu);
  if (!tost::simt::inside(d, n)) return cudaErrorInvalidValue;
  std::memset(d, v, n);
  if (tost::simt::hooks.host_write) tost::simt::hooks.host_write(d, n);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* f, cudaFuncAttribute a, int v) {
  if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    std::lock_guard l(tost::simt::mu);
    tost::simt::smem_opt_in[f] = v;
  }
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : "emulated CUDA error";
}
}

// Streams run at once, so waiting is nothing to do.
extern "C" {
cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind k, cudaStream_t) {
  return cudaMemcpy(d, s, n, k);
}
cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t) { return cudaMemset(d, v, n); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  return posix_memalign(p, 4096, n ? n : 1) ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{8} << 30;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  *v = a == cudaDevAttrComputeCapabilityMajor   ? 9
       : a == cudaDevAttrComputeCapabilityMinor ? 0
       : a == cudaDevAttrMultiProcessorCount    ? 4
                                                : 0;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaSuccess ? "cudaSuccess" : "cudaErrorEmulated";
}
cudaError_t cudaFuncGetName(const char** name, const void* f) {
  Dl_info i{};
  *name = dladdr(f, &i) && i.dli_sname ? i.dli_sname : "kernel";
  return cudaSuccess;
}
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "emulated");
  p->major = 9;
  p->multiProcessorCount = 4;
  p->totalGlobalMem = size_t{8} << 30;
  return cudaSuccess;
}
