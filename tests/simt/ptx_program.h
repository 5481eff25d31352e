// A kernel as nvcc wrote it in PTX, decoded once into steps that a thread of the emulated device
// takes one after the other.
#ifndef TOST_TESTS_SIMT_PTX_PROGRAM_H_
#define TOST_TESTS_SIMT_PTX_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simt/memory.h"

namespace tost::simt::ptx {

struct Frame;
struct Program;
struct Instruction;
using Step = void (*)(Frame& frame, const Instruction& instruction);

// Operands are numbers of registers; constants and special registers are registers that are set
// before a thread begins.
struct Instruction {
  static constexpr int kNone = -1;

  Step step = nullptr;
  int guard = kNone;     // skipped unless this predicate …
  bool guard_is = true;  // … has this value
  std::array<int, 4> to{kNone, kNone, kNone, kNone};
  std::array<int, 4> from{kNone, kNone, kNone, kNone};
  int address = kNone;  // of a load or store: this register (none: 0) …
  int64_t offset = 0;   // … plus so much; of a branch: the instruction to go on with
  std::shared_ptr<const Program> callee;
};

// A shared array. Shared addresses have 32 bits: those of an array begin at `address`.
struct SharedVariable {
  std::string name;
  uint32_t address = 0, bytes = 0;
};
inline constexpr uint32_t kDynamicShared = 0x10000000;

enum class Special { kTid, kNtid, kCtaid, kNctaid, kLaneid };
struct SpecialRegister {
  int number;
  Special which;
  int axis;
};

struct Program {
  std::string name;
  std::map<std::string, size_t, std::less<>> parameters;  // their offsets
  size_t parameter_bytes = 0, call_bytes = 0, result_bytes = 0, local_bytes = 0;
  std::vector<uint64_t> registers;  // their first values
  std::vector<SpecialRegister> special;
  std::vector<SharedVariable> shared;
  std::vector<Instruction> code;
};

// A thread in a program.
struct Frame {
  Frame(const Program& of_program, const unsigned char* with_parameters)
      : program(of_program),
        parameters(with_parameters),
        registers(of_program.registers),
        call_area(of_program.call_bytes),
        results(of_program.result_bytes),
        local(of_program.local_bytes) {}

  const Program& program;
  const unsigned char* parameters;
  std::vector<uint64_t> registers;
  std::vector<unsigned char> call_area, results, local;
  MemoryBlock block;  // of device memory, met last
  size_t next = 0;
  bool returned = false;
};

// Runs a thread of the running block to its end.
void Run(Frame& frame);

// The step of an opcode such as "add.s32"; CHECK-fails with the opcode when it is not known. Those
// of loads and stores, branches and calls are the parser's.
Step StepOf(std::string_view opcode);
enum class Space { kGlobal, kShared, kGeneric, kParameter, kCallArea, kResult };
// A load or store of `count` elements of a type such as "u16".
Step MemoryStep(bool store, Space space, int count, std::string_view type);
void ParameterAddress(Frame& frame, const Instruction& instruction);
void LocalAddress(Frame& frame, const Instruction& instruction);
void Branch(Frame& frame, const Instruction& instruction);
void Call(Frame& frame, const Instruction& instruction);

// The programs in the text of a PTX file: its kernels and functions by their mangled names, each
// decoded when it is first asked for.
class Module {
 public:
  explicit Module(std::string text);
  bool Has(std::string_view name) const { return bodies_.contains(name); }
  // Null where the file has no such kernel.
  std::shared_ptr<const Program> Find(std::string_view name) const;

 private:
  std::string text_;
  // Where the text of each begins.
  std::map<std::string, size_t, std::less<>> bodies_;
  std::map<std::string, uint32_t, std::less<>> shared_bytes_;  // of the file's own shared arrays
  mutable std::map<std::string, std::shared_ptr<const Program>, std::less<>> programs_;
};

}  // namespace tost::simt::ptx

#endif  // TOST_TESTS_SIMT_PTX_PROGRAM_H_
