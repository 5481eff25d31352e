// Warp collectives: the lanes of a mask meet, leave a value each, and go on when all have come.
#include <bit>

#include "tests/simt/execution.h"

namespace tost::simt {
namespace {

unsigned LaneOf(const Fiber& fiber) { return fiber.id % kWarpSize; }
unsigned Bit(unsigned lane) { return 1u << lane; }

bool IsComplete(const Warp& warp, const Meeting& meeting) {
  return (meeting.mask & ~warp.returned & ~meeting.arrived) == 0;
}

void Dismiss(Warp& warp, Meeting& meeting) {
  Execution& e = execution;
  warp.gathering[std::countr_zero(meeting.mask)] = nullptr;
  --warp.gatherings;
  meeting.unread = static_cast<unsigned>(std::popcount(meeting.arrived));
  const bool orders_memory = meeting.kind == Collective::kSyncWarp;
  if (orders_memory) ++e.clock;
  const auto first = static_cast<unsigned>(&warp - e.warps.data()) * kWarpSize;
  const bool reverse = options().order == Order::kReverse;
  for (unsigned i = 0; i < kWarpSize; ++i) {
    const unsigned lane = reverse ? kWarpSize - 1 - i : i;
    if ((meeting.arrived & Bit(lane)) == 0) continue;
    Fiber& fiber = e.fibers[first + lane];
    if (orders_memory) {
      fiber.warp_time = e.clock;
      fiber.warp_mask = meeting.mask;
    }
    MakeReady(fiber);
  }
}

Meeting& Convene(Warp& warp, Collective kind, unsigned mask, const void* site) {
  for (const Meeting* other : warp.gathering) {
    if (warp.gatherings > 0 && other != nullptr && (other->mask & mask) != 0) {
      Fail("masks of concurrent warp collectives overlap", site);
    }
  }
  Meeting* meeting = warp.meetings;
  while (meeting->unread > 0) ++meeting;
  meeting->kind = kind;
  meeting->mask = mask;
  meeting->arrived = 0;
  meeting->unread = 1;  // taken
  warp.gathering[std::countr_zero(mask)] = meeting;
  ++warp.gatherings;
  return *meeting;
}

// Meets the lanes of `mask`. The result is valid until the caller waits again.
const Meeting& Meet(Collective kind, unsigned mask, uint64_t value, const void* site) {
  const Fiber& self = *execution.current;
  Warp& warp = execution.warps[self.id / kWarpSize];
  const unsigned lane = LaneOf(self);
  if ((mask & Bit(lane)) == 0) Fail("a lane is not in its own shuffle mask", site);
  Meeting* gathering = warp.gathering[std::countr_zero(mask)];
  Meeting& meeting = gathering != nullptr ? *gathering : Convene(warp, kind, mask, site);
  if (meeting.mask != mask || meeting.kind != kind) {
    Fail("lanes of a warp collective disagree on its mask or kind", site);
  }
  meeting.values[lane] = value;
  meeting.arrived |= Bit(lane);
  const bool last = IsComplete(warp, meeting);
  if (last) Dismiss(warp, meeting);
  Wait(last ? FiberState::kReady : FiberState::kInCollective, site);
  --meeting.unread;
  return meeting;
}

int SourceLane(Collective kind, int lane, int argument, int width) {
  const int first = lane & ~(width - 1), end = first + width;
  switch (kind) {
    case Collective::kIndex:
      return first | (argument & (width - 1));
    case Collective::kUp:
      return lane - argument >= first ? lane - argument : lane;
    case Collective::kDown:
      return lane + argument < end ? lane + argument : lane;
    default:
      return (lane ^ argument) < end ? lane ^ argument : lane;
  }
}

}  // namespace

uint64_t Shuffle(Collective kind, unsigned mask, uint64_t bits, int argument, int width,
                 const void* site) {
  if (width < 1 || width > static_cast<int>(kWarpSize) || (width & (width - 1)) != 0) {
    Fail("the width of a shuffle is no power of two up to 32", site);
  }
  const int lane = static_cast<int>(LaneOf(*execution.current));
  const Meeting& meeting = Meet(kind, mask, bits, site);
  const int source = SourceLane(kind, lane, argument, width);
  if ((meeting.arrived & Bit(static_cast<unsigned>(source))) == 0) {
    Fail("a shuffle reads lane " + std::to_string(source) + ", which does not take part", site);
  }
  return meeting.values[source];
}

unsigned Ballot(Collective kind, unsigned mask, bool predicate, const void* site) {
  const Meeting& meeting = Meet(kind, mask, predicate ? 1 : 0, site);
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((meeting.arrived & Bit(lane)) != 0 && meeting.values[lane] != 0) lanes |= Bit(lane);
  }
  return lanes;
}

void LeaveWarp(const Fiber& fiber) {
  Warp& warp = execution.warps[fiber.id / kWarpSize];
  warp.returned |= Bit(LaneOf(fiber));
  for (Meeting* meeting : warp.gathering) {
    if (meeting == nullptr || (meeting->mask & Bit(LaneOf(fiber))) == 0) continue;
    if (IsComplete(warp, *meeting)) Dismiss(warp, *meeting);
  }
}

void BeginWarps() {
  for (Warp& warp : execution.warps) {
    warp.returned = 0;
    warp.gatherings = 0;
    for (Meeting*& meeting : warp.gathering) meeting = nullptr;
    for (Meeting& meeting : warp.meetings) meeting.unread = 0;
  }
  if (const unsigned lanes = execution.threads % kWarpSize; lanes != 0) {
    execution.warps.back().returned = ~0u << lanes;
  }
}

}  // namespace tost::simt
