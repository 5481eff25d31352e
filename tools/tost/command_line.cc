#include "tools/tost/command_line.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/device_backend.h"
#include "trainers/devices.h"

namespace tost {
namespace {

// Insertions, deletions and substitutions between two words (Levenshtein).
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

// The known name nearest to `name`, or "" when none is near.
std::string Nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string nearest;
  size_t best = std::max<size_t>(3, name.size() / 2);
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// "--learning-rate=1e-3" as "--learning_rate=1e-3"; anything else unchanged.
std::string WithUnderscores(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  return "--" + absl::StrReplaceAll(argument.substr(2, end - 2), {{"-", "_"}}) +
         argument.substr(end);
}

// Appends an argument; "--name=" as two, since CLI11 takes what follows it for its value.
void AppendArgument(std::string argument, std::vector<std::string>& arguments) {
  const bool empty_value = absl::StartsWith(argument, "--") && absl::EndsWith(argument, "=");
  if (empty_value) argument.pop_back();
  arguments.push_back(std::move(argument));
  if (empty_value) arguments.push_back("");
}

// The value of `--name VALUE` or `--name=VALUE`, or "".
std::string ValueOf(const std::vector<std::string>& arguments, const std::string& name) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view rest = arguments[i];
    if (!absl::ConsumePrefix(&rest, name)) continue;
    if (absl::ConsumePrefix(&rest, "=")) return std::string(rest);
    if (rest.empty() && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

// The sub-command that the arguments name, and the place of the first argument behind its name.
std::pair<const CLI::App*, size_t> FindCommand(const CLI::App& app,
                                               const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  size_t i = 0;
  while (i < arguments.size()) {
    const std::vector<const CLI::App*> named = command->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->check_name(arguments[i]); });
    if (!named.empty()) {
      command = named[0];
      ++i;
      continue;
    }
    // An option before the sub-command, such as `--threads 2`, with its value if that is apart.
    const CLI::Option* option = command->get_option_no_throw(arguments[i]);
    if (command != &app || option == nullptr) break;
    i += option->get_items_expected() > 0 ? 2 : 1;
  }
  return {command, std::min(i, arguments.size())};
}

// An error when what stands where a sub-command belongs is none.
absl::Status CheckCommand(const CLI::App& command, const std::vector<std::string>& arguments,
                          size_t begin) {
  std::vector<std::string> names;
  for (const CLI::App* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(known->get_name());
  }
  if (names.empty() || begin == arguments.size() || absl::StartsWith(arguments[begin], "-")) {
    return absl::OkStatus();
  }
  const std::string nearest = Nearest(arguments[begin], names);
  return absl::InvalidArgumentError(
      absl::StrCat(command.get_name(), " has no command '", arguments[begin], "'; ",
                   nearest.empty() ? absl::StrCat("it has ", absl::StrJoin(names, ", "))
                                   : absl::StrCat("did you mean ", nearest, "?")));
}

// The settings of a file as arguments for `app`.
absl::StatusOr<std::vector<std::string>> ReadSettings(const CLI::App& app,
                                                      const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) {
    return absl::NotFoundError(absl::StrCat(path, ": no such settings file"));
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  std::vector<std::string> arguments;
  for (const CLI::ConfigItem& item : items) {
    const std::string name = item.fullname();
    if (app.get_option_no_throw("--" + name) == nullptr) return UnknownOption(app, name, path);
    if (item.inputs.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", name, " must have one value"));
    }
    AppendArgument(absl::StrCat("--", name, "=", item.inputs[0]), arguments);
  }
  return arguments;
}

}  // namespace

Command::Command(CLI::App& parent, const std::string& name, const std::string& description,
                 const std::string& example)
    : app_(parent.add_subcommand(name, description)) {
  app_->allow_extras();
  app_->footer("Example:\n  " + example);
}

void Command::AddDevice(Device& field) {
  device_ = &field;
  app_->add_option("--device", device_name_,
                   "Where to compute: auto (the first GPU if there is one), cpu, cuda or cuda:1, …")
      ->capture_default_str()
      ->multi_option_policy(kLastWins);
}

absl::Status Command::Run() const {
  if (device_ != nullptr) {
    TOST_ASSIGN_OR_RETURN(*device_, train::UseDevice(device_name_, CudaBackend()));
  }
  return run_();
}

std::string Command::ToToml(const std::string& value) {
  const char quote = absl::StrContains(value, "\"") ? '\'' : '"';
  return std::string(1, quote) + value + std::string(1, quote);
}

std::string Command::Settings() const {
  std::string text = absl::StrCat("# tost ", app_->get_parent()->get_name(), " ", app_->get_name(),
                                  ": the settings of this run, for --config\n");
  for (const Setting& setting : settings_) {
    absl::StrAppend(&text, setting.name, " = ", setting.value(), "\n");
  }
  return text;
}

absl::Status UnknownOption(const CLI::App& app, const std::string& name, const std::string& where) {
  const std::string nearest = Nearest(name, OptionNames(app));
  return absl::InvalidArgumentError(absl::StrCat(
      where.empty() ? "unknown option --" : absl::StrCat(where, ": unknown key "), name,
      nearest.empty() ? absl::StrCat("; see tost ", app.get_name(), " --help")
                      : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::StatusOr<std::vector<std::string>> ExpandArguments(const CLI::App& app, int argc,
                                                         const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) AppendArgument(WithUnderscores(argv[i]), arguments);

  const auto [command, begin] = FindCommand(app, arguments);
  TOST_RETURN_IF_ERROR(CheckCommand(*command, arguments, begin));
  std::vector<std::string> settings;
  for (const auto& [option, suffix] :
       {std::pair("--resume", "/config.toml"), std::pair("--config", "")}) {
    const std::string value = ValueOf(arguments, option);
    if (value.empty() || command->get_option_no_throw(option) == nullptr) continue;
    TOST_ASSIGN_OR_RETURN(const std::vector<std::string> more,
                          ReadSettings(*command, value + suffix));
    settings.insert(settings.end(), more.begin(), more.end());
  }
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(begin), settings.begin(),
                   settings.end());
  return arguments;
}

}  // namespace tost
