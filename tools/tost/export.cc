// tost export
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/export_vision.h"

namespace tost {

void AddExportCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "export", "A run's model for other programs",
      "tost export --run runs/shakespeare/model --output runs/shakespeare/export --check");
  auto options = std::make_shared<train::ExportOptions>();
  auto& o = *options;
  command.Add("run", o.run, "Run folder or checkpoint file")->required();
  command.Add("output", o.output, "Folder for model.safetensors and its companions")->required();
  command.Add("format", o.format,
              "official names, or huggingface (GPT-2 for the transformers library)");
  command.Add("dtype", o.dtype, "float32 or bfloat16");
  command.Add("check", o.check, "Import it again and compare logits");
  command.Add("overwrite", o.overwrite, "Write into a folder that is not empty");
  command.set_run([options] { return train::ExportModel(*options); });
}

}  // namespace tost
