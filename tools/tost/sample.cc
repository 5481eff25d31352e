// tost sample
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/sample_language.h"

namespace tost {

void AddSampleCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "sample", "Text from a trained language model",
      "tost sample --run runs/shakespeare/model --tokens 500 --prompt \"ROMEO:\"");
  auto options = std::make_shared<train::SampleOptions>();
  auto& o = *options;
  command.Add("run", o.run, "Run folder or checkpoint file")->required();
  command.Add("prompt", o.prompt, "Text to go on from (token ids for a model without a tokenizer)");
  command.Add("tokens", o.tokens, "Tokens to draw");
  command.Add("samples", o.samples, "Texts to draw");
  command.Add("temperature", o.temperature, "Divides the logits; 0 takes the most likely token");
  command.Add("top_k", o.top_k, "Draw among the k most likely tokens; 0: among all");
  command.Add("seed", o.seed, "Seed of the draws");
  command.Add("past_context", o.past_context,
              "When the context is full: slide (read the last tokens anew) or stop");
  command.AddDevice(o.device);
  command.set_run([options] { return train::SampleLanguageRun(*options); });
}

}  // namespace tost
