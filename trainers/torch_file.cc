#include "trainers/torch_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "trainers/element_values.h"
#include "trainers/safetensors_header.h"
#include "trainers/torch_archive.h"

namespace tost::train {
namespace {

using Kind = PickleValue::Kind;
using Makes = PickleGlobal::Makes;

constexpr char kPickle[] = "data.pkl";
constexpr char kByteOrder[] = "byteorder";
constexpr char kStorages[] = "data/";
constexpr char kRebuildTensor[] = "torch._utils._rebuild_tensor_v2";
constexpr char kRebuildParameter[] = "torch._utils._rebuild_parameter";
constexpr char kParameter[] = "torch.nn.parameter.Parameter";
constexpr int64_t kMaxPickleBytes = int64_t{1} << 26;
constexpr size_t kMaxAxes = 64;  // PyTorch's own limit

constexpr std::array kGlobals = std::to_array<PickleGlobal>({
    {"collections.OrderedDict", Makes::kDictionary},
    {"argparse.Namespace", Makes::kNamespace},
    {kRebuildTensor, Makes::kCall},
    {kRebuildParameter, Makes::kCall},
    {kParameter, Makes::kCall},
    {"torch.FloatStorage", Makes::kCall},
    {"torch.HalfStorage", Makes::kCall},
    {"torch.BFloat16Storage", Makes::kCall},
    {"torch.DoubleStorage", Makes::kCall},
    {"torch.LongStorage", Makes::kCall},
    {"torch.IntStorage", Makes::kCall},
    {"torch.ShortStorage", Makes::kCall},
    {"torch.CharStorage", Makes::kCall},
    {"torch.ByteStorage", Makes::kCall},
    {"torch.BoolStorage", Makes::kCall},
    {"torch.storage.UntypedStorage", Makes::kCall},
    {"torch.storage.TypedStorage", Makes::kCall},
});

// The element type of a storage class, or "" for those without one.
absl::string_view ElementsOf(absl::string_view storage_class) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {"torch.FloatStorage", "F32"},  {"torch.HalfStorage", "F16"},
      {"torch.DoubleStorage", "F64"}, {"torch.BFloat16Storage", "BF16"},
      {"torch.LongStorage", "I64"},   {"torch.IntStorage", "I32"},
      {"torch.ShortStorage", "I16"},  {"torch.CharStorage", "I8"},
      {"torch.ByteStorage", "U8"},    {"torch.BoolStorage", "BOOL"}};
  for (const auto& [name, type] : kTypes) {
    if (storage_class == name) return type;
  }
  return "";
}

absl::Status NotAStateFile(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ", what, "; load it in PyTorch and save its state_dict with torch.save"));
}

// An error for what is no zip archive, by its first bytes.
absl::Status CheckBeginning(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return data::FileError("cannot read", path, errno);
  std::string begin(4, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (absl::StartsWith(begin, "PK")) return absl::OkStatus();
  if (file.gcount() > 0 && begin[0] == '\x80') {
    return NotAStateFile(path, "it is in the format of PyTorch before 1.6, which is not read");
  }
  return absl::InvalidArgumentError(absl::StrCat(path, " is no file of PyTorch's torch.save"));
}

// What the records of an archive say besides its tensors' elements.
struct Contents {
  std::optional<std::string> pickle;
  std::string byte_order = "little";
  std::map<std::string, int64_t> storages;
  bool script = false;
};

absl::StatusOr<std::string> ReadText(TorchArchive& archive) {
  TOST_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, archive.Read());
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<Contents> ReadContents(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(TorchArchive archive, TorchArchive::Open(path));
  Contents contents;
  std::set<std::string> seen;
  while (true) {
    TOST_ASSIGN_OR_RETURN(const bool more, archive.Next());
    if (!more) return contents;
    absl::string_view name = archive.record();
    if (!seen.insert(archive.record()).second) {
      return absl::DataLossError(absl::StrCat(path, ": record ", name, " occurs twice"));
    }
    if (name == kPickle && archive.bytes() > kMaxPickleBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a ", kPickle, " of ", archive.bytes(),
                                                     " bytes; at most ", kMaxPickleBytes,
                                                     " are read"));
    }
    if (name == kPickle) {
      TOST_ASSIGN_OR_RETURN(contents.pickle, ReadText(archive));
    } else if (name == kByteOrder && archive.bytes() < kMaxPickleBytes) {
      TOST_ASSIGN_OR_RETURN(contents.byte_order, ReadText(archive));
    } else if (name == "constants.pkl") {
      contents.script = true;
    } else if (absl::ConsumePrefix(&name, kStorages)) {
      contents.storages[std::string(name)] = archive.bytes();
    }
  }
}

bool IsCallOf(const PickleValue& value, absl::string_view name) {
  return value.kind == Kind::kCall && value.items[0]->text == name;
}

// A tuple of whole numbers that are not negative.
bool ReadExtents(const PickleValue& value, std::vector<int64_t>& extents) {
  if (value.kind != Kind::kTuple || value.items.size() > kMaxAxes) return false;
  for (const PickleValue* item : value.items) {
    if (item->kind != Kind::kInteger || item->integer < 0) return false;
    extents.push_back(item->integer);
  }
  return true;
}

// Whether all elements of a view lie in a storage of `count` elements and are not more than these.
bool FitsStorage(const TorchTensor& tensor, int64_t count) {
  int64_t elements = 1;
  __int128 last = tensor.offset;  // index of the last element in the storage
  if (std::ranges::count(tensor.shape, 0) > 0) return tensor.offset <= count;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (__builtin_mul_overflow(elements, tensor.shape[i], &elements)) return false;
    last += static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
    if (last >= count) return false;
  }
  return last < count && elements <= count;
}

bool IsContiguous(const TorchTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i > 0; --i) {
    if (tensor.shape[i - 1] != 1 && tensor.strides[i - 1] != expected) return false;
    expected *= tensor.shape[i - 1];
  }
  return true;
}

// Copies the elements of a view in row-major order. Its innermost axis is walked in a loop, the
// outer ones by counting.
void Gather(const TorchTensor& tensor, const std::byte* storage, size_t element, std::byte* out) {
  const size_t rank = tensor.shape.size();
  std::vector<int64_t> index(rank, 0);
  int64_t position = tensor.offset;
  const int64_t inner = tensor.shape[rank - 1];
  const int64_t step = tensor.strides[rank - 1];
  for (int64_t rows = tensor.element_count() / inner; rows > 0; --rows) {
    for (int64_t i = 0; i < inner; ++i, out += element) {
      std::memcpy(out, storage + static_cast<size_t>(position + i * step) * element, element);
    }
    for (size_t axis = rank - 1; axis > 0; --axis) {
      if (tensor.shape[axis - 1] == 1) continue;  // its stride may be any number
      position += tensor.strides[axis - 1];
      if (++index[axis - 1] < tensor.shape[axis - 1]) break;
      position -= tensor.shape[axis - 1] * tensor.strides[axis - 1];
      index[axis - 1] = 0;
    }
  }
}

}  // namespace

int64_t TorchTensor::element_count() const {
  if (std::ranges::count(shape, 0) > 0) return 0;  // whatever the product of the others
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

TorchFile::TorchFile(std::string path, Pickle pickle, std::map<std::string, int64_t> storages)
    : path_(std::move(path)), pickle_(std::move(pickle)), storages_(std::move(storages)) {}

absl::StatusOr<TorchFile> TorchFile::Open(const std::string& path) {
  TOST_RETURN_IF_ERROR(CheckBeginning(path));
  TOST_ASSIGN_OR_RETURN(Contents contents, ReadContents(path));
  if (contents.script) return NotAStateFile(path, "it is a TorchScript archive (torch.jit.save)");
  if (!contents.pickle.has_value()) {
    return NotAStateFile(path, absl::StrCat("a zip archive without ", kPickle));
  }
  if (contents.byte_order != "little") {
    return NotAStateFile(
        path, absl::StrCat("its numbers are '", absl::Utf8SafeCEscape(contents.byte_order),
                           "'-endian, and little-endian ones are read"));
  }
  TOST_ASSIGN_OR_RETURN(Pickle pickle, Pickle::Parse(*std::move(contents.pickle), kGlobals,
                                                     absl::StrCat(path, ": ", kPickle)));
  return TorchFile(path, std::move(pickle), std::move(contents.storages));
}

absl::StatusOr<TorchTensor> TorchFile::TensorOf(const PickleValue& value,
                                                absl::string_view name) const {
  const auto fault = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor ", absl::Utf8SafeCEscape(name), ": ", what));
  };
  const PickleValue* call = &value;
  if ((IsCallOf(value, kRebuildParameter) || IsCallOf(value, kParameter)) &&
      value.items.size() >= 2) {
    call = value.items[1];
  }
  if (!IsCallOf(*call, kRebuildTensor)) return fault("it is no tensor");
  // The constructor, storage, offset, shape, strides, requires_grad, hooks; newer ones add flags of
  // conjugation and the like.
  if (call->items.size() != 7) return fault("it is a tensor of a special kind, which is not read");
  TorchTensor tensor;
  const PickleValue& storage = *call->items[1];
  const PickleValue& offset = *call->items[2];
  if (storage.kind != Kind::kPersistent || storage.items[0]->kind != Kind::kTuple ||
      storage.items[0]->items.size() != 5 || offset.kind != Kind::kInteger || offset.integer < 0 ||
      !ReadExtents(*call->items[3], tensor.shape) ||
      !ReadExtents(*call->items[4], tensor.strides) ||
      tensor.shape.size() != tensor.strides.size()) {
    return fault("its description is damaged");
  }
  const std::vector<const PickleValue*>& identifier = storage.items[0]->items;
  tensor.offset = offset.integer;
  tensor.dtype = std::string(ElementsOf(identifier[1]->text));
  tensor.storage = std::string(identifier[2]->text);
  if (tensor.dtype.empty()) return fault("the type of its elements is not read");
  const auto found = storages_.find(tensor.storage);
  if (found == storages_.end()) {
    return fault(absl::StrCat("record ", kStorages, absl::Utf8SafeCEscape(tensor.storage),
                              " is not in the file"));
  }
  if (!FitsStorage(tensor, found->second / ElementBytes(tensor.dtype))) {
    return fault(absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "] of ", tensor.dtype,
                              " with strides [", absl::StrJoin(tensor.strides, ", "), "] from ",
                              tensor.offset, " on does not fit its storage of ", found->second,
                              " bytes"));
  }
  return tensor;
}

absl::StatusOr<std::vector<NamedTorchTensor>> TorchFile::StateDict() const {
  const PickleValue* state = &root();
  for (const char* key : {"model", "state_dict", "model_state_dict", "model_ema"}) {
    const PickleValue* inner = root().Find(key);
    if (inner == nullptr || inner->kind != Kind::kDictionary) continue;
    state = inner;
    break;
  }
  std::vector<NamedTorchTensor> tensors;
  std::set<absl::string_view> names;
  for (size_t i = 0; i + 1 < state->items.size() && state->kind == Kind::kDictionary; i += 2) {
    const PickleValue& key = *state->items[i];
    const PickleValue& value = *state->items[i + 1];
    if (key.kind != Kind::kText || value.kind != Kind::kCall) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": its dictionary holds '", absl::Utf8SafeCEscape(key.text),
                       "', which is no tensor; a state_dict is expected, alone or under \"model\", "
                       "\"state_dict\" or \"model_state_dict\""));
    }
    if (!names.insert(key.text).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": tensor ", absl::Utf8SafeCEscape(key.text), " occurs twice"));
    }
    TOST_ASSIGN_OR_RETURN(TorchTensor tensor, TensorOf(value, key.text));
    tensors.push_back({std::string(key.text), std::move(tensor)});
  }
  if (!tensors.empty()) return tensors;
  return absl::InvalidArgumentError(absl::StrCat(path_, " holds no dictionary of tensors"));
}

absl::Status TorchFile::ReadTensors(std::span<const TorchTensor> tensors, Visit visit) const {
  std::map<std::string, std::vector<size_t>> wanted;  // by record
  for (size_t i = 0; i < tensors.size(); ++i) {
    wanted[absl::StrCat(kStorages, tensors[i].storage)].push_back(i);
  }
  TOST_ASSIGN_OR_RETURN(TorchArchive archive, TorchArchive::Open(path_));
  std::vector<std::byte> gathered;
  while (!wanted.empty()) {
    TOST_ASSIGN_OR_RETURN(const bool more, archive.Next());
    if (!more) return absl::DataLossError(absl::StrCat(path_, " has changed since it was opened"));
    const auto found = wanted.find(archive.record());
    if (found == wanted.end()) continue;
    TOST_ASSIGN_OR_RETURN(const std::vector<std::byte> storage, archive.Read());
    for (const size_t i : found->second) {
      const TorchTensor& tensor = tensors[i];
      const auto element = static_cast<size_t>(ElementBytes(tensor.dtype));
      if (!FitsStorage(tensor, static_cast<int64_t>(storage.size() / element))) {
        return absl::DataLossError(absl::StrCat(path_, " has changed since it was opened"));
      }
      const size_t bytes = static_cast<size_t>(tensor.element_count()) * element;
      if (bytes == 0 || IsContiguous(tensor)) {
        const size_t first = bytes == 0 ? 0 : static_cast<size_t>(tensor.offset) * element;
        TOST_RETURN_IF_ERROR(visit(i, std::span(storage).subspan(first, bytes)));
        continue;
      }
      gathered.resize(bytes);
      Gather(tensor, storage.data(), element, gathered.data());
      TOST_RETURN_IF_ERROR(visit(i, gathered));
    }
    wanted.erase(found);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> TorchFile::ReadFloats(const TorchTensor& tensor) const {
  std::optional<std::vector<float>> values;
  TOST_RETURN_IF_ERROR(
      ReadTensors(std::span(&tensor, 1), [&](size_t, std::span<const std::byte> elements) {
        values = FloatsOf(tensor.dtype, elements);
        return absl::OkStatus();
      }));
  if (values.has_value()) return *std::move(values);
  return absl::InvalidArgumentError(absl::StrCat(path_, ": a tensor of type ", tensor.dtype,
                                                 ", where real numbers are expected"));
}

absl::StatusOr<std::vector<int64_t>> TorchFile::ReadIntegers(const TorchTensor& tensor) const {
  std::optional<std::vector<int64_t>> values;
  TOST_RETURN_IF_ERROR(
      ReadTensors(std::span(&tensor, 1), [&](size_t, std::span<const std::byte> elements) {
        values = IntegersOf(tensor.dtype, elements);
        return absl::OkStatus();
      }));
  if (values.has_value()) return *std::move(values);
  return absl::InvalidArgumentError(absl::StrCat(path_, ": a tensor of type ", tensor.dtype,
                                                 ", where whole numbers are expected"));
}

}  // namespace tost::train
