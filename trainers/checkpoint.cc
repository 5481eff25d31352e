#include "trainers/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "trainers/tensor_names.h"

namespace tost::train {
namespace {

constexpr char kFormat[] = "tost checkpoint";
constexpr int kVersion = 1;
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "transformer.wte.weight";
constexpr char kExtra[] = "x.";  // before the keys of CheckpointState::extra

constexpr char kFirst[] = "m.";
constexpr char kSecond[] = "v.";
constexpr char kAverage[] = "ema.";

bool IsMoment(absl::string_view name) {
  return absl::StartsWith(name, kFirst) || absl::StartsWith(name, kSecond);
}

bool IsAverage(absl::string_view name) { return absl::StartsWith(name, kAverage); }

bool IsWeight(absl::string_view name) { return !IsMoment(name) && !IsAverage(name); }

std::map<std::string, std::string> MetadataOf(const ParameterSet& params,
                                              const CheckpointState& state) {
  std::map<std::string, std::string> metadata = {{"format", kFormat},
                                                 {"version", absl::StrCat(kVersion)},
                                                 {"update", absl::StrCat(state.update)},
                                                 {"seed", absl::StrCat(state.seed)},
                                                 {"tokens", absl::StrCat(state.tokens)},
                                                 {"config", state.config},
                                                 {"vocabulary", state.vocabulary}};
  for (const auto& [key, value] : state.extra) metadata[kExtra + key] = value;
  bool head = false;
  bool embedding = false;
  for (const Parameter& parameter : params.parameters()) {
    head = head || parameter.name() == kHead;
    embedding = embedding || parameter.name() == kEmbedding;
  }
  if (embedding && !head) metadata["tied"] = absl::StrCat(kHead, "=", kEmbedding);
  return metadata;
}

// Visits every parameter's slice of one flat tensor per bucket, in the order of the file.
absl::Status ForEachSlice(
    const ParameterSet& params, absl::FunctionRef<const Tensor&(size_t bucket)> flat,
    absl::FunctionRef<absl::Status(const Parameter&, const Tensor& slice)> visit) {
  for (size_t b = 0; b < params.buckets().size(); ++b) {
    const Bucket& bucket = params.buckets()[b];
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const Parameter& parameter = *bucket.parameters[i];
      TOST_RETURN_IF_ERROR(visit(parameter, flat(b).View(bucket.offsets[i], parameter.shape())));
    }
  }
  return absl::OkStatus();
}

// Tensors of one kind in a checkpoint: prefix of the names, a flat tensor per bucket, and one per
// state of the model or none at all.
struct Kind {
  const char* prefix;
  std::vector<Tensor> buckets;
  std::vector<Tensor> states;
};

Kind WeightsOf(const ParameterSet& params) {
  Kind kind{.prefix = ""};
  for (const Bucket& bucket : params.buckets()) kind.buckets.push_back(bucket.values);
  for (const State& state : params.states()) kind.states.push_back(state.value());
  return kind;
}

std::vector<Kind> KindsOf(const Moments& moments) {
  std::vector<Kind> kinds(1, {.prefix = kFirst, .buckets = moments.first});
  if (!moments.second.empty()) kinds.push_back({.prefix = kSecond, .buckets = moments.second});
  return kinds;
}

Kind KindOf(const WeightValues& average) {
  return {.prefix = kAverage, .buckets = average.buckets, .states = average.states};
}

using VisitTensor = absl::FunctionRef<absl::Status(const std::string& name, const Tensor& values)>;

absl::Status ForEachTensor(const ParameterSet& params, const Kind& kind, VisitTensor visit) {
  TOST_CHECK(kind.buckets.size() == params.buckets().size())
      << kind.buckets.size() << " tensors for " << params.buckets().size() << " buckets";
  for (size_t i = 0; i < kind.states.size(); ++i) {
    TOST_RETURN_IF_ERROR(
        visit(absl::StrCat(kind.prefix, params.states()[i].name()), kind.states[i]));
  }
  return ForEachSlice(
      params, [&](size_t b) -> const Tensor& { return kind.buckets[b]; },
      [&](const Parameter& parameter, const Tensor& slice) {
        return visit(absl::StrCat(kind.prefix, parameter.name()), slice);
      });
}

absl::Status ForEachTensor(const ParameterSet& params, const std::vector<Kind>& kinds,
                           VisitTensor visit) {
  for (const Kind& kind : kinds) TOST_RETURN_IF_ERROR(ForEachTensor(params, kind, visit));
  return absl::OkStatus();
}

bool SameShape(const TensorEntry& entry, const Shape& shape) {
  return std::ranges::equal(entry.shape, shape.extents());
}

// The wrappers' prefix of a file's weights.
std::string PrefixOf(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : file.tensors()) {
    if (IsWeight(entry.name)) names.push_back(entry.name);
  }
  return WrapperPrefix(names);
}

absl::Status ToStatus(const TensorFaults& faults, const std::string& path) {
  return faults.ToStatus(absl::StrCat(path, " does not fit this model"),
                         "were the model's settings the same?");
}

// Sets a slice of a flat float32 tensor on its device.
void CopyTo(const Tensor& slice, const std::vector<float>& values) {
  Tensor target = slice;
  RuntimeOf(target.device())
      .CopyIn(target.mutable_raw(), values.data(), values.size() * sizeof(float));
}

absl::Status ReadInto(const SafetensorsFile& file, const TensorEntry& entry, const Tensor& slice) {
  TOST_ASSIGN_OR_RETURN(const std::vector<float> values, file.ReadFloats(entry));
  CopyTo(slice, values);
  return absl::OkStatus();
}

// Reads all tensors of these kinds, after checking that they are there.
absl::Status ReadKinds(const SafetensorsFile& file, const ParameterSet& params,
                       const std::vector<Kind>& kinds) {
  TensorFaults faults;
  TOST_CHECK_OK(ForEachTensor(params, kinds, [&](const std::string& name, const Tensor& values) {
    const TensorEntry* entry = file.Find(name);
    if (entry == nullptr) {
      faults.missing.push_back(name);
    } else if (!SameShape(*entry, values.shape())) {
      faults.AddShape(name, *entry, values.shape());
    }
    return absl::OkStatus();
  }));
  TOST_RETURN_IF_ERROR(ToStatus(faults, file.path()));
  return ForEachTensor(params, kinds, [&](const std::string& name, const Tensor& values) {
    return ReadInto(file, *file.Find(name), values);
  });
}

template <class Number>
absl::Status ReadNumber(const SafetensorsFile& file, const char* key, Number& out) {
  const auto found = file.metadata().find(key);
  if (found != file.metadata().end() && absl::SimpleAtoi(found->second, &out)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(file.path(), ": its metadata gives no number for \"", key, "\""));
}

}  // namespace

absl::Status SaveCheckpoint(const std::string& path, const ParameterSet& params,
                            const Moments* moments, const CheckpointState& state,
                            const WeightValues* average) {
  std::vector<Kind> kinds(1, WeightsOf(params));
  if (moments != nullptr) {
    for (Kind& kind : KindsOf(*moments)) kinds.push_back(std::move(kind));
  }
  if (average != nullptr) kinds.push_back(KindOf(*average));
  std::vector<TensorEntry> entries;
  TOST_CHECK_OK(ForEachTensor(params, kinds, [&](const std::string& name, const Tensor& values) {
    entries.push_back(EntryFor(name, values));
    return absl::OkStatus();
  }));
  TOST_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(path, std::move(entries), MetadataOf(params, state)));
  TOST_RETURN_IF_ERROR(ForEachTensor(params, kinds, [&](const std::string&, const Tensor& values) {
    return writer.Append(values);
  }));
  return writer.Commit();
}

bool IsCheckpoint(const std::map<std::string, std::string>& metadata) {
  const auto format = metadata.find("format");
  return format != metadata.end() && format->second == kFormat;
}

Checkpoint::Checkpoint(SafetensorsFile file, std::string prefix)
    : file_(std::move(file)), prefix_(std::move(prefix)) {
  for (const TensorEntry& entry : file_.tensors()) {
    has_moments_ = has_moments_ || IsMoment(entry.name);
    has_average_ = has_average_ || IsAverage(entry.name);
  }
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  std::string prefix = PrefixOf(file);
  return Checkpoint(std::move(file), std::move(prefix));
}

const TensorEntry* Checkpoint::Find(absl::string_view kind, absl::string_view name) const {
  return file_.Find(absl::StrCat(kind, kind.empty() ? prefix_ : "", name));
}

absl::StatusOr<CheckpointState> Checkpoint::State() const {
  const std::map<std::string, std::string>& metadata = file_.metadata();
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (!IsCheckpoint(metadata)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(),
                     " holds weights only and no state of a run; import it, or name a checkpoint "
                     "written by training"));
  }
  int version = 0;
  TOST_RETURN_IF_ERROR(ReadNumber(file_, "version", version));
  if (version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), " is a checkpoint of version ",
                                                   version, "; this program reads version ",
                                                   kVersion));
  }
  CheckpointState state{.config = text("config"), .vocabulary = text("vocabulary")};
  TOST_RETURN_IF_ERROR(ReadNumber(file_, "update", state.update));
  TOST_RETURN_IF_ERROR(ReadNumber(file_, "seed", state.seed));
  TOST_RETURN_IF_ERROR(ReadNumber(file_, "tokens", state.tokens));
  for (const auto& [key, value] : metadata) {
    absl::string_view rest = key;
    if (absl::ConsumePrefix(&rest, kExtra)) state.extra[std::string(rest)] = value;
  }
  return state;
}

absl::Status Checkpoint::CheckTie() const {
  const TensorEntry* head = Find("", kHead);
  const TensorEntry* embedding = Find("", kEmbedding);
  const absl::Status differs = absl::InvalidArgumentError(
      absl::StrCat(file_.path(), ": ", kHead, " differs from ", kEmbedding,
                   ", to which this model ties it; use a model whose head is its own"));
  if (embedding == nullptr) return absl::OkStatus();  // listed as missing
  if (head->shape != embedding->shape) return differs;
  TOST_ASSIGN_OR_RETURN(const std::vector<float> a, file_.ReadFloats(*head));
  TOST_ASSIGN_OR_RETURN(const std::vector<float> b, file_.ReadFloats(*embedding));
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0 ? absl::OkStatus()
                                                                        : differs;
}

absl::Status Checkpoint::LoadWeights(ParameterSet& params, const LoadOptions& options) const {
  TensorFaults faults;
  std::set<std::string> expected;
  std::map<std::string, std::vector<float>> adapted;
  const auto keeps = [&](const std::string& name) { return options.keeps && options.keeps(name); };
  const Kind weights = WeightsOf(params);
  TOST_RETURN_IF_ERROR(
      ForEachTensor(params, weights, [&](const std::string& name, const Tensor& values) {
        expected.insert(prefix_ + name);
        if (keeps(name)) return absl::OkStatus();
        const TensorEntry* entry = Find("", name);
        if (entry == nullptr) {
          faults.missing.push_back(name);
        } else if (!SameShape(*entry, values.shape())) {
          std::optional<std::vector<float>> fitting;
          if (options.adapt) {
            TOST_ASSIGN_OR_RETURN(const std::vector<float> read, file_.ReadFloats(*entry));
            fitting = options.adapt(name, *entry, read, values.shape());
          }
          if (fitting.has_value()) {
            adapted[name] = *std::move(fitting);
          } else {
            faults.AddShape(name, *entry, values.shape());
          }
        }
        return absl::OkStatus();
      }));
  const bool ties = params.Find(kEmbedding) != nullptr && params.Find(kHead) == nullptr;
  const std::string head = prefix_ + kHead;
  for (const TensorEntry& entry : file_.tensors()) {
    const bool known = !IsWeight(entry.name) || expected.contains(entry.name);
    if (!known && !(ties && entry.name == head)) faults.unexpected.push_back(entry.name);
  }
  TOST_RETURN_IF_ERROR(ToStatus(faults, file_.path()));
  if (ties && file_.Find(head) != nullptr) TOST_RETURN_IF_ERROR(CheckTie());
  if (!prefix_.empty()) {
    LogInfo(
        absl::StrCat(file_.path(), ": took the prefix \"", prefix_, "\" off the tensors' names"));
  }
  TOST_RETURN_IF_ERROR(
      ForEachTensor(params, weights, [&](const std::string& name, const Tensor& values) {
        if (keeps(name)) return absl::OkStatus();
        const auto fitting = adapted.find(name);
        if (fitting == adapted.end()) return ReadInto(file_, *Find("", name), values);
        CopyTo(values, fitting->second);
        return absl::OkStatus();
      }));
  params.RefreshComputeCopies();
  return absl::OkStatus();
}

absl::Status Checkpoint::LoadMoments(const ParameterSet& params, Moments& moments) const {
  if (!has_moments_) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), " holds no optimizer moments; a run cannot be resumed from it"));
  }
  return ReadKinds(file_, params, KindsOf(moments));
}

absl::Status Checkpoint::LoadAverage(const ParameterSet& params, WeightValues& average) const {
  return ReadKinds(file_, params, {KindOf(average)});
}

}  // namespace tost::train
