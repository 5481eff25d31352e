#include "autograd/base/errors.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tost {
namespace {

FailureHook failure_hook = nullptr;
std::string& FailureReport() {
  static auto* report = new std::string("the command you ran");
  return *report;
}
thread_local const char* running_op = nullptr;

[[noreturn]] void Fail(const std::string& message) {
  const std::string op =
      running_op == nullptr ? "" : absl::StrCat(" (while running ", running_op, ")");
  const std::string line = absl::StrCat("internal error: ", message, op);
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fprintf(stderr, "This is a defect of tost; please report it with: %s\n",
               FailureReport().c_str());
  if (failure_hook != nullptr) failure_hook(line.c_str());
  std::abort();
}

}  // namespace

void SetFailureHook(FailureHook hook) { failure_hook = hook; }

void EndProcess(const std::string& message) {
  const std::string line = absl::StrCat("tost: ", message);
  std::fprintf(stderr, "%s\n", line.c_str());
  if (failure_hook != nullptr) failure_hook(line.c_str());
  std::_Exit(1);  // other threads are at work; nothing of theirs is taken down under them
}

void SetFailureReport(std::string report) { FailureReport() = std::move(report); }

OpScope::OpScope(const char* name) : outer_(running_op) { running_op = name; }
OpScope::~OpScope() { running_op = outer_; }

namespace internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  message_ << file << ":" << line << ": " << condition << ": ";
}

CheckFailure::~CheckFailure() { Fail(message_.str()); }

void FailStatus(const char* file, int line, const absl::Status& status) {
  Fail(std::string(file) + ":" + std::to_string(line) + ": " + std::string(status.message()));
}

}  // namespace internal
}  // namespace tost
