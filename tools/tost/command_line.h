// What the command line does beyond CLI11: settings files, unknown names, one-line errors.
#ifndef TOST_TOOLS_TOST_COMMAND_LINE_H_
#define TOST_TOOLS_TOST_COMMAND_LINE_H_

#include <charconv>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "autograd/device.h"

namespace tost {

// A sub-command: its options, bound to the fields of a plain struct, and what it does.
class Command {
 public:
  // `example` is a complete, working command line; it stands at the end of --help.
  Command(CLI::App& parent, const std::string& name, const std::string& description,
          const std::string& example);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Declares --<name> with the field's value as its default. `help` is one sentence.
  template <class T>
  CLI::Option* Add(const std::string& name, T& field, const std::string& help) {
    settings_.push_back({name, [&field] { return ToToml(field); }});
    if constexpr (std::is_same_v<T, bool>) {
      return app_->add_flag("--" + name, field, help)->multi_option_policy(kLastWins);
    } else {
      return app_->add_option("--" + name, field, help)
          ->capture_default_str()
          ->multi_option_policy(kLastWins);
    }
  }
  // Declares --device. A choice of the moment: it does not enter Settings(), so that a run goes on
  // wherever it is resumed. Run() makes the device ready and sets the field.
  void AddDevice(Device& field);
  // Declares an operand without a name, such as the text to prepare.
  CLI::Option* AddOperand(const std::string& name, std::string& field, const std::string& help) {
    return app_->add_option(name, field, help);
  }
  void set_run(std::function<absl::Status()> run) { run_ = std::move(run); }

  CLI::App* app() const { return app_; }
  absl::Status Run() const;
  // All options with the values in effect, as a settings file that --config reads.
  std::string Settings() const;

 private:
  static constexpr auto kLastWins = CLI::MultiOptionPolicy::TakeLast;

  static std::string ToToml(bool value) { return value ? "true" : "false"; }
  static std::string ToToml(const std::string& value);
  template <class Number>
  static std::string ToToml(Number value) {
    // The shortest digits that read back as the same number: a resumed run must not round.
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  struct Setting {
    std::string name;
    std::function<std::string()> value;
  };

  CLI::App* app_;
  std::vector<Setting> settings_;
  Device* device_ = nullptr;  // null: the command computes nothing
  std::string device_name_ = "auto";
  std::function<absl::Status()> run_;
};

using Commands = std::deque<Command>;

// Each adds its commands below `app`.
void AddTrainCommands(CLI::App& app, Commands& commands);
void AddPrepareCommands(CLI::App& app, Commands& commands);
void AddDataCommands(CLI::App& app, Commands& commands);
void AddEvaluateCommand(CLI::App& app, Commands& commands);
void AddPredictCommand(CLI::App& app, Commands& commands);
void AddSampleCommand(CLI::App& app, Commands& commands);
void AddImportCommand(CLI::App& app, Commands& commands);
void AddExportCommand(CLI::App& app, Commands& commands);
void AddInspectCommands(CLI::App& app, Commands& commands);
void AddBenchCommands(CLI::App& app, Commands& commands);
void AddBenchKernelsCommand(CLI::App& bench, Commands& commands);
void AddInfoCommand(CLI::App& app, Commands& commands);
// Below `tost bench`.
void AddRooflineCommand(CLI::App& bench, Commands& commands);

// The arguments as CLI11 should see them: `-` inside option names as `_`, and the settings of
// `--config FILE` (or of the config.toml of `--resume FOLDER`) put in before the user's own, which
// therefore win. An unknown key is an error that names the file and the nearest known one.
absl::StatusOr<std::vector<std::string>> ExpandArguments(const CLI::App& app, int argc,
                                                         const char* const* argv);

// An error for an option that `app` does not have, with the nearest one it has.
absl::Status UnknownOption(const CLI::App& app, const std::string& name, const std::string& where);

}  // namespace tost

#endif  // TOST_TOOLS_TOST_COMMAND_LINE_H_
