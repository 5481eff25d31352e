// From the text of PTX to programs (PTX ISA 9.0, chapters 4 and 5), as far as nvcc writes it.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <utility>

#include "autograd/base/errors.h"
#include "tests/simt/ptx_program.h"

namespace tost::simt::ptx {
namespace {

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}
bool IsNamePart(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view Trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// Comments become spaces, so that offsets stay.
std::string WithoutComments(std::string text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '/') continue;
    if (text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n') text[i++] = ' ';
    } else if (text[i + 1] == '*') {
      const size_t end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
      while (i < end) text[i++] = ' ';
    }
  }
  return text;
}

// The parts of a list between commas outside of brackets.
std::vector<std::string_view> SplitList(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      const char c = text[i];
      if (c == '{' || c == '[' || c == '(') ++depth;
      if (c == '}' || c == ']' || c == ')') --depth;
      if (c != ',' || depth > 0) continue;
    }
    const std::string_view part = Trimmed(text.substr(begin, i - begin));
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = Trimmed(text); !text.empty(); text = Trimmed(text)) {
    size_t end = 0;
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) == 0) ++end;
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

// An integer, or the bits of 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX.
uint64_t Constant(std::string_view text) {
  const std::string number(text);
  if (number.starts_with("0f") || number.starts_with("0F") || number.starts_with("0d") ||
      number.starts_with("0D")) {
    return std::strtoull(number.c_str() + 2, nullptr, 16);
  }
  char* end = nullptr;
  const uint64_t value = number.starts_with("-")
                             ? static_cast<uint64_t>(std::strtoll(number.c_str(), &end, 0))
                             : std::strtoull(number.c_str(), &end, 0);
  TOST_CHECK(*end == '\0' || *end == 'U') << "no PTX constant: " << number.c_str();
  return value;
}

// A declaration ".param .align 8 .b8 NAME[16]" or ".reg .b32 %r<9>".
struct Declaration {
  std::string_view name;
  size_t element = 0, count = 1, alignment = 0;

  size_t bytes() const { return element * count; }
};
size_t SizeOfType(std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos) return 1;  // .pred
  return static_cast<size_t>(std::atoi(std::string(type.substr(digits)).c_str())) / 8;
}
Declaration Declared(std::string_view text) {
  Declaration declaration;
  const std::vector<std::string_view> words = Words(text);
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == ".ptr") {
      // What follows describes where the pointer points.
      declaration.name = words.back();
      break;
    }
    if (word == ".align") {
      declaration.alignment = Constant(words[++i]);
    } else if (word.starts_with(".")) {
      declaration.element = SizeOfType(word);  // the type is the last such word
    } else {
      const size_t bracket = word.find_first_of("[<");
      declaration.name = word.substr(0, bracket);
      if (bracket != std::string_view::npos) {
        const std::string_view count =
            word.substr(bracket + 1, word.find_first_of("]>") - bracket - 1);
        declaration.count = count.empty() ? 0 : Constant(count);
      }
    }
  }
  if (declaration.alignment == 0) declaration.alignment = declaration.element;
  return declaration;
}

size_t Place(const Declaration& declaration, size_t& end) {
  const size_t begin =
      (end + declaration.alignment - 1) / declaration.alignment * declaration.alignment;
  end = begin + declaration.bytes();
  return begin;
}

// What a name in an address or a move stands for.
struct Symbol {
  enum class Kind { kNone, kShared, kParameter, kCallArea, kResult, kLocal } kind = Kind::kNone;
  int64_t offset = 0;
};

class Parser {
 public:
  using FindFunction = std::function<std::shared_ptr<const Program>(std::string_view name)>;
  using SharedBytes = std::map<std::string, uint32_t, std::less<>>;

  Parser(std::string_view name, const SharedBytes& module_shared, FindFunction find)
      : module_shared_(module_shared), find_(std::move(find)) {
    program_.name = std::string(name);
  }

  // `text` begins behind ".entry" or ".func".
  Program Parse(std::string_view text) {
    const size_t body = text.find('{');
    Head(text.substr(0, body));
    text.remove_prefix(body + 1);
    int depth = 1;
    while (depth > 0) {
      text = Trimmed(text);
      if (text.front() == '{' || text.front() == '}') {
        depth += text.front() == '{' ? 1 : -1;
        text.remove_prefix(1);
      } else if (const size_t label = LabelLength(text); label > 0) {
        labels_[std::string(text.substr(0, label))] = program_.code.size();
        text = Trimmed(text.substr(label));
        text.remove_prefix(1);  // ':'
      } else {
        const size_t end = text.find(';');
        Statement(Trimmed(text.substr(0, end)));
        text.remove_prefix(end + 1);
      }
    }
    for (const auto& [instruction, label] : jumps_) {
      const auto target = labels_.find(label);
      TOST_CHECK(target != labels_.end()) << program_.name << ": no PTX label " << label;
      program_.code[instruction].offset = static_cast<int64_t>(target->second);
    }
    return std::move(program_);
  }

 private:
  static size_t LabelLength(std::string_view text) {
    if (!IsNameStart(text.front())) return 0;
    size_t length = 0;
    while (length < text.size() && IsNamePart(text[length])) ++length;
    return Trimmed(text.substr(length)).starts_with(':') ? length : 0;
  }

  // "(.param .b64 func_retval0) NAME (.param …, …)": parameters are in the last parentheses, a
  // function's result in those before its name.
  void Head(std::string_view head) {
    const size_t name = head.find(program_.name);
    const size_t result = head.substr(0, name).find('(');
    if (result != std::string_view::npos) {
      const std::string_view inside =
          head.substr(result + 1, head.substr(0, name).rfind(')') - result - 1);
      const Declaration declared = Declared(inside);
      symbols_[std::string(declared.name)] = {
          Symbol::Kind::kResult, static_cast<int64_t>(Place(declared, program_.result_bytes))};
    }
    const size_t begin = head.find('(', name);
    if (begin == std::string_view::npos) return;
    for (const std::string_view part :
         SplitList(head.substr(begin + 1, head.find(')', begin) - begin - 1))) {
      const Declaration declared = Declared(part);
      symbols_[std::string(declared.name)] = {
          Symbol::Kind::kParameter,
          static_cast<int64_t>(Place(declared, program_.parameter_bytes))};
    }
  }

  void Statement(std::string_view text) {
    if (text.empty()) return;
    if (text.front() == '.') return Directive(text);
    Instruction instruction;
    if (text.front() == '@') {
      text.remove_prefix(1);
      instruction.guard_is = text.front() != '!';
      if (!instruction.guard_is) text.remove_prefix(1);
      size_t end = 0;
      while (IsNamePart(text[end])) ++end;
      instruction.guard = Register(text.substr(0, end));
      text = Trimmed(text.substr(end));
    }
    size_t end = 0;
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) == 0) ++end;
    std::string opcode(text.substr(0, end));
    const std::vector<std::string_view> operands = SplitList(text.substr(end));
    Decode(opcode, operands, instruction);
    program_.code.push_back(std::move(instruction));
  }

  void Directive(std::string_view text) {
    if (text.starts_with(".reg")) {
      for (const std::string_view part : SplitList(text)) {
        const Declaration declared = Declared(part);
        // Ranges "%r<9>" are named one by one where they are used.
        if (declared.count == 1) Register(declared.name);
      }
    } else if (text.starts_with(".shared")) {
      const Declaration declared = Declared(text);
      AddShared(declared.name, static_cast<uint32_t>(declared.bytes()));
    } else if (text.starts_with(".local")) {
      const Declaration declared = Declared(text);
      symbols_[std::string(declared.name)] = {
          Symbol::Kind::kLocal, static_cast<int64_t>(Place(declared, program_.local_bytes))};
    } else if (text.starts_with(".param")) {
      const Declaration declared = Declared(text);
      symbols_[std::string(declared.name)] = {
          Symbol::Kind::kCallArea, static_cast<int64_t>(Place(declared, program_.call_bytes))};
    } else {
      TOST_CHECK(text.starts_with(".pragma"))
          << "unknown PTX directive " << std::string(text).c_str();
    }
  }

  uint32_t AddShared(std::string_view name, uint32_t bytes) {
    constexpr uint32_t kGap = 256;
    const uint32_t address =
        program_.shared.empty()
            ? kGap
            : (program_.shared.back().address + program_.shared.back().bytes + 2 * kGap - 1) /
                  kGap * kGap;
    program_.shared.push_back({std::string(name), address, bytes});
    symbols_[std::string(name)] = {Symbol::Kind::kShared, address};
    return address;
  }

  // ---- Operands ----

  int NewRegister(uint64_t value) {
    program_.registers.push_back(value);
    return static_cast<int>(program_.registers.size()) - 1;
  }

  int Register(std::string_view name) {
    const auto found = registers_.find(name);
    if (found != registers_.end()) return found->second;
    const int number = NewRegister(0);
    registers_[std::string(name)] = number;
    AddSpecial(name, number);
    return number;
  }

  void AddSpecial(std::string_view name, int number) {
    static const std::pair<std::string_view, Special> kSpecial[] = {{"%tid", Special::kTid},
                                                                    {"%ntid", Special::kNtid},
                                                                    {"%ctaid", Special::kCtaid},
                                                                    {"%nctaid", Special::kNctaid},
                                                                    {"%laneid", Special::kLaneid}};
    const size_t dot = name.find('.');
    for (const auto& [prefix, which] : kSpecial) {
      if (name.substr(0, dot) != prefix) continue;
      const int axis = dot == std::string_view::npos ? 0 : name[dot + 1] - 'x';
      program_.special.push_back({number, which, axis});
      return;
    }
    TOST_CHECK(dot == std::string_view::npos)
        << "unknown special register " << std::string(name).c_str();
  }

  Symbol Find(std::string_view name) {
    const auto found = symbols_.find(name);
    if (found != symbols_.end()) return found->second;
    const auto shared = module_shared_.find(name);
    if (shared == module_shared_.end()) return {};
    if (shared->second == 0) return {Symbol::Kind::kShared, kDynamicShared};
    return {Symbol::Kind::kShared, AddShared(name, shared->second)};
  }

  // A register, a constant, or the address of a shared array.
  int Value(std::string_view text) {
    if (text.front() == '%') return Register(text);
    if (!IsNameStart(text.front())) return NewRegister(Constant(text));
    const Symbol symbol = Find(text);
    TOST_CHECK(symbol.kind == Symbol::Kind::kShared)
        << program_.name << ": " << std::string(text).c_str() << " is no value";
    return NewRegister(static_cast<uint64_t>(symbol.offset));
  }

  // One operand, or the parts of "{a, b}" and "a|b".
  template <size_t n>
  void Values(std::string_view text, std::array<int, n>& into, size_t first = 0) {
    std::vector<std::string_view> parts{text};
    if (text.front() == '{') parts = SplitList(text.substr(1, text.size() - 2));
    if (const size_t bar = text.find('|'); bar != std::string_view::npos) {
      parts = {Trimmed(text.substr(0, bar)), Trimmed(text.substr(bar + 1))};
    }
    TOST_CHECK(first + parts.size() <= n) << program_.name << ": too many operands";
    for (const std::string_view part : parts)
      into[first++] = part == "_" ? NewRegister(0) : Value(part);
  }

  // "[%rd1+8]", "[NAME+8]": sets the address and says where a name lies.
  Symbol Address(std::string_view text, Instruction& instruction) {
    text = Trimmed(text.substr(1, text.size() - 2));
    const size_t sign = text.find_first_of("+-", 1);
    const std::string_view base = Trimmed(text.substr(0, sign));
    if (sign != std::string_view::npos) {
      std::string_view offset = text.substr(sign);
      if (offset.front() == '+') offset.remove_prefix(1);
      instruction.offset = static_cast<int64_t>(Constant(Trimmed(offset)));
    }
    if (base.front() == '%') {
      instruction.address = Register(base);
      return {};
    }
    const Symbol symbol = Find(base);
    TOST_CHECK(symbol.kind != Symbol::Kind::kNone)
        << program_.name << ": unknown PTX name " << std::string(base).c_str();
    instruction.offset += symbol.offset;
    return symbol;
  }

  // ---- Instructions ----

  void Decode(const std::string& opcode, const std::vector<std::string_view>& operands,
              Instruction& instruction) {
    if (opcode.starts_with("ld.") || opcode.starts_with("st.")) {
      return DecodeAccess(opcode, operands, instruction);
    }
    if (opcode == "bra" || opcode == "bra.uni") {
      instruction.step = &Branch;
      jumps_.emplace_back(program_.code.size(), std::string(operands.at(0)));
      return;
    }
    if (opcode.starts_with("call")) return DecodeCall(operands, instruction);
    if (opcode.starts_with("mov.") && DecodeAddressOf(operands, instruction)) return;
    instruction.step = StepOf(opcode);
    if (operands.empty()) return;
    const bool only_sources = opcode.starts_with("bar");
    if (only_sources) return Values(operands[0], instruction.from);
    Values(operands[0], instruction.to);
    size_t next = 0;
    for (size_t i = 1; i < operands.size(); ++i) {
      Values(operands[i], instruction.from, next);
      next = static_cast<size_t>(std::ranges::find(instruction.from, Instruction::kNone) -
                                 instruction.from.begin());
    }
  }

  bool DecodeAddressOf(const std::vector<std::string_view>& operands, Instruction& instruction) {
    if (operands.size() != 2 || !IsNameStart(operands[1].front()) || operands[1].front() == '%') {
      return false;
    }
    const Symbol symbol = Find(operands[1]);
    if (symbol.kind != Symbol::Kind::kParameter && symbol.kind != Symbol::Kind::kLocal)
      return false;
    instruction.step = symbol.kind == Symbol::Kind::kLocal ? &LocalAddress : &ParameterAddress;
    instruction.offset = symbol.offset;
    Values(operands[0], instruction.to);
    return true;
  }

  void DecodeAccess(const std::string& opcode, const std::vector<std::string_view>& operands,
                    Instruction& instruction) {
    const bool store = opcode.starts_with("st.");
    std::string_view rest = opcode;
    Space space = Space::kGeneric;
    int count = 1;
    const std::string_view type = rest.substr(rest.rfind('.') + 1);
    if (rest.find(".global") != std::string_view::npos) space = Space::kGlobal;
    if (rest.find(".shared") != std::string_view::npos) space = Space::kShared;
    if (rest.find(".param") != std::string_view::npos) space = Space::kParameter;
    if (rest.find(".v2.") != std::string_view::npos) count = 2;
    if (rest.find(".v4.") != std::string_view::npos) count = 4;
    const Symbol symbol = Address(operands.at(store ? 0 : 1), instruction);
    if (symbol.kind == Symbol::Kind::kCallArea) space = Space::kCallArea;
    if (symbol.kind == Symbol::Kind::kResult) space = Space::kResult;
    Values(operands.at(store ? 1 : 0), store ? instruction.from : instruction.to);
    instruction.step = MemoryStep(store, space, count, type);
    TOST_CHECK(instruction.step != nullptr)
        << "the emulator does not know the PTX instruction " << opcode;
  }

  // call (result), function, (arguments): arguments lie one behind the other in the call area.
  void DecodeCall(const std::vector<std::string_view>& operands, Instruction& instruction) {
    size_t next = 0;
    if (operands[0].front() == '(') {
      const std::string_view result = Trimmed(operands[next++].substr(1, operands[0].size() - 2));
      instruction.address = static_cast<int>(Find(result).offset);
    }
    const std::string_view function = operands[next++];
    instruction.callee = find_(function);
    TOST_CHECK(instruction.callee != nullptr)
        << program_.name << " calls the unknown PTX function " << std::string(function).c_str();
    if (next < operands.size()) {
      const std::string_view arguments = operands[next];
      const std::vector<std::string_view> names =
          SplitList(arguments.substr(1, arguments.size() - 2));
      if (!names.empty()) instruction.offset = Find(names[0]).offset;
    }
    instruction.step = &Call;
  }

  const SharedBytes& module_shared_;
  FindFunction find_;
  Program program_;
  std::map<std::string, int, std::less<>> registers_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::map<std::string, size_t> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;
};

// The name of an entry or function whose declaration begins here, behind ".entry" or ".func": in
// front of its parameters, behind its result.
std::string_view NameOf(std::string_view text) {
  text = Trimmed(text);
  if (text.front() == '(') text = Trimmed(text.substr(text.find(')') + 1));
  size_t end = 0;
  while (end < text.size() && IsNamePart(text[end])) ++end;
  return text.substr(0, end);
}

}  // namespace

Module::Module(std::string text) : text_(WithoutComments(std::move(text))) {
  const std::string_view all = text_;
  for (const std::string_view word : {".entry", ".func"}) {
    for (size_t at = all.find(word); at != std::string_view::npos; at = all.find(word, at + 1)) {
      const size_t begin = at + word.size();
      const std::string_view rest = all.substr(begin);
      // A declaration without a body ends with a semicolon.
      if (rest.find(';') < rest.find('{')) continue;
      bodies_[std::string(NameOf(rest))] = begin;
    }
  }
  // Shared arrays of the file stand at the beginning of a line, those of a kernel are indented.
  for (const std::string_view word : {"\n.shared", "\n.extern .shared", "\n.visible .shared"}) {
    for (size_t at = all.find(word); at != std::string_view::npos; at = all.find(word, at + 1)) {
      std::string_view line = all.substr(at + 1, all.find(';', at) - at - 1);
      const size_t shared = line.find(".shared");
      const Declaration declared = Declared(line.substr(shared));
      shared_bytes_[std::string(declared.name)] = static_cast<uint32_t>(declared.bytes());
    }
  }
}

std::shared_ptr<const Program> Module::Find(std::string_view name) const {
  const auto known = programs_.find(name);
  if (known != programs_.end()) return known->second;
  const auto body = bodies_.find(name);
  if (body == bodies_.end()) return nullptr;
  Parser parser(name, shared_bytes_, [this](std::string_view callee) { return Find(callee); });
  auto program =
      std::make_shared<const Program>(parser.Parse(std::string_view(text_).substr(body->second)));
  programs_[std::string(name)] = program;
  return program;
}

}  // namespace tost::simt::ptx
