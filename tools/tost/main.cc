// tost: one binary from raw data to a trained, evaluated and sampled model.
//
// Exit codes: 0 done; 1 the work failed; 2 the command line or a settings file is wrong;
// 128 + n a run was stopped by signal n after saving.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "autograd/base/errors.h"
#include "autograd/base/parallel.h"
#include "tools/tost/command_line.h"
#include "tools/tost/vector_instructions.h"
#include "trainers/interrupt.h"

namespace tost {
namespace {

constexpr int kUsageError = 2;

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "tost: %s\n", std::string(status.message()).c_str());
  return code;
}

int ExitCodeOf(const absl::Status& status) {
  if (absl::IsCancelled(status)) return 128 + train::PendingInterrupt();
  return absl::IsInvalidArgument(status) ? kUsageError : 1;
}

// CLI11 ends parsing by throwing; what it threw ends here as an exit code.
int Parse(CLI::App& app, std::vector<std::string> arguments, bool& done) {
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
    done = false;
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(error.what(), "; see tost --help")),
                kUsageError);
  }
}

// The build and the command, for reports of our own defects.
std::string Report(int argc, char** argv) {
  std::string report = absl::StrCat("tost ", TOST_VERSION, " (", TOST_REVISION, "),");
  for (int i = 0; i < argc; ++i) absl::StrAppend(&report, " ", argv[i]);
  return report;
}

// A thread that has nothing to do waits for its next part by spinning, then sleeps. libgomp spins
// for milliseconds unless told otherwise, which steals the core from whoever would have work for
// it: a training run beside another program slowed down tenfold. The setting is read when the
// library is loaded, so the program starts itself once more with it.
void SpinBriefly(char** argv) {
  constexpr char kSpins[] = "10000";  // some 20 µs
  if (!HasThreadPool()) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0) != 0) return;
  execv("/proc/self/exe", argv);
  // Where that is not allowed, this process goes on as it is.
}

int Main(int argc, char** argv) {
  if (!CpuHasVectorInstructions()) {
    return Fail(absl::UnavailableError(absl::StrCat(
                    "this program was built for ", VectorInstructions(),
                    ", which this CPU lacks; build it here, or with -DTOST_MARCH=x86-64-v3")),
                1);
  }
  SpinBriefly(argv);
  train::WaitForInterrupts();
  SetFailureReport(Report(argc, argv));
  CLI::App app("Token Statistics Transformers: prepare, train, evaluate, sample", "tost");
  app.require_subcommand(1);
  app.fallthrough(false);
  int threads = 0;
  app.add_option("--threads", threads, "Threads to compute with; 0 is one per core")
      ->check(CLI::Range(0, 1024));
  Commands commands;
  AddPrepareCommands(app, commands);
  AddDataCommands(app, commands);
  AddTrainCommands(app, commands);
  AddEvaluateCommand(app, commands);
  AddPredictCommand(app, commands);
  AddSampleCommand(app, commands);
  AddImportCommand(app, commands);
  AddExportCommand(app, commands);
  AddInspectCommands(app, commands);
  AddBenchCommands(app, commands);
  AddInfoCommand(app, commands);

  auto arguments = ExpandArguments(app, argc, argv);
  if (!arguments.ok()) return Fail(arguments.status(), kUsageError);
  bool done = true;
  const int parsed = Parse(app, *std::move(arguments), done);
  if (done) return parsed;
  if (threads > 0) SetThreadCount(threads);
  for (const Command& command : commands) {
    if (!command.app()->parsed()) continue;
    const std::vector<std::string> extras = command.app()->remaining();
    if (!extras.empty()) {
      const std::string name =
          extras[0].substr(std::min(extras[0].find_first_not_of('-'), extras[0].size()));
      return Fail(UnknownOption(*command.app(), name.substr(0, name.find('=')), ""), kUsageError);
    }
    const absl::Status status = command.Run();
    return status.ok() ? 0 : Fail(status, ExitCodeOf(status));
  }
  return 0;
}

}  // namespace
}  // namespace tost

int main(int argc, char** argv) { return tost::Main(argc, argv); }
