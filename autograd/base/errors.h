// The two ways in which this code base fails.
//
// A caller that breaks one of our contracts meets TOST_CHECK: one message, the op that was running,
// the failure hook, abort. A world that is not as hoped (missing file, wrong flag) is an
// absl::Status, passed up with the macros at the end of this header and printed by `main`.
#ifndef TOST_AUTOGRAD_BASE_ERRORS_H_
#define TOST_AUTOGRAD_BASE_ERRORS_H_

#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tost {

// Called with the complete message after it has been printed and before the process aborts.
// A group of processes uses it to take its other members down.
using FailureHook = void (*)(const char* message);
void SetFailureHook(FailureHook hook);

// Ends the process with one line on standard error, the failure hook and exit code 1: for a world
// that is not as hoped where no Status can be returned, such as memory that runs out inside an op.
[[noreturn]] void EndProcess(const std::string& message);

// What a report of a failed check should quote: the version and the command. Printed below the
// message.
void SetFailureReport(std::string report);

// Names what runs on this thread while the object lives; a failed check prints the innermost name.
class OpScope {
 public:
  explicit OpScope(const char* name);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  const char* outer_;
};

namespace internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

[[noreturn]] void FailStatus(const char* file, int line, const absl::Status& status);

template <class T>
T ValueOrFail(absl::StatusOr<T> value, const char* file, int line) {
  if (!value.ok()) FailStatus(file, line, value.status());
  return *std::move(value);
}

}  // namespace internal
}  // namespace tost

#define TOST_CHECK(condition)               \
  if (__builtin_expect(!!(condition), 1)) { \
  } else                                    \
    ::tost::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define TOST_CHECK_EQ(a, b) TOST_CHECK((a) == (b)) << (a) << " against " << (b) << ": "
#define TOST_CHECK_LT(a, b) TOST_CHECK((a) < (b)) << (a) << " against " << (b) << ": "
#define TOST_CHECK_LE(a, b) TOST_CHECK((a) <= (b)) << (a) << " against " << (b) << ": "

// The value of a StatusOr whose error would be the caller's mistake.
#define TOST_CHECK_VALUE(expression) ::tost::internal::ValueOrFail((expression), __FILE__, __LINE__)

#define TOST_CHECK_OK(expression)                                     \
  do {                                                                \
    if (absl::Status tost_status = (expression); !tost_status.ok()) { \
      ::tost::internal::FailStatus(__FILE__, __LINE__, tost_status);  \
    }                                                                 \
  } while (false)

#define TOST_RETURN_IF_ERROR(expression)                              \
  do {                                                                \
    if (absl::Status tost_status = (expression); !tost_status.ok()) { \
      return tost_status;                                             \
    }                                                                 \
  } while (false)

// TOST_ASSIGN_OR_RETURN(Checkpoint checkpoint, LoadCheckpoint(path));
#define TOST_ASSIGN_OR_RETURN(declaration, expression) \
  TOST_ASSIGN_OR_RETURN_(TOST_JOIN_(tost_value_, __LINE__), declaration, expression)
#define TOST_ASSIGN_OR_RETURN_(name, declaration, expression) \
  auto name = (expression);                                   \
  if (!name.ok()) return std::move(name).status();            \
  declaration = *std::move(name)
#define TOST_JOIN_(a, b) TOST_JOIN_INNER_(a, b)
#define TOST_JOIN_INNER_(a, b) a##b

#endif  // TOST_AUTOGRAD_BASE_ERRORS_H_
