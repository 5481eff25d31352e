// What PTX's instructions do (PTX ISA 9.0, chapter 9). Rounding is IEEE's; the approximate
// functions, which a GPU gives to one or two units in the last place, are the C library's.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "autograd/base/bfloat16.h"
#include "autograd/base/errors.h"
#include "tests/simt/execution.h"
#include "tests/simt/ptx_program.h"

namespace tost::simt::ptx {
namespace {

// ---- Registers ----

template <class T>
T Get(const Frame& frame, int number) {
  T value;
  std::memcpy(&value, &frame.registers[static_cast<size_t>(number)], sizeof(value));
  return value;
}

// Signed values are extended, since a narrow load may fill a wider register.
template <class T>
void Put(Frame& frame, int number, T value) {
  uint64_t bits = 0;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    std::memcpy(&bits, &value, sizeof(value));
  }
  frame.registers[static_cast<size_t>(number)] = bits;
}

template <class T>
T Source(const Frame& frame, const Instruction& i, size_t operand) {
  return Get<T>(frame, i.from[operand]);
}
bool Predicate(const Frame& frame, int number) {
  return frame.registers[static_cast<size_t>(number)] != 0;
}

// ---- Arithmetic ----

template <class T>
inline constexpr bool kInteger = std::is_integral_v<T>;
// Integers wrap.
template <class T>
using Wrapping = std::conditional_t<kInteger<T>, std::make_unsigned<T>, std::type_identity<T>>;
template <class T>
using Wide = std::conditional_t<
    (sizeof(T) < 4), int32_t,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128_t, __uint128_t>>>;

struct Plus {
  template <class T>
  static T Of(T a, T b) {
    using U = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Minus {
  template <class T>
  static T Of(T a, T b) {
    using U = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  }
};
struct Times {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kInteger<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct TimesHigh {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
struct Over {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kInteger<T>) {
      if (b == 0) Fail("division by zero");
    }
    return static_cast<T>(a / b);
  }
};
struct Modulo {
  template <class T>
  static T Of(T a, T b) {
    if (b == 0) Fail("division by zero");
    return static_cast<T>(a % b);
  }
};
// A NaN gives way to a number.
struct Least {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kInteger<T>)
      return std::min(a, b);
    else
      return std::fmin(a, b);
  }
};
struct Greatest {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kInteger<T>)
      return std::max(a, b);
    else
      return std::fmax(a, b);
  }
};
// copysign.f32 d, a, b: b with the sign of a.
struct SignOf {
  template <class T>
  static T Of(T a, T b) {
    return std::copysign(b, a);
  }
};
struct And {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Negative {
  template <class T>
  static T Of(T a) {
    if constexpr (kInteger<T>)
      return Minus::Of(T(0), a);
    else
      return -a;
  }
};
struct Not {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(~a);
  }
};
struct Magnitude {
  template <class T>
  static T Of(T a) {
    if constexpr (kInteger<T>)
      return a < 0 ? Negative::Of(a) : a;
    else
      return std::abs(a);
  }
};
struct Root {
  template <class T>
  static T Of(T a) {
    return std::sqrt(a);
  }
};
struct Inverse {
  template <class T>
  static T Of(T a) {
    return T(1) / a;
  }
};
struct InverseRoot {
  template <class T>
  static T Of(T a) {
    return T(1) / std::sqrt(a);
  }
};
struct PowerOfTwo {
  template <class T>
  static T Of(T a) {
    return std::exp2(a);
  }
};
struct LogOfTwo {
  template <class T>
  static T Of(T a) {
    return std::log2(a);
  }
};
struct PopulationCount {
  template <class T>
  static uint32_t Of(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  static uint32_t Of(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};

template <class Op, class T>
void Unary(Frame& f, const Instruction& i) {
  Put(f, i.to[0], Op::Of(Source<T>(f, i, 0)));
}
template <class Op, class T>
void Binary(Frame& f, const Instruction& i) {
  Put(f, i.to[0], Op::Of(Source<T>(f, i, 0), Source<T>(f, i, 1)));
}

template <class T>
void TimesWide(Frame& f, const Instruction& i) {
  Put(f, i.to[0],
      static_cast<Wide<T>>(Source<T>(f, i, 0)) * static_cast<Wide<T>>(Source<T>(f, i, 1)));
}
template <class T>
void TimesPlus(Frame& f, const Instruction& i) {
  Put(f, i.to[0], Plus::Of(Times::Of(Source<T>(f, i, 0), Source<T>(f, i, 1)), Source<T>(f, i, 2)));
}
template <class T>
void TimesPlusWide(Frame& f, const Instruction& i) {
  Put(f, i.to[0],
      Plus::Of(static_cast<Wide<T>>(Source<T>(f, i, 0)) * static_cast<Wide<T>>(Source<T>(f, i, 1)),
               Source<Wide<T>>(f, i, 2)));
}
template <class T>
void Fused(Frame& f, const Instruction& i) {
  Put(f, i.to[0], std::fma(Source<T>(f, i, 0), Source<T>(f, i, 1), Source<T>(f, i, 2)));
}
template <class T>
void FusedTowardsMinusInfinity(Frame& f, const Instruction& i) {
  const volatile T a = Source<T>(f, i, 0), b = Source<T>(f, i, 1), c = Source<T>(f, i, 2);
  std::fesetround(FE_DOWNWARD);
  const volatile T result = std::fma(a, b, c);
  std::fesetround(FE_TONEAREST);
  Put<T>(f, i.to[0], result);
}

// Counts beyond the width shift everything out.
template <class T>
void ShiftLeft(Frame& f, const Instruction& i) {
  const auto count = Source<uint32_t>(f, i, 1);
  using U = std::make_unsigned_t<T>;
  Put(f, i.to[0],
      count >= 8 * sizeof(T)
          ? T(0)
          : static_cast<T>(static_cast<uint64_t>(static_cast<U>(Source<T>(f, i, 0))) << count));
}
template <class T>
void ShiftRight(Frame& f, const Instruction& i) {
  const auto count = std::min<uint32_t>(Source<uint32_t>(f, i, 1), 8 * sizeof(T));
  const T a = Source<T>(f, i, 0);
  if (count < 8 * sizeof(T)) return Put(f, i.to[0], static_cast<T>(a >> count));
  Put(f, i.to[0], std::is_signed_v<T> && a < T(0) ? static_cast<T>(-1) : T(0));
}
// The 32 bits of {b, a} from bit c on (right), or before (left).
template <bool left, bool wraps>
void FunnelShift(Frame& f, const Instruction& i) {
  const uint64_t both =
      static_cast<uint64_t>(Source<uint32_t>(f, i, 1)) << 32 | Source<uint32_t>(f, i, 0);
  const uint32_t c = Source<uint32_t>(f, i, 2);
  const uint32_t count = wraps ? c & 31 : std::min<uint32_t>(c, 32);
  Put(f, i.to[0], static_cast<uint32_t>(left ? (both << count) >> 32 : both >> count));
}
// Bit k of the result is bit (a_k, b_k, c_k) of the table.
void LogicOfThree(Frame& f, const Instruction& i) {
  const auto a = Source<uint32_t>(f, i, 0), b = Source<uint32_t>(f, i, 1),
             c = Source<uint32_t>(f, i, 2), table = Source<uint32_t>(f, i, 3);
  uint32_t result = 0;
  for (uint32_t k = 0; k < 8; ++k) {
    if ((table >> k & 1) == 0) continue;
    result |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
  }
  Put(f, i.to[0], result);
}
// Each nibble of c picks one of the eight bytes of {b, a}, or its sign.
void Permute(Frame& f, const Instruction& i) {
  const uint64_t both =
      static_cast<uint64_t>(Source<uint32_t>(f, i, 1)) << 32 | Source<uint32_t>(f, i, 0);
  const uint32_t selector = Source<uint32_t>(f, i, 2);
  uint32_t result = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t nibble = selector >> (4 * k) & 15;
    uint32_t byte = both >> (8 * (nibble & 7)) & 0xff;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * k);
  }
  Put(f, i.to[0], result);
}
template <class T>
void BitField(Frame& f, const Instruction& i) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  const uint32_t begin = Source<uint32_t>(f, i, 1) & 0xff,
                 length = Source<uint32_t>(f, i, 2) & 0xff;
  const auto a = static_cast<U>(Source<T>(f, i, 0));
  if (length == 0 || (begin >= kBits && !std::is_signed_v<T>)) return Put(f, i.to[0], T(0));
  const uint32_t last = std::min(begin + length - 1, kBits - 1);
  const uint32_t taken = begin >= kBits ? 0 : last - begin + 1;
  U field = begin >= kBits ? U(0) : static_cast<U>(a >> begin);
  if (taken < kBits) field = static_cast<U>(field & ((U(1) << taken) - 1));
  if (std::is_signed_v<T> && (a >> last & 1) != 0 && taken < kBits) {
    field = static_cast<U>(field | ~((U(1) << taken) - 1));
  }
  Put(f, i.to[0], static_cast<T>(field));
}

// ---- Comparisons and choices ----

enum class Relation {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNumbers,
  kNaN
};
template <Relation relation, bool or_unordered, class T>
void Compare(Frame& f, const Instruction& i) {
  const T a = Source<T>(f, i, 0), b = Source<T>(f, i, 1);
  bool unordered = false;
  if constexpr (!kInteger<T>) unordered = std::isnan(a) || std::isnan(b);
  bool holds = false;
  switch (relation) {
    case Relation::kEqual:
      holds = a == b;
      break;
    case Relation::kNotEqual:
      holds = a != b;
      break;
    case Relation::kLess:
      holds = a < b;
      break;
    case Relation::kLessEqual:
      holds = a <= b;
      break;
    case Relation::kGreater:
      holds = a > b;
      break;
    case Relation::kGreaterEqual:
      holds = a >= b;
      break;
    case Relation::kNumbers:
      return Put<uint64_t>(f, i.to[0], unordered ? 0 : 1);
    case Relation::kNaN:
      return Put<uint64_t>(f, i.to[0], unordered ? 1 : 0);
  }
  Put<uint64_t>(f, i.to[0], unordered ? or_unordered : holds);
}

void Select(Frame& f, const Instruction& i) {
  Put(f, i.to[0], Source<uint64_t>(f, i, Predicate(f, i.from[2]) ? 0 : 1));
}
void Move(Frame& f, const Instruction& i) { Put(f, i.to[0], Source<uint64_t>(f, i, 0)); }
void NotPredicate(Frame& f, const Instruction& i) {
  Put<uint64_t>(f, i.to[0], Predicate(f, i.from[0]) ? 0 : 1);
}

// mov.b32 and mov.b64, which also take a register apart and put one together.
template <class T>
void MoveBits(Frame& f, const Instruction& i) {
  const auto count = [](const std::array<int, 4>& operands) {
    return static_cast<size_t>(std::ranges::count_if(operands, [](int r) { return r >= 0; }));
  };
  const size_t parts = std::max(count(i.to), count(i.from));
  const size_t bits = 8 * sizeof(T) / parts;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (count(i.from) > 1) {
    uint64_t whole = 0;
    for (size_t k = 0; k < parts; ++k) whole |= (Source<uint64_t>(f, i, k) & mask) << (bits * k);
    return Put(f, i.to[0], whole);
  }
  const uint64_t whole = Source<uint64_t>(f, i, 0);
  for (size_t k = 0; k < parts; ++k) Put(f, i.to[k], whole >> (bits * k) & mask);
}

// ---- Conversions ----

enum class Rounding { kNearest, kToInteger, kTowardsZero, kDown, kUp };
template <class T>
T Rounded(T x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kToInteger:
      return std::nearbyint(x);
    case Rounding::kTowardsZero:
      return std::trunc(x);
    case Rounding::kDown:
      return std::floor(x);
    case Rounding::kUp:
      return std::ceil(x);
    default:
      return x;
  }
}

template <class To, class From, Rounding rounding, bool saturates>
void Convert(Frame& f, const Instruction& i) {
  const From x = Source<From>(f, i, 0);
  if constexpr (kInteger<From> || (!kInteger<To> && rounding == Rounding::kNearest)) {
    To result = static_cast<To>(x);
    if constexpr (saturates && !kInteger<To>) {
      result = std::isnan(result) ? To(0) : std::clamp(result, To(0), To(1));
    }
    Put(f, i.to[0], result);
  } else if constexpr (!kInteger<To>) {
    Put(f, i.to[0], static_cast<To>(Rounded(x, rounding)));
  } else {
    const From whole = Rounded(x, rounding);
    constexpr To kLeast = std::numeric_limits<To>::min(), kMost = std::numeric_limits<To>::max();
    To result = 0;
    if (whole >= static_cast<From>(kMost)) {
      result = kMost;
    } else if (whole <= static_cast<From>(kLeast)) {
      result = kLeast;
    } else if (!std::isnan(whole)) {
      result = static_cast<To>(whole);
    }
    Put(f, i.to[0], result);
  }
}

uint16_t BFloat16Bits(float x) { return std::bit_cast<uint16_t>(bfloat16(x)); }
void ToBFloat16(Frame& f, const Instruction& i) {
  Put(f, i.to[0], BFloat16Bits(Source<float>(f, i, 0)));
}
void ToTwoBFloat16(Frame& f, const Instruction& i) {
  Put(f, i.to[0],
      static_cast<uint32_t>(BFloat16Bits(Source<float>(f, i, 0))) << 16 |
          BFloat16Bits(Source<float>(f, i, 1)));
}
void FromBFloat16(Frame& f, const Instruction& i) {
  Put(f, i.to[0], static_cast<float>(std::bit_cast<bfloat16>(Source<uint16_t>(f, i, 0))));
}

// ---- Memory ----

char* SharedPointer(const Frame& f, uint32_t address, size_t bytes) {
  if (address >= kDynamicShared) {
    const uint32_t offset = address - kDynamicShared;
    char* dynamic = static_cast<char*>(DynamicShared());
    if (offset + bytes > execution.dynamic.bytes) {
      Fail("out of bounds: dynamic shared memory of " + std::to_string(execution.dynamic.bytes) +
           " bytes at " + std::to_string(offset));
    }
    return dynamic + offset;
  }
  for (const SharedVariable& variable : f.program.shared) {
    if (address < variable.address || address >= variable.address + variable.bytes) continue;
    if (address + bytes > variable.address + variable.bytes) break;
    return static_cast<char*>(SharedArray(&variable, variable.bytes)) +
           (address - variable.address);
  }
  Fail("out of bounds: shared memory at " + std::to_string(address));
}

char* GlobalPointer(Frame& f, uint64_t address, size_t bytes) {
  char* p = reinterpret_cast<char*>(address);
  const auto holds = [&](const MemoryBlock& block) {
    return p >= block.begin && p + bytes <= block.begin + block.bytes;
  };
  if (!holds(f.block)) {
    const MemoryBlock* block = DeviceBlockAt(p);
    if (block == nullptr || !holds(*block))
      Fail("out of bounds: global memory that is no tensor's");
    f.block = *block;
  }
  return p;
}

template <Space space>
char* Pointer(Frame& f, const Instruction& i, size_t bytes) {
  const uint64_t base = i.address == Instruction::kNone ? 0 : Get<uint64_t>(f, i.address);
  const uint64_t address = base + static_cast<uint64_t>(i.offset);
  switch (space) {
    case Space::kGlobal:
      return GlobalPointer(f, address, bytes);
    case Space::kShared:
      return SharedPointer(f, static_cast<uint32_t>(address), bytes);
    case Space::kGeneric:
      return reinterpret_cast<char*>(address);
    case Space::kParameter:
      if (i.address != Instruction::kNone) return reinterpret_cast<char*>(address);
      return const_cast<char*>(reinterpret_cast<const char*>(f.parameters)) + address;
    case Space::kCallArea:
      return reinterpret_cast<char*>(f.call_area.data()) + address;
    case Space::kResult:
      return reinterpret_cast<char*>(f.results.data()) + address;
  }
  return nullptr;
}

template <class T, Space space, int count, bool stores>
void Access(Frame& f, const Instruction& i) {
  char* p = Pointer<space>(f, i, sizeof(T) * count);
  if (reinterpret_cast<uintptr_t>(p) % (sizeof(T) * count) != 0 && space != Space::kParameter) {
    Fail("misaligned access of " + std::to_string(sizeof(T) * count) + " bytes");
  }
  for (size_t k = 0; k < count; ++k) {
    if constexpr (stores) {
      std::memcpy(p + k * sizeof(T), &f.registers[static_cast<size_t>(i.from[k])], sizeof(T));
    } else {
      T value;
      std::memcpy(&value, p + k * sizeof(T), sizeof(T));
      Put(f, i.to[k], value);
    }
  }
}

void SharedToGeneric(Frame& f, const Instruction& i) {
  Put(f, i.to[0], reinterpret_cast<uint64_t>(SharedPointer(f, Source<uint32_t>(f, i, 0), 1)));
}

// ---- Threads together ----

void BlockBarrier(Frame&, const Instruction& i) { Barrier(&i); }

template <Collective kind>
void ShuffleLanes(Frame& f, const Instruction& i) {
  const auto bits = Source<uint32_t>(f, i, 0);
  const int argument = static_cast<int>(Source<uint32_t>(f, i, 1) & 31);
  const uint32_t clamp = Source<uint32_t>(f, i, 2);
  const int width = 32 - static_cast<int>(clamp >> 8 & 31);
  const uint64_t value = Shuffle(kind, Source<uint32_t>(f, i, 3), bits, argument, width, &i);
  Put(f, i.to[0], static_cast<uint32_t>(value));
  if (i.to[1] == Instruction::kNone) return;
  const int lane = static_cast<int>(execution.current->id % kWarpSize);
  const int first = lane & ~(width - 1);
  const bool inside = kind == Collective::kUp     ? lane - argument >= first
                      : kind == Collective::kDown ? lane + argument < first + width
                      : kind == Collective::kXor  ? (lane ^ argument) < first + width
                                                  : true;
  Put<uint64_t>(f, i.to[1], inside);
}
void VoteBallot(Frame& f, const Instruction& i) {
  Put(f, i.to[0],
      Ballot(Collective::kVote, Source<uint32_t>(f, i, 1), Predicate(f, i.from[0]), &i));
}
void WarpBarrier(Frame& f, const Instruction& i) {
  Ballot(Collective::kSyncWarp, Source<uint32_t>(f, i, 0), false, &i);
}

void Return(Frame& f, const Instruction&) { f.returned = true; }
void Nothing(Frame&, const Instruction&) {}

// ---- From opcodes to steps ----

std::vector<std::string_view> Parts(std::string_view opcode) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = opcode.find('.');
    parts.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    opcode.remove_prefix(dot + 1);
  }
}

// Calls visit(T{}) with the type of this name; null for a name that is none.
template <class Visit>
Step VisitInteger(std::string_view name, const Visit& visit) {
  if (name == "u8" || name == "b8") return visit(uint8_t{});
  if (name == "u16" || name == "b16") return visit(uint16_t{});
  if (name == "u32" || name == "b32") return visit(uint32_t{});
  if (name == "u64" || name == "b64") return visit(uint64_t{});
  if (name == "s8") return visit(int8_t{});
  if (name == "s16") return visit(int16_t{});
  if (name == "s32") return visit(int32_t{});
  if (name == "s64") return visit(int64_t{});
  return nullptr;
}
template <class Visit>
Step VisitFloating(std::string_view name, const Visit& visit) {
  if (name == "f32") return visit(float{});
  if (name == "f64") return visit(double{});
  return nullptr;
}
template <class Visit>
Step VisitNumber(std::string_view name, const Visit& visit) {
  if (const Step step = VisitInteger(name, visit); step != nullptr) return step;
  return VisitFloating(name, visit);
}

template <class Op>
Step NumberStep(std::string_view type) {
  return VisitNumber(type, []<class T>(T) -> Step { return &Binary<Op, T>; });
}
template <class Op>
Step UnaryNumberStep(std::string_view type) {
  return VisitNumber(type, []<class T>(T) -> Step { return &Unary<Op, T>; });
}
template <class Op>
Step UnaryFloatingStep(std::string_view type) {
  return VisitFloating(type, []<class T>(T) -> Step { return &Unary<Op, T>; });
}
template <class Op>
Step BitsStep(std::string_view type) {
  if (type == "pred") return &Binary<Op, uint64_t>;
  return VisitInteger(type, []<class T>(T) -> Step { return &Binary<Op, T>; });
}

template <Relation relation>
Step CompareStep(std::string_view type, bool or_unordered) {
  return VisitNumber(type, [&]<class T>(T) -> Step {
    return or_unordered ? &Compare<relation, true, T> : &Compare<relation, false, T>;
  });
}
Step SetPredicateStep(std::string_view relation, std::string_view type) {
  if (relation == "num") return CompareStep<Relation::kNumbers>(type, false);
  if (relation == "nan") return CompareStep<Relation::kNaN>(type, false);
  // lo, ls, hi, hs are unsigned comparisons.
  if (relation == "lo") return CompareStep<Relation::kLess>(type, false);
  if (relation == "ls") return CompareStep<Relation::kLessEqual>(type, false);
  if (relation == "hi") return CompareStep<Relation::kGreater>(type, false);
  if (relation == "hs") return CompareStep<Relation::kGreaterEqual>(type, false);
  const bool or_unordered = relation.size() == 3 && relation[2] == 'u';
  const std::string_view plain = relation.substr(0, 2);
  if (relation.size() > 2 && !or_unordered) return nullptr;
  if (plain == "eq") return CompareStep<Relation::kEqual>(type, or_unordered);
  if (plain == "ne") return CompareStep<Relation::kNotEqual>(type, or_unordered);
  if (plain == "lt") return CompareStep<Relation::kLess>(type, or_unordered);
  if (plain == "le") return CompareStep<Relation::kLessEqual>(type, or_unordered);
  if (plain == "gt") return CompareStep<Relation::kGreater>(type, or_unordered);
  if (plain == "ge") return CompareStep<Relation::kGreaterEqual>(type, or_unordered);
  return nullptr;
}

template <Rounding rounding, bool saturates>
Step ConvertStepOf(std::string_view to, std::string_view from) {
  return VisitNumber(to, [&]<class To>(To) -> Step {
    return VisitNumber(
        from, []<class From>(From) -> Step { return &Convert<To, From, rounding, saturates>; });
  });
}
Step ConvertStep(const std::vector<std::string_view>& parts) {
  const std::string_view to = parts[parts.size() - 2], from = parts.back();
  if (to == "bf16" && from == "f32") return &ToBFloat16;
  if (to == "bf16x2" && from == "f32") return &ToTwoBFloat16;
  if (to == "f32" && from == "bf16") return &FromBFloat16;
  const std::string_view first = parts.size() > 3 ? parts[1] : "rn";
  if (first == "rn") return ConvertStepOf<Rounding::kNearest, false>(to, from);
  if (first == "sat") return ConvertStepOf<Rounding::kNearest, true>(to, from);
  if (first == "rni") return ConvertStepOf<Rounding::kToInteger, false>(to, from);
  if (first == "rzi") return ConvertStepOf<Rounding::kTowardsZero, false>(to, from);
  if (first == "rmi") return ConvertStepOf<Rounding::kDown, false>(to, from);
  if (first == "rpi") return ConvertStepOf<Rounding::kUp, false>(to, from);
  return nullptr;
}

Step ShuffleStep(std::string_view kind) {
  if (kind == "bfly") return &ShuffleLanes<Collective::kXor>;
  if (kind == "up") return &ShuffleLanes<Collective::kUp>;
  if (kind == "down") return &ShuffleLanes<Collective::kDown>;
  if (kind == "idx") return &ShuffleLanes<Collective::kIndex>;
  return nullptr;
}

Step ArithmeticStep(std::string_view opcode, const std::vector<std::string_view>& parts) {
  const std::string_view op = parts[0], type = parts.back();
  const bool high = parts.size() > 1 && parts[1] == "hi",
             wide = parts.size() > 1 && parts[1] == "wide";
  if (op == "add") return NumberStep<Plus>(type);
  if (op == "sub") return NumberStep<Minus>(type);
  if (op == "mul" && high) {
    return VisitInteger(type, []<class T>(T) -> Step { return &Binary<TimesHigh, T>; });
  }
  if (op == "mul" && wide) {
    return VisitInteger(type, []<class T>(T) -> Step {
      if constexpr (sizeof(T) < 8) return &TimesWide<T>;
      return nullptr;
    });
  }
  if (op == "mul") return NumberStep<Times>(type);
  if (op == "mad" && wide) {
    return VisitInteger(type, []<class T>(T) -> Step {
      if constexpr (sizeof(T) < 8) return &TimesPlusWide<T>;
      return nullptr;
    });
  }
  if (op == "mad" && !high) {
    return VisitInteger(type, []<class T>(T) -> Step { return &TimesPlus<T>; });
  }
  if (op == "div") return NumberStep<Over>(type);
  if (op == "rem") return VisitInteger(type, []<class T>(T) -> Step { return &Binary<Modulo, T>; });
  if (op == "min") return NumberStep<Least>(type);
  if (op == "max") return NumberStep<Greatest>(type);
  if (op == "neg") return UnaryNumberStep<Negative>(type);
  if (op == "abs") return UnaryNumberStep<Magnitude>(type);
  if (op == "copysign") {
    return VisitFloating(type, []<class T>(T) -> Step { return &Binary<SignOf, T>; });
  }
  if (op == "sqrt") return UnaryFloatingStep<Root>(type);
  if (op == "rcp") return UnaryFloatingStep<Inverse>(type);
  if (op == "rsqrt") return UnaryFloatingStep<InverseRoot>(type);
  if (op == "ex2") return UnaryFloatingStep<PowerOfTwo>(type);
  if (op == "lg2") return UnaryFloatingStep<LogOfTwo>(type);
  if (op == "fma" && opcode.starts_with("fma.rm")) {
    return VisitFloating(type, []<class T>(T) -> Step { return &FusedTowardsMinusInfinity<T>; });
  }
  if (op == "fma" && opcode.starts_with("fma.rn")) {
    return VisitFloating(type, []<class T>(T) -> Step { return &Fused<T>; });
  }
  return nullptr;
}

Step BitStep(std::string_view opcode, const std::vector<std::string_view>& parts) {
  const std::string_view op = parts[0], type = parts.back();
  if (op == "and") return BitsStep<And>(type);
  if (op == "or") return BitsStep<Or>(type);
  if (op == "xor") return BitsStep<Xor>(type);
  if (op == "not" && type == "pred") return &NotPredicate;
  if (op == "not") return VisitInteger(type, []<class T>(T) -> Step { return &Unary<Not, T>; });
  if (op == "shl") return VisitInteger(type, []<class T>(T) -> Step { return &ShiftLeft<T>; });
  if (op == "shr") return VisitInteger(type, []<class T>(T) -> Step { return &ShiftRight<T>; });
  if (opcode == "shf.l.wrap.b32") return &FunnelShift<true, true>;
  if (opcode == "shf.r.wrap.b32") return &FunnelShift<false, true>;
  if (opcode == "shf.l.clamp.b32") return &FunnelShift<true, false>;
  if (opcode == "shf.r.clamp.b32") return &FunnelShift<false, false>;
  if (opcode == "lop3.b32") return &LogicOfThree;
  if (opcode == "prmt.b32") return &Permute;
  if (op == "bfe") return VisitInteger(type, []<class T>(T) -> Step { return &BitField<T>; });
  if (opcode == "popc.b32") return &Unary<PopulationCount, uint32_t>;
  if (opcode == "popc.b64") return &Unary<PopulationCount, uint64_t>;
  if (opcode == "clz.b32") return &Unary<LeadingZeros, uint32_t>;
  if (opcode == "clz.b64") return &Unary<LeadingZeros, uint64_t>;
  return nullptr;
}

Step OtherStep(std::string_view opcode, const std::vector<std::string_view>& parts) {
  const std::string_view op = parts[0];
  if (opcode == "mov.b32") return &MoveBits<uint32_t>;
  if (opcode == "mov.b64") return &MoveBits<uint64_t>;
  if (op == "mov") return &Move;
  if (op == "selp") return &Select;
  if (op == "setp" && parts.size() == 3) return SetPredicateStep(parts[1], parts[2]);
  if (op == "cvt") return ConvertStep(parts);
  if (opcode == "cvta.shared.u64") return &SharedToGeneric;
  if (op == "cvta") return &Move;  // global, local and generic addresses are one
  if (op == "bar" || op == "barrier")
    return opcode == "bar.warp.sync" ? &WarpBarrier : &BlockBarrier;
  if (op == "shfl") return ShuffleStep(parts[2]);
  if (opcode == "vote.sync.ballot.b32") return &VoteBallot;
  if (op == "ret" || op == "exit") return &Return;
  if (op == "membar" || op == "fence") return &Nothing;
  return nullptr;
}

template <Space space, bool stores>
Step AccessStep(int count, std::string_view type) {
  return VisitNumber(type, [&]<class T>(T) -> Step {
    switch (count) {
      case 1:
        return &Access<T, space, 1, stores>;
      case 2:
        return &Access<T, space, 2, stores>;
      default:
        return &Access<T, space, 4, stores>;
    }
  });
}
template <bool stores>
Step AccessStepIn(Space space, int count, std::string_view type) {
  switch (space) {
    case Space::kGlobal:
      return AccessStep<Space::kGlobal, stores>(count, type);
    case Space::kShared:
      return AccessStep<Space::kShared, stores>(count, type);
    case Space::kGeneric:
      return AccessStep<Space::kGeneric, stores>(count, type);
    case Space::kParameter:
      return AccessStep<Space::kParameter, stores>(count, type);
    case Space::kCallArea:
      return AccessStep<Space::kCallArea, stores>(count, type);
    case Space::kResult:
      return AccessStep<Space::kResult, stores>(count, type);
  }
  return nullptr;
}

}  // namespace

Step StepOf(std::string_view opcode) {
  const std::vector<std::string_view> parts = Parts(opcode);
  Step step = ArithmeticStep(opcode, parts);
  if (step == nullptr) step = BitStep(opcode, parts);
  if (step == nullptr) step = OtherStep(opcode, parts);
  TOST_CHECK(step != nullptr) << "the emulator does not know the PTX instruction "
                              << std::string(opcode).c_str() << ": add it to ptx_steps.cc";
  return step;
}

Step MemoryStep(bool store, Space space, int count, std::string_view type) {
  return store ? AccessStepIn<true>(space, count, type) : AccessStepIn<false>(space, count, type);
}

void ParameterAddress(Frame& f, const Instruction& i) {
  Put(f, i.to[0], reinterpret_cast<uint64_t>(f.parameters) + static_cast<uint64_t>(i.offset));
}
void LocalAddress(Frame& f, const Instruction& i) {
  Put(f, i.to[0], reinterpret_cast<uint64_t>(f.local.data()) + static_cast<uint64_t>(i.offset));
}

void Branch(Frame& f, const Instruction& i) { f.next = static_cast<size_t>(i.offset); }

// The callee's parameters begin where the caller's call area has its arguments (i.offset), and its
// result goes to the area's place i.address.
void Call(Frame& f, const Instruction& i) {
  std::vector<unsigned char> parameters(i.callee->parameter_bytes + 16);
  std::memcpy(parameters.data(), f.call_area.data() + i.offset, i.callee->parameter_bytes);
  Frame callee(*i.callee, parameters.data());
  Run(callee);
  if (i.address != Instruction::kNone) {
    std::memcpy(f.call_area.data() + i.address, callee.results.data(), callee.results.size());
  }
}

void Run(Frame& frame) {
  for (const SpecialRegister& special : frame.program.special) {
    const auto of = [&](const auto& extents) {
      return special.axis == 0 ? extents.x : special.axis == 1 ? extents.y : extents.z;
    };
    uint32_t value = 0;
    switch (special.which) {
      case Special::kTid:
        value = of(threadIdx);
        break;
      case Special::kNtid:
        value = of(blockDim);
        break;
      case Special::kCtaid:
        value = of(blockIdx);
        break;
      case Special::kNctaid:
        value = of(gridDim);
        break;
      case Special::kLaneid:
        value = execution.current->id % kWarpSize;
        break;
    }
    frame.registers[static_cast<size_t>(special.number)] = value;
  }
  while (!frame.returned) {
    const Instruction& i = frame.program.code[frame.next++];
    if (i.guard != Instruction::kNone && Predicate(frame, i.guard) != i.guard_is) continue;
    i.step(frame, i);
  }
}

}  // namespace tost::simt::ptx
