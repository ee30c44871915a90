// `roostctl explain`: why a request went to its worker, for people.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

// The columns of the table of candidates: the few that decide most often, or every term of the cost.
enum class ExplainColumns : std::uint8_t { kBrief, kAll };

struct ExplainOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string request_id;   // the answer's id or its x-request-id; empty: the last decisions
  std::uint32_t limit = 1;  // of the last decisions
  ExplainColumns columns = ExplainColumns::kBrief;
  bool json = false;  // the router's answer as it is
};

// The path and query of the request to the router.
[[nodiscard]] std::string ExplainPath(const ExplainOptions& options);

// Formats the answer of GET /admin/v1/decisions, with a table of candidates for each decision. kDataLoss when it is not
// such an answer.
[[nodiscard]] Result<std::string> FormatDecisions(std::string_view decisions_json,
                                                  ExplainColumns columns = ExplainColumns::kBrief);

// Asks the router and prints. Returns the exit code: 0 when the router knew the request.
int RunExplain(const ExplainOptions& options, std::ostream& out, std::ostream& err);

extern const Command kExplainCommand;

}  // namespace roost::roostctl
