// tost import
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/import_model.h"

namespace tost {

void AddImportCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "import", "A model of PyTorch, nanoGPT, Hugging Face or the official code as a run",
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
  command.Add("image_size", o.image_size,
              "Pixels of an image classifier's pictures; 0: as the source says, or 224");
  command.Add("overwrite", o.overwrite, "Replace the run that is there");
  command.set_run([options] { return train::ImportModel(*options); });
}

}  // namespace tost
