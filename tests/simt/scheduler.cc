// Fibers: one for each thread of the running block, switched at barriers and warp collectives only.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "tests/simt/checks.h"
#include "tests/simt/execution.h"
#include "tests/simt/report.h"

#if !defined(__x86_64__)
#error "the context switch of the emulated device is written for x86-64"
#endif

extern "C" {
// Present in programs under AddressSanitizer.
void __asan_unpoison_memory_region(const void* begin, size_t bytes) __attribute__((weak));
void tost_simt_switch(void** save, void* load);
}

// Saves the registers that a callee must keep on the old stack and adopts the new one.
asm(R"(
.text
.globl tost_simt_switch
.type tost_simt_switch,@function
tost_simt_switch:
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
.size tost_simt_switch,.-tost_simt_switch
)");

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim{};
dim3 gridDim{};

namespace tost::simt {

Execution& execution = *new Execution;
const Checks* checks = nullptr;

namespace {

Fiber* TakeReady() {
  Execution& e = execution;
  if (e.ready_count == 0) return nullptr;
  const size_t size = e.ready.size();
  if (options().order == Order::kRandom) {
    const size_t drawn = (e.ready_begin + e.random.Below(e.ready_count)) % size;
    std::swap(e.ready[e.ready_begin], e.ready[drawn]);
  }
  Fiber& fiber = e.fibers[e.ready[e.ready_begin]];
  e.ready_begin = (e.ready_begin + 1) % size;
  --e.ready_count;
  return &fiber;
}

void SwitchTo(Fiber& fiber, void** save) {
  execution.current = &fiber;
  threadIdx = fiber.thread;
  tost_simt_switch(save, fiber.stack_pointer);
}

[[noreturn]] void ReturnToHost() {
  void* never_resumed = nullptr;
  execution.current = nullptr;
  tost_simt_switch(&never_resumed, execution.host_stack_pointer);
  __builtin_unreachable();
}

[[noreturn]] void FailDeadlock() {
  std::string text;
  const auto add = [&](FiberState state, const char* what) {
    unsigned count = 0;
    const void* site = nullptr;
    for (const Fiber& fiber : execution.fibers) {
      if (fiber.state != state) continue;
      ++count;
      site = fiber.site;
    }
    if (count == 0) return;
    text += text.empty() ? "" : ", ";
    text += std::to_string(count) + what;
    if (site != nullptr) text += " (" + SourceLine(site) + ")";
  };
  add(FiberState::kAtBarrier, " threads wait at __syncthreads");
  add(FiberState::kInCollective, " in warp collectives");
  add(FiberState::kReturned, " have returned");
  Fail("deadlock: " + text);
}

void OpenBarrier() {
  Execution& e = execution;
  e.at_barrier = 0;
  ++e.clock;
  const bool reverse = options().order == Order::kReverse;
  for (unsigned i = 0; i < e.threads; ++i) {
    Fiber& fiber = e.fibers[reverse ? e.threads - 1 - i : i];
    if (fiber.state != FiberState::kAtBarrier) continue;
    fiber.block_time = fiber.warp_time = e.clock;
    MakeReady(fiber);
  }
}

void FiberMain() {
  Execution& e = execution;
  e.call->run_thread(e.call->arguments.get());
  Fiber& self = *e.current;
  self.state = FiberState::kReturned;
  self.site = nullptr;
  --e.live;
  LeaveWarp(self);
  if (e.at_barrier > 0) Fail("a thread returns while others wait at __syncthreads");
  if (Fiber* next = TakeReady(); next != nullptr) SwitchTo(*next, &self.stack_pointer);
  if (e.live > 0) FailDeadlock();
  ReturnToHost();
}

void PrepareFiber(Fiber& fiber) {
  const unsigned i = fiber.id;
  const dim3 extents = execution.call->block;
  fiber.thread = {i % extents.x, i / extents.x % extents.y, i / (extents.x * extents.y)};
  fiber.block_time = fiber.warp_time = execution.clock;
  fiber.warp_mask = 0;
  // As after a call: the stack pointer is 8 modulo 16 at entry. Stacks are staggered, or all of
  // them would share the same sets of the cache.
  constexpr size_t kStagger = 192, kStaggerBound = 4096;
  auto** top =
      reinterpret_cast<void**>(fiber.stack + kStackBytes - 72 - i * kStagger % kStaggerBound);
  *top = nullptr;  // FiberMain has no caller
  *--top = reinterpret_cast<void*>(&FiberMain);
  constexpr int kSavedRegisters = 6;
  fiber.stack_pointer = top - kSavedRegisters;
}

void RunBlock(uint32_t number) {
  Execution& e = execution;
  const dim3 grid = e.call->grid;
  blockIdx = {number % grid.x, number / grid.x % grid.y, number / (grid.x * grid.y)};
  e.block = number;
  e.live = e.threads;
  e.at_barrier = 0;
  e.ready_begin = e.ready_count = 0;
  e.clock = 1;
  ClearShared();
  BeginWarps();
  const bool reverse = options().order == Order::kReverse;
  for (unsigned i = 0; i < e.threads; ++i) {
    Fiber& fiber = e.fibers[reverse ? e.threads - 1 - i : i];
    PrepareFiber(fiber);
    MakeReady(fiber);
  }
  if (checks != nullptr) checks->begin_block();
  SwitchTo(*TakeReady(), &e.host_stack_pointer);
}

// Below every stack a page that may not be touched, so that an overflow ends the process instead of
// reaching a neighbour.
char* AllocateStacks(size_t count) {
  constexpr size_t kPage = 4096;
  void* stacks = mmap(nullptr, count * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) std::abort();
  for (size_t i = 0; i < count; ++i) {
    mprotect(static_cast<char*>(stacks) + i * kStackBytes, kPage, PROT_NONE);
  }
  return static_cast<char*>(stacks);
}

void AllocateFibers(unsigned threads) {
  Execution& e = execution;
  if (e.stack_count < threads) {
    if (e.stacks != nullptr) munmap(e.stacks, e.stack_count * kStackBytes);
    e.stack_count = threads;
    e.stacks = AllocateStacks(threads);
  }
  e.threads = threads;
  e.fibers.assign(threads, {});
  for (unsigned i = 0; i < threads; ++i) {
    e.fibers[i].id = i;
    e.fibers[i].stack = e.stacks + i * kStackBytes;
  }
  e.warps.resize((threads + kWarpSize - 1) / kWarpSize);
  e.ready.assign(threads, 0);
}

std::vector<uint32_t> BlockOrder(size_t blocks) {
  std::vector<uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  if (options().order == Order::kReverse) std::reverse(order.begin(), order.end());
  if (options().order == Order::kRandom) {
    for (size_t i = blocks; i > 1; --i) std::swap(order[i - 1], order[execution.random.Below(i)]);
  }
  return order;
}

}  // namespace

void MakeReady(Fiber& fiber) {
  Execution& e = execution;
  fiber.state = FiberState::kReady;
  e.ready[(e.ready_begin + e.ready_count++) % e.ready.size()] = fiber.id;
}

void Wait(FiberState state, const void* site) {
  Fiber& self = *execution.current;
  self.state = state;
  self.site = site;
  Fiber* next = TakeReady();
  if (next == nullptr) FailDeadlock();
  if (next != &self) SwitchTo(*next, &self.stack_pointer);
}

void Fail(const std::string& what, const void* site) {
  const uint3 b = blockIdx, t = threadIdx;
  char where[160];
  std::snprintf(where, sizeof(where), ", block (%u, %u, %u), thread (%u, %u, %u)", b.x, b.y, b.z,
                t.x, t.y, t.z);
  std::string text = what + ": " + KernelName(execution.call->kernel) + where;
  if (site != nullptr) text += " at " + SourceLine(site);
  ReportDefect(text);
  execution.abandoned = true;
  ReturnToHost();
}

void Barrier(const void* site) {
  Execution& e = execution;
  if (e.live != e.threads) {
    Fail("__syncthreads after " + std::to_string(e.threads - e.live) +
             " threads of the block have returned",
         site);
  }
  Fiber& self = *e.current;
  self.state = FiberState::kAtBarrier;
  if (++e.at_barrier < e.live) return Wait(FiberState::kAtBarrier, site);
  OpenBarrier();
  Wait(FiberState::kReady, site);
}

void RunGrid(const KernelCall& call) {
  Execution& e = execution;
  e.call = &call;
  e.abandoned = false;
  e.random = Random(options().seed);
  blockDim = call.block;
  gridDim = call.grid;
  AllocateFibers(call.block.x * call.block.y * call.block.z);
  AllocateShared(call);
  if (checks != nullptr) checks->begin_launch();
  for (uint32_t block : BlockOrder(size_t{call.grid.x} * call.grid.y * call.grid.z)) {
    RunBlock(block);
    if (e.abandoned) break;
  }
  FreeShared();
  // Frames of abandoned fibers never took their redzones away.
  if (e.abandoned && __asan_unpoison_memory_region != nullptr) {
    __asan_unpoison_memory_region(e.stacks, e.stack_count * kStackBytes);
  }
  e.call = nullptr;
}

}  // namespace tost::simt
