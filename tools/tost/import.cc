// tost import
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/import_language.h"

namespace tost {

void AddImportCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "import", "A language model of PyTorch, nanoGPT or Hugging Face as a run",
      "tost import --from tests/data/torch/nanogpt_checkpoint.pt --output runs/imported");
  auto options = std::make_shared<train::ImportOptions>();
  auto& o = *options;
  command
      .Add("from", o.from,
           "File of weights (.pt, .pth, .bin, .safetensors), or folder as of Hugging Face")
      ->required();
  command.Add("output", o.output, "Run folder to make")->required();
  command.Add("heads", o.heads, "Attention heads, where the source does not say; 0: as it says");
  command.Add("tokenizer", o.tokenizer,
              "gpt2, none, or a folder of tables; empty: as the source says");
  command.Add("overwrite", o.overwrite, "Replace the run that is there");
  command.set_run([options] { return train::ImportLanguage(*options); });
}

}  // namespace tost
