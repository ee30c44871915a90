#include "common/base/throughput.h"

#include <algorithm>

#include "common/base/log.h"

namespace roost {

void LogThroughput(const Throughput& throughput, Duration time) {
  if (throughput.ended == 0 && throughput.active == 0) return;
  const double seconds = std::max(ToSeconds(time), 1e-3);
  const auto rate = [seconds](std::uint64_t count) { return static_cast<double>(count) / seconds; };
  const double hits = static_cast<double>(throughput.cached_tokens) /
                      static_cast<double>(std::max<std::uint64_t>(throughput.prompt_tokens, 1));
  LogInfo("throughput", {{"requests_per_second", rate(throughput.ended)},
                         {"failed", throughput.failed},
                         {"active", throughput.active},
                         {"prompt_tokens_per_second", rate(throughput.prompt_tokens)},
                         {"cached_percent", 100 * hits},
                         {"output_tokens_per_second", rate(throughput.output_tokens)}});
}

}  // namespace roost
