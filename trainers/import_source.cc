#include "trainers/import_source.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "trainers/run_folder.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

constexpr char kSafetensors[] = "model.safetensors";
constexpr char kTorch[] = "pytorch_model.bin";
constexpr char kArchitecture[] = "config.json";

}  // namespace

bool FileExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::StatusOr<ImportSource> ImportSourceOf(const std::string& from) {
  std::error_code error;
  if (!fs::is_directory(from, error)) {
    const fs::path path(from);
    const bool named = path.filename() == kSafetensors || path.filename() == kTorch;
    const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
    return ImportSource{from, named ? absl::StrCat(folder, "/") : ""};
  }
  const std::string folder = absl::StrCat(from, "/");
  for (const char* name : {kSafetensors, kTorch}) {
    if (FileExists(folder + name)) return ImportSource{folder + name, folder};
    if (!FileExists(absl::StrCat(folder, name, ".index.json"))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        from, ": its weights are spread over several files; save them as one (max_shard_size)"));
  }
  return absl::NotFoundError(absl::StrCat(from, " holds neither ", kSafetensors, " nor ", kTorch,
                                          "; name a file of weights, or such a folder"));
}

absl::StatusOr<WeightFile> OpenForImport(const ImportSource& source) {
  TOST_ASSIGN_OR_RETURN(WeightFile file, WeightFile::Open(source.weights));
  if (!IsCheckpoint(file.metadata())) return file;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(),
                   " is a checkpoint of tost, which needs no import: name it with "
                   "--run, or with --init to train on"));
}

absl::StatusOr<std::vector<Description>> DescriptionsOf(const ImportSource& source,
                                                        const WeightFile& file) {
  std::vector<Description> descriptions;
  const std::string config = absl::StrCat(source.folder, kArchitecture);
  if (!source.folder.empty() && FileExists(config)) {
    TOST_ASSIGN_OR_RETURN(std::string json, data::ReadFile(config));
    descriptions.push_back({std::move(json), config});
  }
  if (const auto found = file.metadata().find(kModelKey); found != file.metadata().end()) {
    descriptions.push_back({found->second, absl::StrCat(file.path(), ", its metadata")});
  }
  return descriptions;
}

std::string ReportLine(absl::string_view what, absl::string_view text) {
  return absl::StrCat(what, std::string(13 - what.size(), ' '), text);
}

absl::Status WriteImportedRun(const ImportOptions& options, const ParameterSet& params,
                              const CheckpointState& state,
                              const std::vector<std::string>& report) {
  TOST_ASSIGN_OR_RETURN(
      const RunFolder run,
      RunFolder::Open(options.output, options.overwrite ? RunMode::kOverwrite : RunMode::kNew));
  const std::string path = absl::StrCat(run.checkpoints(), "/", CheckpointName(0));
  TOST_RETURN_IF_ERROR(SaveCheckpoint(path, params, nullptr, state));
  for (const std::string& line : report) std::printf("%s\n", line.c_str());
  std::printf("%s\n", ReportLine("written", path).c_str());
  return absl::OkStatus();
}

}  // namespace tost::train
