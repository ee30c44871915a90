// `roostctl cordon`, `roostctl uncordon` and `roostctl drain`: takes a worker out of service for all routers, and puts
// it back.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

enum class CordonVerb { kCordon, kUncordon, kDrain };

struct CordonOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string worker;
  double wait_seconds = 0;  // of a drain: for the worker's requests to end
};

// A worker's answer.
struct CordonReport {
  std::string worker;
  bool is_cordoned = false;
  bool is_idle = false;
  std::uint64_t running_requests = 0;  // of all routers
  std::uint64_t waiting_requests = 0;
};
// kUnavailable, with the reason, when the worker has not done it; kDataLoss when it is no such answer.
[[nodiscard]] Result<CordonReport> ReadCordonAnswer(std::string_view answer_json);

// "worker-a is cordoned: 2 requests run there, 1 waits", and so on.
[[nodiscard]] std::string FormatCordonReport(const CordonReport& report);

// Asks the router and prints. A drain prints how many requests are left whenever that changes, on `err`. Returns the
// exit code: 0 when the worker has done it; of a drain with a wait, when no request is left there.
int RunCordon(CordonVerb verb, const CordonOptions& options, std::ostream& out, std::ostream& err);

extern const Command kCordonCommand;
extern const Command kUncordonCommand;
extern const Command kDrainCommand;

}  // namespace roost::roostctl
