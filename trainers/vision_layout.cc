#include "trainers/vision_layout.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/parameter.h"
#include "trainers/tensor_names.h"
#include "trainers/vision_run.h"

namespace tost::train {
namespace {

using models::CrateConfig;
using models::ImageClassifierConfig;
using models::VisionConfig;
using models::VisionMixer;

constexpr int64_t kColours = 3;
// Depths from which the official models begin with almost closed branches; only a model's first
// values depend on it.
constexpr int kDeep = 24;
constexpr float kDeepLayerScale = 1e-5f;

using Entries = std::span<const TensorEntry>;
using Named = std::map<std::string, size_t>;  // from names without prefix to entries

std::string PrefixOf(Entries entries) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : entries) names.push_back(entry.name);
  return WrapperPrefix(names);
}

bool IsCrateName(absl::string_view name) {
  return absl::StartsWith(name, "to_patch_embedding.") ||
         absl::StartsWith(name, "transformer.layers.") || absl::StartsWith(name, "mlp_head.");
}

bool IsVisionName(absl::string_view name) {
  for (const char* prefix : {"patch_embed.", "pos_embeder.", "blocks.", "cls_attn_blocks."}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

// Numbers as they follow `prefix` in names.
size_t CountAfter(const Named& named, absl::string_view prefix) {
  std::set<absl::string_view> numbers;
  for (const auto& [name, index] : named) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    const size_t dot = rest.find('.');
    const absl::string_view number = rest.substr(0, dot);
    const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (dot != rest.npos && digits) numbers.insert(number);
  }
  return numbers.size();
}

// The extents, along `axis`, of all tensors of blocks whose names end so, by how often they occur.
std::map<int64_t, size_t> ExtentsOf(Entries entries, const Named& named, absl::string_view end,
                                    size_t axis) {
  std::map<int64_t, size_t> counts;
  for (const auto& [name, index] : named) {
    const std::vector<int64_t>& shape = entries[index].shape;
    if (absl::EndsWith(name, end) && axis < shape.size()) ++counts[shape[axis]];
  }
  return counts;
}

size_t Total(const std::map<int64_t, size_t>& counts) {
  size_t total = 0;
  for (const auto& [extent, count] : counts) total += count;
  return total;
}

// The extent counted most often, so that a single tensor astray is seen as such; 0 without any or
// when it is no setting's value.
int MostFrequent(const std::map<int64_t, size_t>& counts) {
  const auto most = std::ranges::max_element(
      counts, {}, [](const std::pair<const int64_t, size_t>& count) { return count.second; });
  return most == counts.end() || most->first > INT32_MAX ? 0 : static_cast<int>(most->first);
}

// √x when it is a whole number, else 0.
int64_t WholeRoot(int64_t x) {
  const int64_t root = x <= 0 ? 0 : std::llround(std::sqrt(static_cast<double>(x)));
  return root * root == x ? root : 0;
}

VisionConfig VisionConfigOf(Entries entries, const Named& named) {
  VisionConfig config;
  const auto extents = [&](absl::string_view end, size_t axis) {
    return ExtentsOf(entries, named, end, axis);
  };
  config.depth = static_cast<int>(CountAfter(named, "blocks."));
  config.class_blocks = static_cast<int>(CountAfter(named, "cls_attn_blocks."));
  config.width = MostFrequent(extents("norm2.weight", 0));
  config.classes = MostFrequent(extents("head.weight", 0));
  config.layer_scale = config.depth >= kDeep ? kDeepLayerScale : 1;
  // Each stage of the stem halves the picture.
  const size_t stages = CountAfter(named, "patch_embed.proj.");
  config.patch = stages < 8 ? 1 << stages : 0;
  const auto blocks = static_cast<size_t>(config.depth);
  const auto temperatures = extents("attn.temp", 0), crossed = extents("attn.temperature", 0);
  config.mixer = VisionMixer::kAttention;
  config.heads = 1;
  if (2 * Total(temperatures) > blocks) {
    config.mixer = VisionMixer::kTssa;
    config.heads = MostFrequent(temperatures);
  } else if (2 * Total(crossed) > blocks) {
    config.mixer = VisionMixer::kCrossCovariance;
    config.heads = MostFrequent(crossed);
  }
  const bool ista = 2 * Total(extents(".mlp.weight", 0)) > blocks;
  config.feed_forward = ista ? models::FeedForward::kIsta : models::FeedForward::kMlp;
  return config;
}

CrateConfig CrateConfigOf(Entries entries, const Named& named) {
  CrateConfig config;
  const auto extents = [&](absl::string_view end, size_t axis) {
    return ExtentsOf(entries, named, end, axis);
  };
  config.depth = static_cast<int>(CountAfter(named, "transformer.layers."));
  config.width = MostFrequent(extents(".norm.weight", 0));
  config.classes = MostFrequent(extents("mlp_head.1.weight", 0));
  const int elements = MostFrequent(extents("to_patch_embedding.1.weight", 0));
  config.patch = elements % kColours == 0 ? static_cast<int>(WholeRoot(elements / kColours)) : 0;
  config.image_size = WholeRoot(MostFrequent(extents("pos_embedding", 1)) - 1) * config.patch;
  config.heads = 1;
  return config;
}

// Fills `layout.used` from a declaration of the model, which allocates nothing.
TensorFaults Match(Entries entries, Named named, VisionLayout& layout) {
  TensorFaults faults;
  ParameterSet params(Device::Cpu(), /*seed=*/0);
  const models::ImageClassifier model(params.Root(), layout.config);
  const auto take = [&](const std::string& name, const Shape& shape) {
    const auto found = named.find(name);
    if (found == named.end()) {
      faults.missing.push_back(name);
      return;
    }
    const TensorEntry& entry = entries[found->second];
    if (!std::ranges::equal(entry.shape, shape.extents())) {
      faults.AddShape(entry.name, entry, shape);
    }
    layout.used[name] = found->second;
    named.erase(found);
  };
  for (const Parameter& parameter : params.parameters()) take(parameter.name(), parameter.shape());
  for (const State& state : params.states()) take(state.name(), state.shape());
  for (const auto& [name, index] : named) faults.unexpected.push_back(entries[index].name);
  return faults;
}

// Settings that leave no trace in the weights, from a description of the same kind of model.
void TakeUntraced(const ImageClassifierConfig& said, ImageClassifierConfig& config) {
  if (const auto* from = std::get_if<VisionConfig>(&said)) {
    if (auto* to = std::get_if<VisionConfig>(&config)) {
      to->normalized_memberships = from->normalized_memberships;
      to->normalize_all_tokens = from->normalize_all_tokens;
      to->layer_scale = from->layer_scale;
      to->image_size = from->image_size;
    }
  } else if (auto* to = std::get_if<CrateConfig>(&config)) {
    to->step = std::get<CrateConfig>(said).step;
    to->sparsity = std::get<CrateConfig>(said).sparsity;
  }
}

// Whether softmax attention over tokens hides the number of heads.
bool HeadsAreHidden(const ImageClassifierConfig& config) {
  const auto* vision = std::get_if<VisionConfig>(&config);
  return vision == nullptr || vision->mixer == VisionMixer::kAttention;
}

int& Heads(ImageClassifierConfig& config) {
  return std::visit([](auto& c) -> int& { return c.heads; }, config);
}

absl::Status Contradiction(const std::string& source, absl::string_view who, absl::string_view what,
                           int64_t said, int64_t seen) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", who, " says ", what, " = ", said,
                                                 ", but the tensors say ", seen,
                                                 "; correct the one that is wrong"));
}

absl::Status TakeHeads(const VisionStatements& stated, const std::string& source,
                       ImageClassifierConfig& config) {
  int said = stated.heads;
  if (said == 0 && stated.config.has_value()) {
    ImageClassifierConfig description = *stated.config;
    said = Heads(description);
  }
  if (!HeadsAreHidden(config)) {
    if (said == 0 || said == Heads(config)) return absl::OkStatus();
    return Contradiction(source, stated.heads != 0 ? "--heads" : stated.config_source, "heads",
                         said, Heads(config));
  }
  if (said == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source,
                     ": the number of attention heads cannot be seen from its tensors; "
                     "give it with --heads"));
  }
  Heads(config) = said;
  return absl::OkStatus();
}

absl::Status TakeImageSize(const VisionStatements& stated, const std::string& source,
                           ImageClassifierConfig& config) {
  if (stated.image_size == 0) return absl::OkStatus();
  if (std::holds_alternative<CrateConfig>(config)) {
    const int64_t seen = models::image_size(config);
    if (stated.image_size == seen) return absl::OkStatus();
    return Contradiction(source, "--image_size", "image_size", stated.image_size, seen);
  }
  config = models::WithImageSize(std::move(config), stated.image_size);
  return absl::OkStatus();
}

// What is stated joins what the tensors say; the description must then be what came out, but for
// what the options changed.
absl::Status Apply(const VisionStatements& stated, const std::string& source,
                   ImageClassifierConfig& config) {
  if (stated.config.has_value()) TakeUntraced(*stated.config, config);
  TOST_RETURN_IF_ERROR(TakeHeads(stated, source, config));
  if (stated.config.has_value()) {
    ImageClassifierConfig said = *stated.config;
    if (stated.heads != 0) Heads(said) = stated.heads;
    if (said != config) {
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": ", stated.config_source, " describes another architecture (", ToJson(said),
          ") than its tensors (", ToJson(config), "); correct the one that is wrong"));
    }
  }
  TOST_RETURN_IF_ERROR(TakeImageSize(stated, source, config));
  const absl::Status valid = models::Validate(config);
  if (valid.ok()) return valid;
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", valid.message()));
}

}  // namespace

bool LooksLikeImageClassifier(Entries entries) {
  const std::string prefix = PrefixOf(entries);
  return std::ranges::any_of(entries, [&](const TensorEntry& entry) {
    const absl::string_view name = absl::StripPrefix(entry.name, prefix);
    return IsVisionName(name) || IsCrateName(name);
  });
}

absl::StatusOr<VisionLayout> VisionLayoutOf(Entries entries, const VisionStatements& stated,
                                            const std::string& source) {
  VisionLayout layout{.prefix = PrefixOf(entries)};
  Named named;
  bool crate = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const absl::string_view name = absl::StripPrefix(entries[i].name, layout.prefix);
    crate = crate || IsCrateName(name);
    if (absl::EndsWith(name, ".num_batches_tracked")) {
      layout.counters.push_back(i);
    } else {
      named[std::string(name)] = i;
    }
  }
  if (crate) {
    layout.config = CrateConfigOf(entries, named);
  } else {
    layout.config = VisionConfigOf(entries, named);
  }
  if (const absl::Status valid = models::Validate(layout.config); !valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, " holds no image classifier that is known here (by its tensors, ", valid.message(),
        "); the official ToST, ViT and XCiT classifiers and CRATE are read"));
  }
  TOST_RETURN_IF_ERROR(Match(entries, std::move(named), layout)
                           .ToStatus(absl::StrCat(source, " is no complete image classifier"),
                                     "all other tensors fit"));
  TOST_RETURN_IF_ERROR(Apply(stated, source, layout.config));
  return layout;
}

}  // namespace tost::train
