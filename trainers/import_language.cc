#include "trainers/import_language.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "trainers/architecture_files.h"
#include "trainers/language_layout.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"
#include "trainers/weight_file.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

constexpr char kEmbedding[] = "transformer.wte.weight";
// GPT-2's tokens, and the same rounded up to a multiple of 64 as nanoGPT and ToST do.
constexpr int64_t kGpt2Tokens = 50257;
constexpr int64_t kGpt2Rows = 50304;

// Everything that is said of the architecture besides the tensors themselves.
absl::StatusOr<StatedArchitecture> ArchitectureOf(const ImportOptions& options,
                                                  const ImportSource& source,
                                                  const WeightFile& file) {
  StatedArchitecture all;
  if (options.heads != 0) all.stated.push_back({Stated::What::kHeads, options.heads, "--heads"});
  const auto add = [&](const StatedArchitecture& more) {
    all.stated.insert(all.stated.end(), more.stated.begin(), more.stated.end());
    if (more.gelu.has_value()) all.gelu = more.gelu;
  };
  TOST_ASSIGN_OR_RETURN(const std::vector<Description> descriptions, DescriptionsOf(source, file));
  for (const Description& description : descriptions) {
    TOST_ASSIGN_OR_RETURN(const StatedArchitecture said,
                          ParseArchitecture(description.json, description.source));
    add(said);
  }
  if (file.values() != nullptr) add(ModelArgsOf(*file.values()));
  return all;
}

struct TokenizerChoice {
  std::optional<data::Tokenizer> tokenizer;
  std::string why;
};

// The tokenizer whose files lie in a folder, if any do.
absl::StatusOr<std::optional<data::Tokenizer>> TokenizerIn(const std::string& folder) {
  std::optional<data::Tokenizer> tokenizer;
  const std::string recorded = absl::StrCat(folder, "/", data::kTokenizerFile);
  if (FileExists(recorded)) {
    TOST_ASSIGN_OR_RETURN(tokenizer, data::Tokenizer::Load(recorded));
  } else if (FileExists(absl::StrCat(folder, "/merges.txt")) ||
             FileExists(absl::StrCat(folder, "/vocab.bpe"))) {
    TOST_ASSIGN_OR_RETURN(tokenizer, data::Tokenizer::Named(folder));
  }
  return tokenizer;
}

absl::StatusOr<TokenizerChoice> NamedTokenizer(const std::string& name) {
  if (name == "none") return TokenizerChoice{std::nullopt, "as --tokenizer says"};
  std::error_code error;
  if (fs::is_directory(name, error)) {
    TOST_ASSIGN_OR_RETURN(std::optional<data::Tokenizer> found, TokenizerIn(name));
    if (found.has_value()) return TokenizerChoice{std::move(found), absl::StrCat("from ", name)};
  }
  TOST_ASSIGN_OR_RETURN(data::Tokenizer tokenizer, data::Tokenizer::Named(name));
  return TokenizerChoice{std::move(tokenizer), "as --tokenizer says"};
}

absl::StatusOr<TokenizerChoice> TokenizerOf(const ImportOptions& options,
                                            const ImportSource& source, int64_t rows) {
  if (!options.tokenizer.empty()) return NamedTokenizer(options.tokenizer);
  if (!source.folder.empty()) {
    TOST_ASSIGN_OR_RETURN(std::optional<data::Tokenizer> found, TokenizerIn(source.folder));
    if (found.has_value()) {
      return TokenizerChoice{std::move(found), absl::StrCat("from ", source.folder)};
    }
  }
  if (rows >= kGpt2Tokens && rows <= kGpt2Rows) {
    return TokenizerChoice{
        data::Tokenizer::Gpt2(),
        absl::StrCat("assumed for a vocabulary of ", rows, " (--tokenizer says otherwise)")};
  }
  return TokenizerChoice{std::nullopt, "texts are token ids; --tokenizer gives one"};
}

// values[r, c] of a matrix that lies transposed in `values`.
void Transpose(std::span<const float> values, const Shape& shape, float* out) {
  const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
  constexpr size_t kTile = 32;  // both sides of a tile stay in the cache
  for (size_t r0 = 0; r0 < rows; r0 += kTile) {
    for (size_t c0 = 0; c0 < columns; c0 += kTile) {
      for (size_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (size_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
          out[r * columns + c] = values[c * rows + r];
        }
      }
    }
  }
}

absl::Status ReadWeights(const WeightFile& file, const LanguageLayout& layout,
                         ParameterSet& params) {
  std::map<size_t, const Parameter*> targets;
  std::vector<size_t> entries;
  for (const Parameter& parameter : params.parameters()) {
    const size_t entry = layout.used.at(parameter.name());
    targets[entry] = &parameter;
    entries.push_back(entry);
  }
  return file.ReadFloats(entries, [&](size_t entry, std::span<const float> values) {
    const Parameter& parameter = *targets.at(entry);
    Tensor target = parameter.value();
    if (layout.transposed && IsLinearWeight(parameter.name())) {
      Transpose(values, parameter.shape(), target.mutable_data<float>());
    } else {
      std::ranges::copy(values, target.mutable_data<float>());
    }
    return absl::OkStatus();
  });
}

// The head that lies in the file besides the embedding must be equal to it.
absl::Status CheckHead(const WeightFile& file, const LanguageLayout& layout, ParameterSet& params) {
  if (!layout.head.has_value() || file.AreTheSame(*layout.head, layout.used.at(kEmbedding))) {
    return absl::OkStatus();
  }
  const Tensor& embedding = params.Find(kEmbedding)->value();
  return file.ReadFloats(
      std::span(&*layout.head, 1), [&](size_t entry, std::span<const float> values) {
        const bool equal =
            values.size() == static_cast<size_t>(embedding.numel()) &&
            std::ranges::equal(values, std::span(embedding.data<float>(), values.size()));
        if (equal) return absl::OkStatus();
        return absl::InvalidArgumentError(absl::StrCat(
            file.path(), ": ", file.entries()[entry].name, " differs from ", kEmbedding,
            ", and the models here tie the two; a head of its own cannot be imported"));
      });
}

std::string Describe(const models::LanguageConfig& config) {
  return absl::StrCat(config.mixer == models::Mixer::kTssa ? "ToST" : "GPT-2", ": ", config.layers,
                      " layers, ", config.heads, " heads, width ", config.width, ", context ",
                      config.context, ", vocabulary ", config.vocabulary,
                      config.bias ? ", biases" : ", no biases",
                      config.layer_scale.has_value() ? ", LayerScale" : "",
                      config.gelu == models::GeluForm::kTanh ? ", GELU by tanh" : ", exact GELU");
}

std::vector<std::string> Report(const WeightFile& file, const LanguageLayout& layout,
                                const ImportedLanguage& imported, const TokenizerChoice& choice) {
  std::vector<std::string> report;
  const auto add = [&](absl::string_view what, absl::string_view text) {
    report.push_back(ReportLine(what, text));
  };
  add("source", absl::StrCat(file.path(), " (", file.format(),
                             layout.transposed ? ", Hugging Face's layout)" : ")"));
  add("architecture", Describe(imported.config));
  add("parameters", FormatCount(imported.params->element_count()));
  add("tokenizer", absl::StrCat(choice.tokenizer.has_value() ? choice.tokenizer->name() : "none",
                                ", ", choice.why));
  if (!layout.prefix.empty()) {
    add("prefix", absl::StrCat("\"", layout.prefix, "\" taken off all names"));
  }
  if (layout.head.has_value()) add("tied", "lm_head.weight, equal to the embedding");
  if (!layout.ignored.empty()) {
    const LanguageLayout::Ignored& first = layout.ignored[0];
    add("ignored",
        absl::StrCat(layout.ignored.size(), " tensors such as ",
                     absl::Utf8SafeCEscape(file.entries()[first.entry].name), ": ", first.why));
  }
  return report;
}

}  // namespace

absl::StatusOr<ImportedLanguage> ReadLanguageModel(const ImportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const ImportSource source, ImportSourceOf(options.from));
  TOST_ASSIGN_OR_RETURN(const WeightFile file, OpenForImport(source));
  TOST_ASSIGN_OR_RETURN(const StatedArchitecture architecture,
                        ArchitectureOf(options, source, file));
  TOST_ASSIGN_OR_RETURN(const LanguageLayout layout,
                        LanguageLayoutOf(file.entries(), architecture.stated, file.path()));
  ImportedLanguage imported;
  imported.config = layout.config;
  // Weights that lie as Hugging Face's do are OpenAI's kind of GPT-2 unless something says
  // otherwise.
  imported.config.gelu = architecture.gelu.value_or(layout.transposed ? models::GeluForm::kTanh
                                                                      : models::GeluForm::kExact);
  TOST_ASSIGN_OR_RETURN(TokenizerChoice choice,
                        TokenizerOf(options, source, imported.config.vocabulary));
  if (choice.tokenizer.has_value() && choice.tokenizer->vocabulary() > imported.config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": its vocabulary of ", imported.config.vocabulary, " has no room for the ",
        choice.tokenizer->vocabulary(), " tokens of ", choice.tokenizer->name(), " (", choice.why,
        "); name another with --tokenizer, or none"));
  }
  imported.params = std::make_unique<ParameterSet>(Device::Cpu(), /*seed=*/0);
  imported.model =
      std::make_unique<models::LanguageModel>(imported.params->Root(), imported.config);
  imported.params->Finalize();
  TOST_RETURN_IF_ERROR(ReadWeights(file, layout, *imported.params));
  TOST_RETURN_IF_ERROR(CheckHead(file, layout, *imported.params));
  imported.report = Report(file, layout, imported, choice);
  imported.tokenizer = std::move(choice.tokenizer);
  return imported;
}

absl::Status ImportLanguage(const ImportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const ImportedLanguage imported, ReadLanguageModel(options));
  CheckpointState state{.extra = {{kModelKey, ToJson(imported.config)}}};
  if (imported.tokenizer.has_value()) state.vocabulary = imported.tokenizer->ToJson();
  return WriteImportedRun(options, *imported.params, state, imported.report);
}

}  // namespace tost::train
