// Messages for people, one line each, on standard error. Numbers for machines go to metrics.jsonl.
#ifndef TOST_AUTOGRAD_BASE_LOG_H_
#define TOST_AUTOGRAD_BASE_LOG_H_

#include "absl/strings/string_view.h"

namespace tost {

// Prints `[12:34:56] message`, from rank 0 only.
void LogInfo(absl::string_view message);

// Prints `[12:34:56] warning: message`, from every rank, with the rank when there are several.
void LogWarning(absl::string_view message);

// Tells the log which process of how many this is; until then it is the only one.
void SetLogRank(int rank, int size);

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_LOG_H_
