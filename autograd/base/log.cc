#include "autograd/base/log.h"

#include <cstdio>
#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"

namespace tost {
namespace {

int log_rank = 0;
int log_size = 1;

void Print(absl::string_view kind, absl::string_view message) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char clock[16];
  std::strftime(clock, sizeof(clock), "%H:%M:%S", &local);
  const std::string rank = log_size > 1 ? absl::StrCat(" rank ", log_rank) : std::string();
  const std::string line = absl::StrCat("[", clock, rank, "] ", kind, message, "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace

void LogInfo(absl::string_view message) {
  if (log_rank == 0) Print("", message);
}

void LogWarning(absl::string_view message) { Print("warning: ", message); }

void SetLogRank(int rank, int size) {
  log_rank = rank;
  log_size = size;
}

}  // namespace tost
