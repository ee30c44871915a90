#include "common/base/core_dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/base/check.h"

namespace roost {

void ForbidCoreDumps() {
  // The limit alone does not count where the kernel pipes dumps to a program, as systemd has it do.
  ROOST_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  ROOST_CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
}

}  // namespace roost
