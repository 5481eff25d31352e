#include "tests/simt/checker.h"

#include <link.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simt/checks.h"
#include "tests/simt/execution.h"
#include "tests/simt/memory.h"
#include "tests/simt/report.h"
#include "tests/simt/runtime.h"
#include "tests/simt/shadow.h"

namespace tost::simt {
namespace {

struct Checker {
  std::map<const char*, Shadow> device;
  std::map<const char*, Shadow> shared;       // of the running block
  Shadow* last = nullptr;                     // the one that the access before was in
  std::map<const char*, AccessCount> counts;  // by device block
  uint32_t operation = 0;
  bool inside = false;  // a check is running
};
Checker& checker = *new Checker;

// Whether what a thread of this block did at that time is ordered before what `self` does now.
bool IsOrdered(const Fiber& self, const Toucher& earlier) {
  if (earlier.time < self.block_time) return true;
  if (earlier.thread >= kSeveralOfBlock) return false;
  const unsigned thread = earlier.thread - 1u;
  return thread / kWarpSize == self.id / kWarpSize && earlier.time < self.warp_time &&
         (self.warp_mask >> (thread % kWarpSize) & 1) != 0;
}

bool IsSelf(const Toucher& toucher) {
  return toucher.operation == checker.operation && toucher.block == execution.block &&
         toucher.thread == execution.current->id + 1;
}

bool IsUnordered(const Toucher& earlier) {
  if (earlier.thread == 0 || IsSelf(earlier)) return false;
  if (earlier.operation != checker.operation) return !IsOrderedBeforeCurrent(earlier.operation);
  if (earlier.block != execution.block || earlier.thread == kSeveralOfGrid) return true;
  return !IsOrdered(*execution.current, earlier);
}

std::string Describe(const Toucher& toucher) {
  if (toucher.operation != checker.operation) {
    return toucher.thread == kNoKernel ? "a copy, fill or host library" : "an earlier launch";
  }
  if (toucher.thread == kSeveralOfGrid) return "several blocks";
  const std::string block = "block " + std::to_string(toucher.block);
  if (toucher.thread == kSeveralOfBlock) return "several threads of " + block;
  return block + ", thread " + std::to_string(toucher.thread - 1);
}

const char* Name(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    default:
      return "atomic";
  }
}

const char* Space(const Shadow& shadow) { return shadow.shared() ? "shared" : "global"; }

[[noreturn]] void FailRace(const Shadow& shadow, Access access, bool after_write,
                           const Toucher& earlier, const void* site) {
  const std::string missing =
      earlier.operation != checker.operation ? " (no stream, event or wait is between them)" : "";
  Fail(std::string("race on ") + Space(shadow) + " memory: " + Name(access) +
           " after an unordered " + (after_write ? "write" : "read") + " by " + Describe(earlier) +
           missing,
       site);
}

Toucher Self() {
  return {.operation = checker.operation,
          .block = execution.block,
          .time = execution.clock,
          .thread = static_cast<uint16_t>(execution.current->id + 1)};
}

void NoteRead(Cell& cell) {
  Toucher& reader = cell.reader;
  // Readers of which a writer would be told by its own order need not be remembered.
  if (reader.operation != checker.operation || !IsUnordered(reader)) {
    reader = Self();
    return;
  }
  const bool same_block = reader.block == execution.block && reader.thread != kSeveralOfGrid;
  reader.thread = same_block ? kSeveralOfBlock : kSeveralOfGrid;
  reader.time = execution.clock;
}

void CheckCell(const Shadow& shadow, Cell& cell, Access access, const void* site) {
  const bool reads = access != Access::kWrite, writes = access != Access::kRead;
  const bool both_atomic = access == Access::kAtomic && cell.atomic;
  if (!both_atomic && IsUnordered(cell.writer)) {
    FailRace(shadow, access, true, cell.writer, site);
  }
  if (writes && IsUnordered(cell.reader)) {
    FailRace(shadow, access, false, cell.reader, site);
  }
  if (reads && !cell.written) {
    Fail(std::string("read of uninitialised ") + Space(shadow) + " memory", site);
  }
  if (!writes) return NoteRead(cell);
  cell.writer = Self();
  cell.reader = {};
  cell.atomic = access == Access::kAtomic;
  cell.written = true;
}

// Data of the program that no code can change: constants, tables.
bool IsConstantOfProgram(const char* p) {
  static const std::vector<std::pair<const char*, const char*>> ranges = [] {
    std::vector<std::pair<const char*, const char*>> found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* all) {
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& segment = object->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
            const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
            static_cast<decltype(found)*>(all)->emplace_back(begin, begin + segment.p_memsz);
          }
          return 0;
        },
        &found);
    return found;
  }();
  for (const auto& [begin, end] : ranges) {
    if (p >= begin && p < end) return true;
  }
  return false;
}

// Whether the access needs no check: a local variable, an argument, threadIdx, a constant.
bool IsPrivate(const char* p, size_t bytes, Access access, const void* site) {
  const Execution& e = execution;
  const auto on_stacks = static_cast<size_t>(p - e.stacks);
  if (on_stacks < e.stack_count * kStackBytes) {
    if (on_stacks / kStackBytes != e.current->id) {
      Fail(std::string(Name(access)) + " on the stack of another thread", site);
    }
    return true;
  }
  if (access != Access::kRead) return false;
  const auto inside = [&](const void* begin, size_t size) {
    const auto* b = static_cast<const char*>(begin);
    return p >= b && p + bytes <= b + size;
  };
  return inside(e.call->arguments.get(), e.call->argument_bytes) ||
         inside(&threadIdx, sizeof(threadIdx)) || inside(&blockIdx, sizeof(blockIdx)) ||
         inside(&blockDim, sizeof(blockDim)) || inside(&gridDim, sizeof(gridDim)) ||
         IsConstantOfProgram(p);
}

Shadow* FindShared(const char* p) {
  const auto holds = [p](const SharedMemory& array) {
    return array.begin != nullptr && p >= array.begin && p < array.begin + array.bytes;
  };
  const SharedMemory* found = holds(execution.dynamic) ? &execution.dynamic : nullptr;
  for (const SharedMemory& array : execution.declared) {
    if (holds(array)) found = &array;
  }
  if (found == nullptr) return nullptr;
  return &checker.shared.try_emplace(found->begin, found->begin, found->bytes, true).first->second;
}

Shadow* FindDevice(const char* p) {
  const MemoryBlock* block = DeviceBlockAt(p);
  if (block == nullptr) return nullptr;
  Shadow& shadow =
      checker.device.try_emplace(block->begin, block->begin, block->capacity, false).first->second;
  shadow.set_bytes(block->bytes);
  return &shadow;
}

// Names what lies closest below an address that belongs to nothing.
[[noreturn]] void FailAddress(const char* p, size_t bytes, Access access, const void* site) {
  const std::string what = std::string(Name(access)) + " of " + std::to_string(bytes) + " bytes ";
  const char* begin = nullptr;
  size_t size = 0;
  const char* thing = "";
  const auto consider = [&](const char* other, size_t other_size, const char* name) {
    if (other == nullptr || p < other || other < begin) return;
    if (p > other + other_size + kGap) return;
    begin = other;
    size = other_size;
    thing = name;
  };
  for (const SharedMemory& array : execution.declared) {
    consider(array.begin, array.bytes, "shared array");
  }
  consider(execution.dynamic.begin, execution.dynamic.bytes, "dynamic shared array");
  if (const MemoryBlock* block = DeviceBlockAt(p, kGap); block != nullptr) {
    consider(block->begin, block->bytes, "tensor");
  }
  if (begin != nullptr) {
    Fail("out of bounds: " + what + std::to_string(p + bytes - begin - size) +
             " bytes past the end of a " + thing + " of " + std::to_string(size) + " bytes",
         site);
  }
  if (PinnedBlockAt(p) != nullptr) Fail(what + "in pinned host memory", site);
  Fail(what + "in memory that is not the device's: a host pointer, or far out of bounds", site);
}

Shadow& FindShadow(const char* p, size_t bytes, Access access, const void* site) {
  if (checker.last == nullptr || !checker.last->Holds(p, bytes)) {
    checker.last = FindShared(p);
    if (checker.last == nullptr) checker.last = FindDevice(p);
    if (checker.last == nullptr || !checker.last->Holds(p, bytes)) {
      checker.last = nullptr;
      FailAddress(p, bytes, access, site);
    }
  }
  return *checker.last;
}

void Check(const char* p, size_t bytes, Access access, const void* site) {
  if (IsPrivate(p, bytes, access, site)) return;
  Shadow& shadow = FindShadow(p, bytes, access, site);
  constexpr size_t kWidest = 16;
  const bool one_access = (bytes & (bytes - 1)) == 0 && bytes <= kWidest;
  if (one_access && reinterpret_cast<uintptr_t>(p) % bytes != 0) {
    Fail("misaligned " + std::string(Name(access)) + " of " + std::to_string(bytes) + " bytes",
         site);
  }
  if (!shadow.shared()) {
    AccessCount& count = checker.counts[shadow.begin()];
    if (access != Access::kWrite) count.read += static_cast<int64_t>(bytes);
    if (access != Access::kRead) count.written += static_cast<int64_t>(bytes);
  }
  shadow.ForEachCell(p, bytes, [&](Cell& cell) { CheckCell(shadow, cell, access, site); });
}

void BeginLaunch() {
  checker.inside = false;  // a failed check never returned
  checker.operation = CurrentOperation();
  checker.last = nullptr;
}

void BeginBlock() {
  checker.shared.clear();
  checker.last = nullptr;
}

void Forget(const void* begin, size_t) {
  checker.device.erase(static_cast<const char*>(begin));
  checker.last = nullptr;
}

void CheckTransfer(const void* begin, size_t bytes, bool writes) {
  const char* p = static_cast<const char*>(begin);
  Shadow* shadow = FindDevice(p);
  if (shadow == nullptr || !shadow->Holds(p, bytes)) return;  // reported by who calls
  checker.operation = CurrentOperation();
  const char* what = writes ? "write" : "read";
  shadow->ForEachCell(p, bytes, [&](Cell& cell) {
    const auto races_with = [](const Toucher& earlier) {
      return earlier.thread != 0 && earlier.operation != checker.operation &&
             !IsOrderedBeforeCurrent(earlier.operation);
    };
    if (DefectIsKept()) return;
    if (races_with(cell.writer) || (writes && races_with(cell.reader))) {
      ReportDefect(std::string("race on global memory: a copy, fill or host library ") + what +
                   "s after an unordered access by an earlier operation (no stream, event or wait "
                   "is between them)");
    } else if (!writes && !cell.written) {
      ReportDefect("a copy or host library reads uninitialised global memory");
    }
    Toucher& toucher = writes ? cell.writer : cell.reader;
    toucher = {.operation = checker.operation, .thread = kNoKernel};
    if (!writes) return;
    cell.reader = {};
    cell.atomic = false;
    cell.written = true;
  });
}

const Checks kChecks = {
    .begin_launch = &BeginLaunch,
    .begin_block = &BeginBlock,
    .atomic = [](const void* address, size_t bytes,
                 const void* site) { CheckAccess(address, bytes, Access::kAtomic, site); },
    .forget = &Forget,
    .read = [](const void* begin, size_t bytes) { CheckTransfer(begin, bytes, false); },
    .write = [](const void* begin, size_t bytes) { CheckTransfer(begin, bytes, true); },
};
[[maybe_unused]] const bool installed = [] {
  checks = &kChecks;
  return true;
}();

}  // namespace

void CheckAccess(const void* address, size_t bytes, Access access, const void* site) {
  // What the checker calls may itself be an instrumented copy of an inline function.
  if (checker.inside || execution.current == nullptr) return;
  checker.inside = true;
  Check(static_cast<const char*>(address), bytes, access, site);
  checker.inside = false;
}

AccessCount AccessesTo(const void* block) {
  return checker.counts[static_cast<const char*>(block)];
}
void ResetAccessCounts() { checker.counts.clear(); }

}  // namespace tost::simt
