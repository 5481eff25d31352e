// tost train language, tost train vision
#include <memory>

#include "tools/tost/command_line.h"
#include "tools/tost/vision_options.h"
#include "trainers/train_language.h"
#include "trainers/train_vision.h"

namespace tost {
namespace {

// Choices of the moment, like the device: they do not enter the run's settings.
template <class Options>
void AddCudaFlags(Command& command, Options& o) {
  command.app()->add_flag("--cuda_graph", o.cuda_graph, "Hand a GPU each update as one CUDA graph");
  command.app()->add_flag("--tf32", o.tf32,
                          "On a GPU, round float32 operands of products to TF32: faster");
}

void AddTrainLanguage(CLI::App& train, Commands& commands) {
  Command& command = commands.emplace_back(
      train, "language", "Train a language model on token files",
      "tost train language --config trainers/recipes/shakespeare_char_cpu.toml --data "
      "runs/shakespeare/data --output runs/shakespeare/model");
  auto options = std::make_shared<train::LanguageTrainingOptions>();
  auto& o = *options;
  command.app()
      ->add_option("--config", "Settings file (TOML); options given here win")
      ->type_name("FILE");
  command.app()->add_option("--resume", o.resume,
                            "Run folder to go on with, exactly, from its newest checkpoint");
  command.app()->add_flag("--overwrite", o.overwrite, "Start anew in a folder that holds a run");

  command.Add("data", o.data, "Folder with train.bin and val.bin, as tost prepare writes it");
  command.Add("output", o.output, "Folder for the run");
  command.Add("tokenizer", o.tokenizer,
              "Tokenizer of data without vocabulary.json: gpt2, or a folder of tables");
  command.Add("init", o.init, "Run folder or checkpoint whose weights (and model) to start from");
  command.Add(
      "model", o.model,
      "Named model: tost_base, gpt2, … (tost inspect models); empty: that of --init, or else "
      "tost_char");
  command.Add("layers", o.layers, "Blocks; 0: the named model's");
  command.Add("heads", o.heads, "Heads; 0: the named model's");
  command.Add("width", o.width, "Channels; 0: the named model's");
  command.Add("context", o.context, "Tokens in a sequence; 0: the named model's");
  command.Add("vocabulary", o.vocabulary, "Rows of the embedding; 0: what the tokenizer needs");
  command.Add("bias", o.bias, "Biases in linear layers and layer norms");
  command.Add("steps", o.steps, "Updates in all; 0 only evaluates");
  command.Add("global_batch", o.global_batch, "Sequences per update");
  command.Add("micro_batch", o.micro_batch, "Sequences at a time; 0: the whole global batch");
  command.Add("sampling", o.sampling, "permutation, or random_windows as the official scripts");
  command.Add("schedule", o.schedule, "cosine or constant, both after a linear warm-up");
  command.Add("learning_rate", o.learning_rate, "Peak learning rate");
  command.Add("min_learning_rate", o.min_learning_rate, "Where the cosine ends");
  command.Add("warmup", o.warmup, "Updates of linear warm-up");
  command.Add("beta1", o.beta1, "AdamW: decay of the first moment");
  command.Add("beta2", o.beta2, "AdamW: decay of the second moment");
  command.Add("weight_decay", o.weight_decay, "AdamW: decay of weight matrices");
  command.Add("clip_norm", o.clip_norm, "Largest norm of the whole gradient; 0: no clipping");
  command.Add("dropout", o.dropout, "Dropout rate");
  command.Add("official_loop", o.official_loop,
              "First update at rate 0 and one update more, as the official loop");
  command.Add("evaluate_every", o.evaluate_every,
              "Updates between evaluations; 0: at the end only");
  command.Add("evaluation", o.evaluation, "whole split, or random_windows as the official scripts");
  command.Add("evaluation_batches", o.evaluation_batches, "Batches of random_windows");
  command.Add("checkpoint_every", o.checkpoint_every,
              "Updates between checkpoints; 0: at the end only");
  command.Add("keep_checkpoints", o.keep_checkpoints, "Newest checkpoints to keep; 0: all");
  command.Add("seed", o.seed, "Seed of initial values, data order and dropout");
  command.Add("compute_dtype", o.compute_dtype, "float32, or bfloat16 with float32 master weights");
  command.Add("recompute", o.recompute, "Keep only the blocks' inputs: less memory, more time");
  command.Add("log_memory", o.log_memory, "Print live and peak bytes after every update");
  AddCudaFlags(command, o);
  command.AddDevice(o.device);
  command.set_run([&command, options] {
    if (!options->resume.empty()) options->output = options->resume;
    return train::TrainLanguage(*options, command.Settings());
  });
}

void AddTrainVision(CLI::App& train, Commands& commands) {
  Command& command = commands.emplace_back(
      train, "vision", "Train or fine-tune an image classifier",
      "tost train vision --config trainers/recipes/tost_small_cifar10.toml --data "
      "cifar-10-batches-bin --output runs/cifar10\n"
      "  tost train vision --config trainers/recipes/fine_tune_small.toml --init runs/cifar10 "
      "--data imagenette2-160 --output runs/imagenette");
  auto options = std::make_shared<train::VisionTrainingOptions>();
  auto& o = *options;
  command.app()
      ->add_option("--config", "Settings file (TOML); options given here win")
      ->type_name("FILE");
  command.app()->add_option("--resume", o.resume,
                            "Run folder to go on with, exactly, from its newest checkpoint");
  command.app()->add_flag("--overwrite", o.overwrite, "Start anew in a folder that holds a run");
  AddVisionSettings(command, o);
  AddCudaFlags(command, o);
  command.AddDevice(o.device);
  command.set_run([&command, options] {
    if (!options->resume.empty()) options->output = options->resume;
    return train::TrainVision(*options, command.Settings());
  });
}

}  // namespace

void AddTrainCommands(CLI::App& app, Commands& commands) {
  CLI::App* train = app.add_subcommand("train", "Train a model");
  train->require_subcommand(1);
  AddTrainLanguage(*train, commands);
  AddTrainVision(*train, commands);
}

}  // namespace tost
