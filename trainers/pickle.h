// Python's pickles as inert data: nothing in them is ever called.
//
// Read is what protocols 2 to 5 write for plain values. Where a pickle asks for the call of a
// constructor, the tree holds the constructor's name and its arguments; one that is not on the
// caller's list is refused by name. The format: CPython's Lib/pickletools.py.
#ifndef TOST_TRAINERS_PICKLE_H_
#define TOST_TRAINERS_PICKLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::train {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,        // integer: 0 or 1
    kInteger,     // integer
    kReal,        // real
    kText,        // text: UTF-8 if Python wrote it, which is not checked
    kBytes,       // text; also an integer of more than 64 bits, as its little-endian bytes
    kList,        // items
    kTuple,       // items
    kDictionary,  // items: key, value, key, value, …; text: the constructor, if any
    kGlobal,      // text: "module.name"
    kCall,        // items: a global, then its arguments
    kPersistent,  // items: the identifier of something outside the pickle
  };

  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  absl::string_view text;
  // A value may occur in several places, even inside itself: never walk a tree without a bound.
  std::vector<const PickleValue*> items;

  // The last value of a dictionary under a text key; null when absent or for any other kind.
  const PickleValue* Find(absl::string_view key) const;
};

// A constructor that a pickle may name.
struct PickleGlobal {
  enum class Makes {
    kCall,        // stays a kCall
    kDictionary,  // a dictionary, whose own attributes are dropped (collections.OrderedDict)
    kNamespace,   // a dictionary of its attributes (argparse.Namespace)
  };
  absl::string_view name;  // "collections.OrderedDict"
  Makes makes;
};

class Pickle {
 public:
  // Besides `globals`, protocol 2's detour for bytes (_codecs.encode of latin1) is known. Errors
  // begin with `source` and name the byte: a constructor that is not listed, an opcode that plain
  // values do not need, an end too early, more than kMaxValues values. Memory is in proportion to
  // `bytes`, at constant stack depth.
  static absl::StatusOr<Pickle> Parse(std::string bytes, std::span<const PickleGlobal> globals,
                                      absl::string_view source);
  static constexpr size_t kMaxValues = 4'000'000;

  Pickle(Pickle&&) noexcept;
  Pickle& operator=(Pickle&&) noexcept;
  ~Pickle();

  const PickleValue& root() const;

 private:
  friend class Unpickler;
  struct Tree;
  explicit Pickle(std::unique_ptr<Tree> tree);
  std::unique_ptr<Tree> tree_;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_PICKLE_H_
