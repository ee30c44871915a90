// The commands that read GET /admin/v1/workers: `roostctl status`, how a router stands in a line, the workers that it
// knows, as a table, and those that it lost; `roostctl victim`, the worker of each model that costs least to lose.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct StatusOptions {
  RouterAccess admin{kDefaultAdminUrl};
  bool json = false;  // the router's answer as it is
};

// Formats the answer of GET /admin/v1/workers. kDataLoss when it is not such an answer.
[[nodiscard]] Result<std::string> FormatStatus(std::string_view workers_json);

// Asks the router and prints. Returns the exit code: 0 when it answered.
int RunStatus(const StatusOptions& options, std::ostream& out, std::ostream& err);

extern const Command kStatusCommand;

struct VictimOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string model;  // empty: each one
};

// Names the worker of each model, or of `model`, that costs least to lose, and why, from the answer of
// GET /admin/v1/workers; then the others, the cheapest first. kNotFound when there is none: each model, or the one that
// is meant, has at most one ready worker. kDataLoss when it is not such an answer.
[[nodiscard]] Result<std::string> FormatVictims(std::string_view workers_json, std::string_view model);

// Asks the router and prints. Returns the exit code: 0 when it named a worker.
int RunVictim(const VictimOptions& options, std::ostream& out, std::ostream& err);

extern const Command kVictimCommand;

}  // namespace roost::roostctl
