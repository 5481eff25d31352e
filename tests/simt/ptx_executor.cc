// Runs kernels from the PTX files in TOST_PTX_FOLDER.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "autograd/base/errors.h"
#include "tests/simt/launch.h"
#include "tests/simt/ptx_program.h"

namespace tost::simt {
namespace {

std::vector<ptx::Module> ReadModules() {
  std::vector<ptx::Module> modules;
  for (const auto& entry : std::filesystem::directory_iterator(TOST_PTX_FOLDER)) {
    if (entry.path().extension() != ".ptx") continue;
    std::ifstream file(entry.path());
    modules.emplace_back(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  TOST_CHECK(!modules.empty()) << "no PTX in " << TOST_PTX_FOLDER;
  return modules;
}

std::shared_ptr<const void> Find(const std::string& mangled_name) {
  static const auto& modules = *new std::vector<ptx::Module>(ReadModules());
  for (const ptx::Module& module : modules) {
    if (module.Has(mangled_name)) return module.Find(mangled_name);
  }
  return nullptr;
}

void RunThread(const void* program, const unsigned char* parameters) {
  ptx::Frame frame(*static_cast<const ptx::Program*>(program), parameters);
  ptx::Run(frame);
}

constexpr PtxExecutor kExecutor{.find = &Find, .run_thread = &RunThread};
[[maybe_unused]] const bool installed = [] {
  ptx_executor = &kExecutor;
  return true;
}();

}  // namespace
}  // namespace tost::simt
