// `roostctl status`: the workers that a router knows, as a table.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/router_access.h"

namespace roost::roostctl {

// Formats the answer of GET /admin/v1/workers. kDataLoss when it is not such an answer.
[[nodiscard]] Result<std::string> FormatStatus(std::string_view workers_json);

// Asks the router and prints. Returns the exit code: 0 when it answered.
int RunStatus(const RouterAccess& admin, std::ostream& out, std::ostream& err);

extern const Command kStatusCommand;

}  // namespace roost::roostctl
