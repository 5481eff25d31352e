#include "tests/simt/report.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "tests/simt/emulator.h"

namespace tost::simt {
namespace {

bool keep_defects = false;
std::string& kept_defect = *new std::string;

// The name without its return type and parameters: what is outside of <…>, up to the first "(".
std::string WithoutSignature(const std::string& demangled) {
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth > 0) continue;
    if (c == ' ') begin = i + 1;
    if (c == '(') return demangled.substr(begin, i - begin);
  }
  return demangled.substr(begin);
}

}  // namespace

std::string MangledName(const void* kernel) {
  Dl_info info{};
  return dladdr(kernel, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname : "";
}

std::string KernelName(const void* kernel) {
  const std::string mangled = MangledName(kernel);
  if (mangled.empty()) return "kernel";
  int status = 1;
  char* demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? WithoutSignature(demangled) : mangled;
  std::free(demangled);
  return name;
}

std::string SourceLine(const void* instruction) {
  Dl_info info{};
  if (instruction == nullptr || dladdr(instruction, &info) == 0) return "?";
  // A return address: the call is before it.
  const auto offset =
      reinterpret_cast<uintptr_t>(instruction) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1;
  char text[512];
  std::snprintf(text, sizeof(text), "addr2line -e '%s' -i %#" PRIxPTR " 2>/dev/null",
                info.dli_fname, offset);
  std::string line;
  if (FILE* lines = popen(text, "r"); lines != nullptr) {
    // Innermost first. An access inside of CUDA's or the emulator's own inline functions is
    // attributed to their caller.
    while (std::fgets(text, sizeof(text), lines) != nullptr) {
      line = text;
      if (line.find("/simt/simt.h") == std::string::npos &&
          line.find("/include/cuda") == std::string::npos) {
        break;
      }
    }
    pclose(lines);
  }
  line = line.substr(0, line.find_first_of(" \n"));
  return line.empty() || line[0] == '?' ? "?" : line;
}

void ReportDefect(const std::string& what) {
  if (!keep_defects) {
    std::fprintf(stderr, "simt: %s\n", what.c_str());
    std::abort();
  }
  if (kept_defect.empty()) kept_defect = what;
}

bool DefectIsKept() { return !kept_defect.empty(); }

void KeepDefects() { keep_defects = true; }

std::string TakeDefect() {
  std::string taken;
  taken.swap(kept_defect);
  return taken;
}

}  // namespace tost::simt
