// `roostctl key link`: makes the CURVE key of one end of the link between routers and workers.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "deploy/roostctl/command.h"

namespace roost::roostctl {

struct LinkKeyOptions {
  std::string name = {};
  std::string role = "worker";            // or router: whose key it is
  std::string out = {};                   // file of the secret key; empty: NAME.key
  std::vector<std::string> workers = {};  // names that a worker may have; empty: `name`
  std::vector<std::string> models = {};   // that it may serve; empty: all
};

// Writes the secret key to a file that is not there yet and that no other user may read, and the line for the peers
// file of the other end to `out`. Returns the exit code.
int RunLinkKey(const LinkKeyOptions& options, std::ostream& out, std::ostream& err);

extern const Command kLinkKeyCommand;

}  // namespace roost::roostctl
