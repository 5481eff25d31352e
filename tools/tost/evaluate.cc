// tost evaluate
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"

namespace tost {

void AddEvaluateCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "evaluate", "The loss of a run on a split of token files, or on texts it has never seen",
      "tost evaluate --run runs/shakespeare/model\n"
      "  tost evaluate --run runs/shakespeare/model --by_position --json loss.json\n"
      "  tost evaluate --run runs/shakespeare/model --task text:notes.txt --long_text streaming\n"
      "  tost evaluate --run runs/tost_base --task wikitext2 --data wikitext-2-raw --stride 256\n"
      "  tost evaluate --run runs/tost_base --task lambada --data lambada\n"
      "  tost evaluate --run runs/tost_base --task cbt-cn --data CBTest --protocol official");
  auto options = std::make_shared<train::LanguageEvaluationOptions>();
  options->version = TOST_VERSION;
  auto& o = *options;
  command.Add("run", o.run, "Run folder or checkpoint file")->required();
  command.Add("task", o.task,
              "lambada, wikitext2, ptb, cbt-cn, cbt-ne or text:FILE; empty: token files");
  command.Add("data", o.data, "Folder or file; empty without --task: what the run was trained on");
  command.Add("split", o.split,
              "train, val or test; empty: val, for a task what its protocol says");
  command.Add("protocol", o.protocol, "standard, or official as the scripts of the paper");
  command.Add("long_text", o.long_text,
              "windows, or streaming with one state over all text (ToST)");
  command.Add("stride", o.stride, "Tokens between sliding windows; 0: half the context");
  command.Add("by_position", o.by_position,
              "Also losses by the number of tokens before the target");
  command.Add("json", o.json, "File for the figures as JSON; empty or -: none");
  command.Add("evaluation", o.evaluation, "whole split, or random_windows as the official scripts");
  command.Add("evaluation_batches", o.evaluation_batches,
              "Batches of random windows; 0: 200, or 1000 of 16 windows by --protocol official");
  command.Add("batch", o.batch, "Sequences at a time");
  command.Add("seed", o.seed, "Seed of random windows");
  command.Add("compute_dtype", o.compute_dtype, "float32 or bfloat16");
  command.set_run([options] { return train::EvaluateLanguageRun(*options); });
}

}  // namespace tost
