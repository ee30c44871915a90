#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace roost::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "roost: check failed at %s:%d: %s%s%s\n", file, line, condition, detail.empty() ? "" : ": ",
               detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace roost::internal
