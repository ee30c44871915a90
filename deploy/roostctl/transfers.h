// `roostctl transfers`: the pairs of workers between which blocks travel, how fast, and which of them fail.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct TransfersOptions {
  RouterAccess admin{kDefaultAdminUrl};
  bool json = false;  // the router's answer as it is
};

// "1.8 GB/s".
[[nodiscard]] std::string RateText(double bytes_per_second);

// Formats the answer of GET /admin/v1/transfers. kDataLoss when it is not such an answer.
[[nodiscard]] Result<std::string> FormatTransfers(std::string_view transfers_json);

// Asks the router and prints. Returns the exit code: 0 when it answered.
int RunTransfers(const TransfersOptions& options, std::ostream& out, std::ostream& err);

extern const Command kTransfersCommand;

}  // namespace roost::roostctl
