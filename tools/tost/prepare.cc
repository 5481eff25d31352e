// tost prepare characters
#include <cstdio>
#include <memory>

#include "autograd/base/errors.h"
#include "data/prepare_characters.h"
#include "tools/tost/command_line.h"
#include "trainers/progress.h"

namespace tost {

void AddPrepareCommands(CLI::App& app, Commands& commands) {
  CLI::App* prepare = app.add_subcommand("prepare", "Turn raw data into token files");
  prepare->require_subcommand(1);
  Command& command = commands.emplace_back(
      *prepare, "characters", "A text by a vocabulary of its own characters",
      "tost prepare characters data/samples/tinyshakespeare.txt --output runs/shakespeare/data");
  auto options = std::make_shared<data::PrepareCharactersOptions>();
  command.AddOperand("text", options->text, "UTF-8 text file")->required();
  command.Add("output", options->folder, "Folder for train.bin, val.bin and vocabulary.json")
      ->required();
  command.Add("validation_fraction", options->validation_fraction,
              "Share of the characters, from the end, kept for validation");
  command.Add("overwrite", options->overwrite, "Replace files that are there");
  command.set_run([options]() -> absl::Status {
    TOST_ASSIGN_OR_RETURN(const data::PreparedCharacters prepared,
                          data::PrepareCharacters(*options));
    std::printf("%s: %s characters for training, %s for validation, vocabulary of %lld\n",
                options->folder.c_str(), train::FormatCount(prepared.train_tokens).c_str(),
                train::FormatCount(prepared.validation_tokens).c_str(),
                static_cast<long long>(prepared.vocabulary));
    return absl::OkStatus();
  });
}

}  // namespace tost
