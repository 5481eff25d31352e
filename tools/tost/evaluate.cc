// tost evaluate
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"
#include "trainers/evaluate_vision.h"
#include "trainers/run_kind.h"

namespace tost {
namespace {

// What both kinds of models are asked. The data's path and the like mean the same to both.
struct Options {
  train::LanguageEvaluationOptions language;
  train::VisionEvaluationOptions vision;
};

void AddLanguage(Command& command, train::LanguageEvaluationOptions& o) {
  command.Add("task", o.task,
              "Language: lambada, wikitext2, ptb, cbt-cn, cbt-ne or text:FILE; empty: token files");
  command.Add("protocol", o.protocol,
              "Language: standard, or official as the scripts of the paper");
  command.Add("long_text", o.long_text,
              "Language: windows, or streaming with one state over all text (ToST)");
  command.Add("stride", o.stride, "Language: tokens between sliding windows; 0: half the context");
  command.Add("by_position", o.by_position,
              "Language: also losses by the number of tokens before the target");
  command.Add("evaluation", o.evaluation,
              "Language: whole split, or random_windows as the official scripts");
  command.Add("evaluation_batches", o.evaluation_batches,
              "Batches of random windows; 0: 200, or 1000 of 16 windows by --protocol official");
  command.Add("seed", o.seed, "Seed of random windows");
}

void AddVision(Command& command, train::VisionEvaluationOptions& o) {
  command.Add(
      "weights", o.weights,
      "Pictures: best as a split has selected, newest, or average (the newest running one)");
  command.Add("classes", o.classes, "Pictures: also a line for each class");
  command.Add("confusion", o.confusion, "Pictures: file for the confusion matrix as a PNG");
  command.Add("format", o.data.format, "Pictures: format of --data; empty: told by what is there");
  command.Add("labels", o.data.labels, "CIFAR-100: fine or coarse");
  command.Add("any_sizes", o.data.any_sizes,
              "Pictures: accept a set whose sizes are not the official ones");
  command.Add("bad_images", o.data.bad_images, "fail, or skip pictures that cannot be decoded");
  command.Add("workers", o.data.workers, "Pictures: threads that decode");
}

absl::Status Evaluate(Options options) {
  TOST_ASSIGN_OR_RETURN(const train::RunKind kind, train::KindOfRun(options.language.run));
  if (kind == train::RunKind::kLanguage) return train::EvaluateLanguageRun(options.language);
  const train::LanguageEvaluationOptions& shared = options.language;
  train::VisionEvaluationOptions& vision = options.vision;
  vision.run = shared.run;
  vision.data.data = shared.data;
  if (!shared.split.empty()) vision.split = shared.split;
  vision.batch = shared.batch;
  vision.compute_dtype = shared.compute_dtype;
  vision.device = shared.device;
  vision.json = shared.json;
  vision.version = shared.version;
  return train::EvaluateVisionRun(vision);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "evaluate",
      "A language model's loss on token files or on texts it has never seen; a classifier's "
      "accuracy on pictures",
      "tost evaluate --run runs/shakespeare/model\n"
      "  tost evaluate --run runs/shakespeare/model --by_position --json loss.json\n"
      "  tost evaluate --run runs/shakespeare/model --task text:notes.txt --long_text streaming\n"
      "  tost evaluate --run runs/tost_base --task wikitext2 --data wikitext-2-raw --stride 256\n"
      "  tost evaluate --run runs/tost_base --task lambada --data lambada\n"
      "  tost evaluate --run runs/tost_base --task cbt-cn --data CBTest --protocol official\n"
      "  tost evaluate --run runs/cifar10 --classes --confusion confusion.png");
  auto options = std::make_shared<Options>();
  auto& o = options->language;
  o.version = TOST_VERSION;
  command.Add("run", o.run, "Run folder or checkpoint file")->required();
  command.Add("data", o.data, "Folder, file or archive; empty: what the run was trained on");
  command.Add(
      "split", o.split,
      "train, val or test, of pictures train, validation or test; empty: language val or as "
      "the task says, pictures test");
  command.Add("json", o.json, "File for the figures as JSON; empty or -: none");
  command.Add("batch", o.batch, "Sequences or pictures at a time");
  command.Add("compute_dtype", o.compute_dtype, "float32 or bfloat16");
  command.AddDevice(o.device);
  AddLanguage(command, o);
  AddVision(command, options->vision);
  command.set_run([options] { return Evaluate(*options); });
}

}  // namespace tost
