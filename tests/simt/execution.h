// The state of the launch that is running: one block at a time, one fiber for each of its threads.
// Shared by the scheduler, the warp collectives and the access checker.
#ifndef TOST_TESTS_SIMT_EXECUTION_H_
#define TOST_TESTS_SIMT_EXECUTION_H_

#include <string>
#include <vector>

#include "tests/simt/random.h"
#include "tests/simt/simt.h"

namespace tost::simt {

inline constexpr unsigned kWarpSize = 32;
inline constexpr size_t kStackBytes = 128 * 1024;

enum class FiberState : uint8_t { kReady, kAtBarrier, kInCollective, kReturned };

struct Fiber {
  unsigned id = 0;
  uint3 thread{};
  char* stack = nullptr;
  void* stack_pointer = nullptr;
  FiberState state = FiberState::kReady;
  const void* site = nullptr;  // where it waits
  // The block's clock when this thread last passed a barrier of the block, and of its warp with
  // these lanes. What happened before those times is ordered before what the thread does now.
  uint32_t block_time = 0, warp_time = 0;
  unsigned warp_mask = 0;
};

// One meeting of the lanes in `mask`. Its values stay until every lane has read them.
struct Meeting {
  Collective kind = Collective::kVote;
  unsigned mask = 0, arrived = 0, unread = 0;
  uint64_t values[kWarpSize] = {};
};
struct Warp {
  // A lane is in one meeting at a time and may have left one unread: one more than lanes.
  Meeting meetings[kWarpSize + 1];
  Meeting* gathering[kWarpSize] = {};  // by the lowest lane of its mask
  unsigned gatherings = 0;
  unsigned returned = 0;  // lanes that are gone, or never were
};

struct SharedMemory {
  char* begin = nullptr;
  size_t bytes = 0;
  const void* tag = nullptr;  // of a declared array; null for dynamic memory
};

struct Execution {
  const KernelCall* call = nullptr;
  unsigned threads = 0;  // of a block
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned> ready;  // ring of fiber ids
  size_t ready_begin = 0, ready_count = 0;
  char* stacks = nullptr;
  size_t stack_count = 0;
  std::vector<SharedMemory> declared;
  SharedMemory dynamic;
  Fiber* current = nullptr;  // null while the scheduler itself runs
  void* host_stack_pointer = nullptr;
  unsigned live = 0, at_barrier = 0;
  uint32_t clock = 0;  // counts barriers of the block and of warps
  uint32_t block = 0;  // linear number
  Random random;
  bool abandoned = false;
};
extern Execution& execution;

// Runs every block of the launch, in the order that the options say. Stops at a defect.
void RunGrid(const KernelCall& call);

// From a thread of a kernel: puts the current fiber aside until MakeReady.
void Wait(FiberState state, const void* site);
void MakeReady(Fiber& fiber);
// Names a defect (see KeepDefects) and abandons the launch.
[[noreturn]] void Fail(const std::string& what, const void* site = nullptr);

// The lanes that waited for a thread which has returned.
void LeaveWarp(const Fiber& fiber);
void BeginWarps();

// Shared memory of a launch, and of a block: filled with NaN, so that stale values never help.
void AllocateShared(const KernelCall& call);
void ClearShared();
void FreeShared();

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_EXECUTION_H_
