// `roostctl key new`: makes an API key. `roostctl usage`: what the keys have used.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

// `roostctl key link`: makes the CURVE key of one end of the link between routers and workers.
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

inline constexpr std::uint64_t kMostRetentionSeconds = wire::kMaxKeepMs / 1000;

struct NewKeyOptions {
  std::string name;
  std::string tenant;  // empty: the name
  std::uint32_t max_priority = 50;
  std::uint64_t max_retention_seconds = kMostRetentionSeconds;
  std::vector<std::string> models;        // empty: all
  std::uint64_t requests_per_minute = 0;  // 0: no limit, as for the next two
  std::uint64_t tokens_per_minute = 0;
  double cached_token_weight = 1;
  std::uint64_t max_concurrent_requests = 0;
};

// The key's line for the file goes to `out`, the secret to `err`: so `roostctl key new NAME >> FILE` shows the secret
// once and keeps its hash. Returns the exit code.
int RunNewKey(const NewKeyOptions& options, std::ostream& out, std::ostream& err);

// From the body of /admin/v1/usage.
[[nodiscard]] Result<std::string> FormatUsage(std::string_view usage_json);
int RunUsage(const RouterAccess& admin, std::ostream& out, std::ostream& err);

// `roostctl key`, which has kNewKeyCommand and kLinkKeyCommand.
extern const Command kKeyCommand;
extern const Command kNewKeyCommand;
extern const Command kUsageCommand;

}  // namespace roost::roostctl
