#include "common/base/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/log.h"
#include "common/base/log_queue.h"

namespace roost::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  FlushLog();
  WriteWithin(
      STDERR_FILENO,
      fmt::format("roost: check failed at {}:{}: {}{}{}\n", file, line, condition, detail.empty() ? "" : ": ", detail),
      LogQueue::kFlushTime);
  std::abort();
}

}  // namespace roost::internal
