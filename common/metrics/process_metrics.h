// The metrics that every daemon exports about itself: its build, and the resources that the process uses.
#pragma once

#include <optional>
#include <string_view>

#include "common/metrics/registry.h"

namespace roost::metrics {

struct ProcessUse {
  double cpu_seconds = 0;
  double start_unix_seconds = 0;
  double resident_bytes = 0;
  double thread_count = 0;
  double open_fd_count = 0;
  double max_fd_count = 0;
};

// Reads the use of this process from /proc. Nothing where that can not be read. O(open file descriptors).
[[nodiscard]] std::optional<ProcessUse> ReadProcessUse();

struct Build {
  std::string_view version;
  std::string_view revision;  // may be empty
};

// Exports roost_build_info and process_*, which are up to date whenever the registry is read. Call it once.
void ExportProcess(Registry& registry, const Build& build);

}  // namespace roost::metrics
