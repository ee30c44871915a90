// `roostctl top`: a router and its workers as they are now, drawn anew each second.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct TopOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string metrics_url = "http://127.0.0.1:8002";  // for percentiles; they are "-" where it does not answer
  double interval_seconds = 1;
  bool once = false;         // one frame without colours and keys
  bool no_prefixes = false;  // does not ask workers for them
};

// Without `once`, needs a terminal. Returns the exit code: 0; 1 when the router does not answer (with `once`; without,
// it is asked again); 64 without a terminal.
int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err);

extern const Command kTopCommand;

}  // namespace roost::roostctl
