// tost data check
#include <memory>

#include "data/image_sets.h"
#include "tools/tost/command_line.h"
#include "trainers/check_data.h"

namespace tost {

void AddDataCommands(CLI::App& app, Commands& commands) {
  CLI::App* data = app.add_subcommand("data", "Look into picture data sets");
  data->require_subcommand(1);
  Command& check = commands.emplace_back(
      *data, "check", "Open a set as training would, decode every picture, and say what is odd",
      "tost data check --data imagenette2-160");
  auto options = std::make_shared<data::ImageSetOptions>();
  auto& o = *options;
  check.app()
      ->add_option("--data", o.data,
                   "Folder, or archives and files, of one set as it is distributed")
      ->type_name("PATH ...")
      ->delimiter(',')
      ->required();
  check.Add("format", o.format,
            "cifar10, cifar100, flowers102, pets, folders; by default told by the files");
  check.Add("labels", o.labels, "CIFAR-100's labels: fine or coarse");
  check.Add("protocol", o.protocol,
            "official, or trainval: Flowers-102's validation part is for training too");
  check.Add("validation_fraction", o.validation_fraction,
            "Share of the training part held out where the set has no validation part; 0: none");
  check.Add("split_seed", o.seed, "Seed of what is held out");
  check.Add("any_sizes", o.any_sizes,
            "Accept parts of other sizes than the official ones, or without some class");
  check.set_run([options] { return train::CheckData(*options); });
}

}  // namespace tost
