// tost evaluate
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"

namespace tost {

void AddEvaluateCommand(CLI::App& app, Commands& commands) {
  Command& command =
      commands.emplace_back(app, "evaluate", "The loss of a run on its validation split",
                            "tost evaluate --run runs/shakespeare/model");
  auto options = std::make_shared<train::LanguageEvaluationOptions>();
  auto& o = *options;
  command.Add("run", o.run, "Run folder or checkpoint file")->required();
  command.Add("data", o.data, "Folder or token file; empty: what the run was trained on");
  command.Add("split", o.split, "val or train");
  command.Add("evaluation", o.evaluation, "whole split, or random_windows as the official scripts");
  command.Add("evaluation_batches", o.evaluation_batches, "Batches of random_windows");
  command.Add("batch", o.batch, "Sequences at a time");
  command.Add("seed", o.seed, "Seed of random_windows");
  command.Add("compute_dtype", o.compute_dtype, "float32 or bfloat16");
  command.set_run([options] { return train::EvaluateLanguageRun(*options); });
}

}  // namespace tost
