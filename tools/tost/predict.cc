// tost predict
#include <memory>

#include "tools/tost/command_line.h"
#include "trainers/predict_vision.h"

namespace tost {

void AddPredictCommand(CLI::App& app, Commands& commands) {
  Command& command =
      commands.emplace_back(app, "predict", "What an image classifier sees in pictures",
                            "tost predict --run runs/cifar10 photo.jpg\n"
                            "  tost predict --run runs/cifar10 --json --bad_images skip photos");
  auto options = std::make_shared<train::PredictOptions>();
  auto& o = *options;
  command.Add("run", o.run, "Run folder (its best weights) or checkpoint file")->required();
  command.app()
      ->add_option("pictures", o.pictures, "JPEG, PNG or GIF files, or folders of them")
      ->required();
  command.Add("top", o.top, "Classes to show");
  command.Add("json", o.json, "One JSON object a line");
  command.Add("bad_images", o.bad_images, "fail, or skip pictures that cannot be decoded");
  command.Add("compute_dtype", o.compute_dtype, "float32 or bfloat16");
  command.AddDevice(o.device);
  command.set_run([options] { return train::Predict(*options); });
}

}  // namespace tost
