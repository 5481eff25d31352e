#include "trainers/language_layout.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/parameter.h"
#include "trainers/tensor_names.h"

namespace tost::train {
namespace {

using What = Stated::What;

constexpr char kRoot[] = "transformer.";
constexpr char kBlocks[] = "transformer.h.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "transformer.wte.weight";
constexpr char kPositions[] = "transformer.wpe.weight";
// Where LayerScale starts; only a model's first values depend on it.
constexpr float kLayerScale = 1e-5f;

using Entries = std::span<const TensorEntry>;

// "attn.c_attn.weight" of "transformer.h.3.attn.c_attn.weight", and "3"; empty for other names.
struct InBlock {
  absl::string_view block;
  absl::string_view rest;
};
InBlock SplitBlock(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kBlocks)) return {};
  const size_t dot = name.find('.');
  if (dot == name.npos) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// The causal mask that PyTorch before 2 and Hugging Face save. The bias of c_attn is another name
// and has one axis.
const char* WhyIgnored(absl::string_view name, const TensorEntry& entry) {
  const absl::string_view rest = SplitBlock(name).rest;
  const bool mask = rest == "attn.bias" && entry.shape.size() == 4;
  return mask || rest == "attn.masked_bias" ? "causal mask, not a weight" : nullptr;
}

// The file's tensors by our names.
struct Named {
  std::map<std::string, size_t> entries;
  std::vector<std::string> twice;  // names as in the file that stand for another's tensor
};

Named NamesOf(Entries entries, LanguageLayout& layout) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : entries) names.push_back(entry.name);
  layout.prefix = WrapperPrefix(names);
  Named named;
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::string_view name = names[i];
    absl::ConsumePrefix(&name, layout.prefix);
    const bool complete = absl::StartsWith(name, kRoot) || absl::StartsWith(name, "lm_head.");
    const std::string full = absl::StrCat(complete ? "" : kRoot, name);
    if (const char* why = WhyIgnored(full, entries[i])) {
      layout.ignored.push_back({i, why});
    } else if (!named.entries.emplace(full, i).second) {
      named.twice.push_back(names[i]);
    }
  }
  return named;
}

// Extent `axis` of a tensor that has one, or nothing.
std::optional<int64_t> ExtentOf(Entries entries, const Named& named, const std::string& name,
                                size_t axis) {
  const auto found = named.entries.find(name);
  if (found == named.entries.end() || axis >= entries[found->second].shape.size()) {
    return std::nullopt;
  }
  return entries[found->second].shape[axis];
}

// A number of a file as a setting; 0, which no model has, when it is too large for one.
int Small(int64_t value) { return value <= INT32_MAX ? static_cast<int>(value) : 0; }

// The number counted most often, or 1 when there is none.
int64_t MostFrequent(const std::map<int64_t, size_t>& counts) {
  const auto most = std::ranges::max_element(
      counts, {}, [](const std::pair<const int64_t, size_t>& count) { return count.second; });
  return most == counts.end() ? 1 : most->first;
}

// The architecture that most tensors speak for, so that a single tensor that is missing or astray
// is seen as such. Heads are those of TSSA's temperatures, or 1.
models::LanguageConfig ConfigOf(Entries entries, const Named& named, bool& transposed) {
  std::set<absl::string_view> blocks;
  size_t temperatures = 0, biases = 0, scales = 0, straight = 0, across = 0;
  std::map<int64_t, size_t> heads, contexts;
  for (const auto& [name, index] : named.entries) {
    const auto [block, rest] = SplitBlock(name);
    const std::vector<int64_t>& shape = entries[index].shape;
    if (!block.empty()) blocks.insert(block);
    biases += absl::EndsWith(name, ".bias") ? 1 : 0;
    scales += rest == "gamma1" || rest == "gamma2" ? 1 : 0;
    if (rest == "attn.temp" && !shape.empty()) {
      ++temperatures;
      ++heads[shape[0]];
    }
    if (rest == "attn.denom_bias" && shape.size() == 3) ++contexts[shape[1]];
    if (rest == "mlp.c_fc.weight" && shape.size() == 2) ++(shape[0] > shape[1] ? straight : across);
  }
  transposed = across > straight;
  const size_t layers = blocks.size();
  const int64_t width =
      ExtentOf(entries, named, kEmbedding, 1)
          .value_or(
              ExtentOf(entries, named, kPositions, 1)
                  .value_or(ExtentOf(entries, named, "transformer.ln_f.weight", 0).value_or(1)));
  return {.mixer = 2 * temperatures > layers ? models::Mixer::kTssa : models::Mixer::kAttention,
          .layers = Small(static_cast<int64_t>(layers)),
          .heads = Small(2 * temperatures > layers ? MostFrequent(heads) : 1),
          .width = Small(width),
          .context = ExtentOf(entries, named, kPositions, 0).value_or(MostFrequent(contexts)),
          .vocabulary = ExtentOf(entries, named, kEmbedding, 0).value_or(1),
          .bias = biases > 3 * layers,  // of 6 per block
          .layer_scale = scales > layers ? std::optional(kLayerScale) : std::nullopt};
}

bool Fits(const TensorEntry& entry, const Shape& shape, bool reversed) {
  if (reversed) return std::ranges::equal(entry.shape, std::vector{shape[1], shape[0]});
  return std::ranges::equal(entry.shape, shape.extents());
}

// Fills `layout.used` from a declaration of the model, which allocates nothing.
TensorFaults Match(Entries entries, Named named, LanguageLayout& layout) {
  TensorFaults faults;
  ParameterSet params(Device::Cpu(), /*seed=*/0);
  const models::LanguageModel model(params.Root(), layout.config);
  for (const Parameter& parameter : params.parameters()) {
    const auto found = named.entries.find(parameter.name());
    if (found == named.entries.end()) {
      faults.missing.push_back(parameter.name());
      continue;
    }
    const TensorEntry& entry = entries[found->second];
    const bool reversed = layout.transposed && IsLinearWeight(parameter.name());
    if (!Fits(entry, parameter.shape(), reversed)) {
      faults.AddShape(
          entry.name, entry,
          reversed ? Shape{parameter.shape()[1], parameter.shape()[0]} : parameter.shape());
    }
    layout.used[parameter.name()] = found->second;
    named.entries.erase(found);
  }
  faults.unexpected = std::move(named.twice);
  for (const auto& [name, index] : named.entries) faults.unexpected.push_back(entries[index].name);
  return faults;
}

absl::string_view NameOf(What what) {
  constexpr absl::string_view kNames[] = {"TSSA",  "LayerScale", "biases",  "layers",
                                          "heads", "width",      "context", "vocabulary"};
  return kNames[static_cast<size_t>(what)];
}

int64_t ValueOf(const models::LanguageConfig& config, What what) {
  switch (what) {
    case What::kTssa:
      return config.mixer == models::Mixer::kTssa ? 1 : 0;
    case What::kLayerScale:
      return config.layer_scale.has_value() ? 1 : 0;
    case What::kBias:
      return config.bias ? 1 : 0;
    case What::kLayers:
      return config.layers;
    case What::kHeads:
      return config.heads;
    case What::kWidth:
      return config.width;
    case What::kContext:
      return config.context;
    case What::kVocabulary:
      return config.vocabulary;
  }
  return 0;
}

// Takes GPT-2's heads from what is stated, and holds everything stated against the architecture.
absl::Status Apply(std::span<const Stated> stated, const std::string& source,
                   models::LanguageConfig& config) {
  std::string heads_from = "the tensors";
  if (config.mixer == models::Mixer::kAttention) {
    const auto said =
        std::ranges::find_if(stated, [](const Stated& s) { return s.what == What::kHeads; });
    if (said == stated.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source,
                       ": the number of attention heads cannot be seen from its tensors; "
                       "give it with --heads"));
    }
    config.heads = Small(said->value);
    heads_from = said->source;
  }
  for (const Stated& statement : stated) {
    const int64_t value = ValueOf(config, statement.what);
    if (value == statement.value) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": ", statement.source, " says ", NameOf(statement.what), " = ", statement.value,
        ", but ", statement.what == What::kHeads ? heads_from : "the tensors", " say",
        statement.what == What::kHeads && heads_from != "the tensors" ? "s " : " ", value,
        "; correct the one that is wrong"));
  }
  const absl::Status valid = config.Validate();
  if (valid.ok()) return valid;
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", valid.message()));
}

}  // namespace

bool IsLinearWeight(absl::string_view name) {
  return absl::EndsWith(name, "c_attn.weight") || absl::EndsWith(name, "c_proj.weight") ||
         absl::EndsWith(name, "c_fc.weight");
}

absl::StatusOr<LanguageLayout> LanguageLayoutOf(Entries entries, std::span<const Stated> stated,
                                                const std::string& source) {
  LanguageLayout layout;
  Named named = NamesOf(entries, layout);
  if (const auto head = named.entries.find(kHead); head != named.entries.end()) {
    // Our models tie the head to the embedding. Alone it stands for both.
    const bool alone = named.entries.emplace(kEmbedding, head->second).second;
    if (!alone) layout.head = head->second;
    named.entries.erase(head);
  }
  layout.config = ConfigOf(entries, named, layout.transposed);
  if (const absl::Status valid = layout.config.Validate(); !valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " holds no language model that is known here (by its tensors, ",
                     valid.message(), "); ToST, nanoGPT and Hugging Face's GPT-2 are read"));
  }
  TOST_RETURN_IF_ERROR(Match(entries, std::move(named), layout)
                           .ToStatus(absl::StrCat(source, " is no complete language model"),
                                     "all other tensors fit"));
  TOST_RETURN_IF_ERROR(Apply(stated, source, layout.config));
  return layout;
}

}  // namespace tost::train
