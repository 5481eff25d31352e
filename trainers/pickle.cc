#include "trainers/pickle.h"

#include <bit>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "trainers/pickle_opcodes.h"

namespace tost::train {

using Kind = PickleValue::Kind;
using Makes = PickleGlobal::Makes;

struct Pickle::Tree {
  std::string bytes;
  std::deque<PickleValue> values;
  std::deque<std::string> strings;  // texts that do not lie in `bytes` as they are
  const PickleValue* root = nullptr;
};

namespace {

constexpr char kEncode[] = "_codecs.encode";
constexpr int kOldestProtocol = 2;
constexpr int kNewestProtocol = 5;
constexpr size_t kMaxCopiedBytes = size_t{1} << 28;
constexpr size_t kNameInMessage = 200;  // characters

// The bytes that Python's text.encode("latin1") gives; false when a character is beyond 255.
bool EncodeLatin1(absl::string_view utf8, std::string& out) {
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<uint8_t>(utf8[i]);
    if (lead < 0x80) {
      out.push_back(utf8[i]);
    } else if ((lead == 0xC2 || lead == 0xC3) && i + 1 < utf8.size()) {
      const auto next = static_cast<uint8_t>(utf8[++i]);
      out.push_back(static_cast<char>((lead & 3) << 6 | (next & 0x3F)));
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

// The machine that a pickle is a program for. The first failure stays in `status_`; functions that
// fail return something harmless, so that an instruction reads without a check after each step.
class Unpickler {
 public:
  Unpickler(Pickle::Tree& tree, std::span<const PickleGlobal> globals, absl::string_view source)
      : tree_(tree), globals_(globals), source_(source), rest_(tree.bytes) {}

  absl::Status Run() {
    while (status_.ok() && tree_.root == nullptr) {
      instruction_ = tree_.bytes.size() - rest_.size();
      if (rest_.empty()) {
        Fail("it ends without its stop instruction: cut or damaged");
      } else {
        Execute(static_cast<PickleOpcode>(Number(1)));
      }
      if (stack_.size() > Pickle::kMaxValues || tree_.values.size() > Pickle::kMaxValues ||
          marks_.size() > Pickle::kMaxValues) {
        Fail(absl::StrCat("more than ", Pickle::kMaxValues, " values"));
      }
    }
    return status_;
  }

 private:
  void Fail(absl::string_view what) {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(source_, ", byte ", instruction_, ": ", what));
  }

  // --- Reading the program ---

  absl::string_view Take(uint64_t count) {
    if (count > rest_.size()) {
      Fail("it ends in the middle of a value: cut or damaged");
      return {};
    }
    const absl::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  // Little-endian, unsigned.
  uint64_t Number(int bytes) {
    uint64_t number = 0;
    int shift = 0;
    for (char c : Take(static_cast<uint64_t>(bytes))) {
      number |= static_cast<uint64_t>(static_cast<uint8_t>(c)) << shift;
      shift += 8;
    }
    return number;
  }
  absl::string_view Line() {
    const size_t end = rest_.find('\n');
    const absl::string_view line = Take(end == rest_.npos ? rest_.size() + 1 : end + 1);
    return line.empty() ? line : line.substr(0, line.size() - 1);
  }

  // --- Values and the stack ---

  PickleValue* Make(Kind kind) {
    tree_.values.emplace_back().kind = kind;
    return &tree_.values.back();
  }
  void Push(PickleValue* value) { stack_.push_back(value); }
  PickleValue* PushNew(Kind kind) {
    Push(Make(kind));
    return stack_.back();
  }
  void PushInteger(int64_t integer) { PushNew(Kind::kInteger)->integer = integer; }
  void PushText(Kind kind, absl::string_view text) { PushNew(kind)->text = text; }

  // The top of the stack above the innermost mark.
  bool HasTop(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor >= count) return true;
    Fail("an instruction without its operand: damaged");
    return false;
  }
  PickleValue* Top() { return HasTop(1) ? stack_.back() : Make(Kind::kNone); }
  PickleValue* Pop() {
    PickleValue* top = Top();
    if (status_.ok()) stack_.pop_back();
    return top;
  }
  std::vector<const PickleValue*> PopMany(size_t count) {
    if (!HasTop(count)) return {};
    std::vector<const PickleValue*> values(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                           stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }
  std::vector<const PickleValue*> PopToMark() {
    if (marks_.empty()) {
      Fail("an instruction without its mark: damaged");
      return {};
    }
    std::vector<const PickleValue*> values = PopMany(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }
  void PushTuple(std::vector<const PickleValue*> items) {
    PushNew(Kind::kTuple)->items = std::move(items);
  }

  void Put(uint64_t key) { memo_[key] = Top(); }
  void Get(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return Fail(absl::StrCat("it has no earlier value ", key));
    Push(found->second);
  }

  // Appends to the list, or the dictionary, on top.
  void Extend(Kind kind, const std::vector<const PickleValue*>& items) {
    PickleValue* container = Top();
    if (container->kind != kind) return Fail("items for what is no container: damaged");
    if (kind == Kind::kDictionary && items.size() % 2 != 0) return Fail("a key without its value");
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  // --- Constructors ---

  // An instruction of a few bytes may copy a long value again and again; all copies together are
  // bounded.
  bool MayCopy(size_t bytes) {
    copied_ += bytes;
    if (copied_ <= kMaxCopiedBytes) return true;
    Fail("it copies too much");
    return false;
  }
  void AppendItems(const std::vector<const PickleValue*>& items, PickleValue& value) {
    if (!MayCopy(items.size() * sizeof(items[0]))) return;
    const std::vector<const PickleValue*> copy = items;  // they may be the value's own
    value.items.insert(value.items.end(), copy.begin(), copy.end());
  }

  const PickleGlobal* Known(absl::string_view name) const {
    for (const PickleGlobal& global : globals_) {
      if (global.name == name) return &global;
    }
    return nullptr;
  }
  void PushGlobal(absl::string_view module, absl::string_view name) {
    if (!status_.ok()) return;
    const std::string& full = tree_.strings.emplace_back(absl::StrCat(module, ".", name));
    if (full != kEncode && Known(full) == nullptr) {
      return Fail(absl::StrCat("it asks for ",
                               absl::Utf8SafeCEscape(full.substr(0, kNameInMessage)),
                               ", and only tensors and plain values are read"));
    }
    PushText(Kind::kGlobal, full);
  }

  // The items of OrderedDict([(key, value), …]).
  void AddPairs(const std::vector<const PickleValue*>& arguments, PickleValue& dictionary) {
    if (arguments.empty()) return;
    if (arguments.size() != 1 || arguments[0]->kind != Kind::kList) {
      return Fail("a dictionary of unknown arguments");
    }
    for (const PickleValue* pair : arguments[0]->items) {
      const bool two = pair->kind == Kind::kTuple || pair->kind == Kind::kList;
      if (!two || pair->items.size() != 2) return Fail("a dictionary of what are no pairs");
      AppendItems(pair->items, dictionary);
      if (!status_.ok()) return;
    }
  }
  void PushEncoded(const std::vector<const PickleValue*>& arguments) {
    std::string& bytes = tree_.strings.emplace_back();
    const bool latin1 = arguments.size() == 2 && MayCopy(arguments[0]->text.size()) &&
                        arguments[0]->kind == Kind::kText && arguments[1]->kind == Kind::kText &&
                        arguments[1]->text == "latin1" && EncodeLatin1(arguments[0]->text, bytes);
    if (!latin1) return Fail("bytes that are not written as latin1");
    PushText(Kind::kBytes, bytes);
  }
  void Call() {
    const PickleValue* arguments = Pop();
    const PickleValue* constructor = Pop();
    if (!status_.ok()) return;
    if (constructor->kind != Kind::kGlobal || arguments->kind != Kind::kTuple) {
      return Fail("a call of what is no constructor");
    }
    if (constructor->text == kEncode) return PushEncoded(arguments->items);
    if (Known(constructor->text)->makes == Makes::kCall) {
      PickleValue* call = PushNew(Kind::kCall);
      call->items.push_back(constructor);
      return AppendItems(arguments->items, *call);
    }
    PickleValue* dictionary = PushNew(Kind::kDictionary);
    dictionary->text = constructor->text;
    AddPairs(arguments->items, *dictionary);
  }
  void Build() {
    const PickleValue* attributes = Pop();
    PickleValue* object = Top();
    if (!status_.ok()) return;
    const PickleGlobal* constructor =
        object->kind == Kind::kDictionary ? Known(object->text) : nullptr;
    if (constructor == nullptr || attributes->kind != Kind::kDictionary) {
      return Fail("attributes for what has none");
    }
    if (constructor->makes == Makes::kNamespace) AppendItems(attributes->items, *object);
  }

  // --- Instructions ---

  void Execute(PickleOpcode opcode) {
    using enum PickleOpcode;
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        return;
      case kEmptyList:
        PushNew(Kind::kList);
        return;
      case kEmptyDictionary:
        PushNew(Kind::kDictionary);
        return;
      case kEmptyTuple:
        return PushTuple({});
      case kTuple1:
        return PushTuple(PopMany(1));
      case kTuple2:
        return PushTuple(PopMany(2));
      case kTuple3:
        return PushTuple(PopMany(3));
      case kTuple:
        return PushTuple(PopToMark());
      case kAppend:
        return Extend(Kind::kList, PopMany(1));
      case kAppends:
        return Extend(Kind::kList, PopToMark());
      case kSetItem:
        return Extend(Kind::kDictionary, PopMany(2));
      case kSetItems:
        return Extend(Kind::kDictionary, PopToMark());
      default:
        return ExecuteValue(opcode);
    }
  }

  void ExecuteValue(PickleOpcode opcode) {
    using enum PickleOpcode;
    switch (opcode) {
      case kNone:
        PushNew(Kind::kNone);
        return;
      case kTrue:
      case kFalse:
        PushNew(Kind::kBool)->integer = opcode == kTrue ? 1 : 0;
        return;
      case kBinInt:
        return PushInteger(static_cast<int32_t>(static_cast<uint32_t>(Number(4))));
      case kBinInt1:
        return PushInteger(static_cast<int64_t>(Number(1)));
      case kBinInt2:
        return PushInteger(static_cast<int64_t>(Number(2)));
      case kLong1:
        return PushLong(Take(Number(1)));
      case kBinFloat: {
        uint64_t bits = 0;
        for (char c : Take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
        PushNew(Kind::kReal)->real = std::bit_cast<double>(bits);
        return;
      }
      case kShortBinUnicode:
        return PushText(Kind::kText, Take(Number(1)));
      case kBinUnicode:
        return PushText(Kind::kText, Take(Number(4)));
      case kBinUnicode8:
        return PushText(Kind::kText, Take(Number(8)));
      case kShortBinBytes:
        return PushText(Kind::kBytes, Take(Number(1)));
      case kBinBytes:
        return PushText(Kind::kBytes, Take(Number(4)));
      case kBinBytes8:
        return PushText(Kind::kBytes, Take(Number(8)));
      default:
        return ExecuteObject(opcode);
    }
  }

  void ExecuteObject(PickleOpcode opcode) {
    using enum PickleOpcode;
    switch (opcode) {
      case kProtocol: {
        const auto protocol = static_cast<int>(Number(1));
        if (protocol < kOldestProtocol || protocol > kNewestProtocol) {
          Fail(absl::StrCat("pickle protocol ", protocol, "; protocols ", kOldestProtocol, " to ",
                            kNewestProtocol, " are read"));
        }
        return;
      }
      case kFrame:
        Number(8);
        return;
      case kBinPut:
        return Put(Number(1));
      case kLongBinPut:
        return Put(Number(4));
      case kMemoize:
        return Put(memo_.size());
      case kBinGet:
        return Get(Number(1));
      case kLongBinGet:
        return Get(Number(4));
      case kGlobal: {
        const absl::string_view module = Line();
        return PushGlobal(module, Line());
      }
      case kStackGlobal: {
        const PickleValue* name = Pop();
        return PushGlobal(Pop()->text, name->text);
      }
      case kReduce:
      case kNewObject:
        return Call();
      case kBuild:
        return Build();
      case kBinPersistentId: {
        const PickleValue* identifier = Pop();
        PushNew(Kind::kPersistent)->items.push_back(identifier);
        return;
      }
      case kStop:
        tree_.root = Pop();
        return;
      default:
        return Fail(absl::StrFormat("instruction 0x%02x, which no plain value needs",
                                    static_cast<int>(opcode)));
    }
  }

  // Two's complement, little-endian, of any length.
  void PushLong(absl::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) return PushText(Kind::kBytes, bytes);
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i > 0; --i) {
      number = number << 8 | static_cast<uint8_t>(bytes[i - 1]);
    }
    PushInteger(static_cast<int64_t>(number));
  }

  Pickle::Tree& tree_;
  std::span<const PickleGlobal> globals_;
  absl::string_view source_;
  absl::string_view rest_;  // of the program
  size_t copied_ = 0;       // bytes
  size_t instruction_ = 0;  // where the one being executed begins
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  absl::flat_hash_map<uint64_t, PickleValue*> memo_;
  absl::Status status_;
};

const PickleValue* PickleValue::Find(absl::string_view key) const {
  if (kind != Kind::kDictionary) return nullptr;
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->kind == Kind::kText && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

Pickle::Pickle(std::unique_ptr<Tree> tree) : tree_(std::move(tree)) {}
Pickle::Pickle(Pickle&&) noexcept = default;
Pickle& Pickle::operator=(Pickle&&) noexcept = default;
Pickle::~Pickle() = default;

const PickleValue& Pickle::root() const { return *tree_->root; }

absl::StatusOr<Pickle> Pickle::Parse(std::string bytes, std::span<const PickleGlobal> globals,
                                     absl::string_view source) {
  auto tree = std::make_unique<Tree>();
  tree->bytes = std::move(bytes);
  TOST_RETURN_IF_ERROR(Unpickler(*tree, globals, source).Run());
  return Pickle(std::move(tree));
}

}  // namespace tost::train
