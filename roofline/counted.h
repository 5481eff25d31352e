// From a function that counts a kernel's traffic to the kernel of the counting device.
#ifndef TOST_ROOFLINE_COUNTED_H_
#define TOST_ROOFLINE_COUNTED_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "autograd/tensor.h"
#include "ops/kernel.h"
#include "roofline/counting_device.h"

namespace tost::roofline {

// 0 for an absent operand.
inline int64_t BytesOf(const Tensor& x) {
  return x.defined() ? x.numel() * static_cast<int64_t>(SizeOf(x.dtype())) : 0;
}

// Whether a kernel's results are only written, or changed in place.
enum class Results { kWritten, kUpdated };

// The traffic of a kernel that reads each operand once and writes each result once, called with the
// slot's own arguments: `const Tensor&` is an operand and `Tensor&` a result; a `bool`, or a field
// `add` of an argument, says whether results are added to. An operand given twice is read once.
struct EachOnce {
  int flops = 0;  // per element of the largest tensor
  Results results = Results::kWritten;

  template <class... Args>
  Traffic operator()(Args&&... args) const {
    static_assert((IsBool<Args>() + ...) <= 1, "which of the bools is `add`?");
    const bool reads_results = results == Results::kUpdated || (Adds(args) || ...);
    Seen seen;
    (Visit(args, reads_results, seen), ...);
    seen.traffic.vector_flops = flops * seen.largest;
    return seen.traffic;
  }

 private:
  struct Seen {
    Traffic traffic;
    int64_t largest = 0;
    std::array<const std::byte*, 12> operands = {};  // more than any slot has
    size_t count = 0;

    bool IsNew(const Tensor& x) {
      const auto end = operands.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::find(operands.begin(), end, x.raw()) != end) return false;
      operands[count++] = x.raw();
      return true;
    }
  };

  template <class Arg>
  static constexpr int IsBool() {
    return std::is_same_v<std::remove_cvref_t<Arg>, bool> ? 1 : 0;
  }
  template <class Arg>
  static bool Adds(const Arg& arg) {
    if constexpr (std::is_same_v<Arg, bool>) return arg;
    if constexpr (requires { arg.add; }) return arg.add;
    return false;
  }

  static void Visit(const Tensor& operand, bool, Seen& seen) {
    if (!operand.defined()) return;
    seen.largest = std::max(seen.largest, operand.numel());
    if (seen.IsNew(operand)) seen.traffic.bytes_read += BytesOf(operand);
  }
  static void Visit(Tensor& result, bool reads, Seen& seen) {
    if (!result.defined()) return;
    seen.largest = std::max(seen.largest, result.numel());
    seen.traffic.bytes_written += BytesOf(result);
    if (reads) seen.traffic.bytes_read += BytesOf(result);
  }
  template <class Other>
  static void Visit(const Other&, bool, Seen&) {}
};

// " backward" for slots that carry the name of their forward.
enum class Name { kOfSlot, kBackward };

template <auto& kSlot, auto kTraffic, Name kName, class Fn>
struct Counted;
template <auto& kSlot, auto kTraffic, Name kName, class... Args>
struct Counted<kSlot, kTraffic, kName, void(Args...)> {
  static void Run(Args... args) {
    std::string name = kSlot.name();
    if (kName == Name::kBackward) name += " backward";
    Record(std::move(name), kTraffic(args...));
  }
};

template <auto& kSlot>
using FunctionOf = typename std::remove_cvref_t<decltype(kSlot)>::Function;

// Fills the slot with a kernel that records kTraffic(its arguments).
template <auto& kSlot, auto kTraffic, Name kName = Name::kOfSlot>
void Count() {
  kSlot.Install(DeviceType::kCounting, &Counted<kSlot, kTraffic, kName, FunctionOf<kSlot>>::Run);
}

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_COUNTED_H_
