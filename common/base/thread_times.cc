#include "common/base/thread_times.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace roost {

std::optional<ThreadTimes> ReadThreadTimes(pid_t thread, const std::filesystem::path& root) {
  std::ifstream file(root / "proc/self/task" / std::to_string(thread) / "schedstat");
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  if (!(file >> ran >> waited) || ran < 0 || waited < 0) return std::nullopt;
  if (ran == 0 && waited == 0) return std::nullopt;  // a kernel that does not count writes zeros
  return ThreadTimes{Duration(ran), Duration(waited)};
}

pid_t ThisThreadId() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

}  // namespace roost
