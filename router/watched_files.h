// The files that the router reads again when they change, but for its certificates (common/http/listener_tls.h).
#pragma once

#include <memory>

#include "common/base/reload.h"
#include "common/base/result.h"
#include "router/access/key_ring.h"
#include "router/api/shared_prefixes.h"
#include "router/options.h"

namespace roost::router {

// Each is null where its flag names no file.
struct WatchedFiles {
  std::shared_ptr<KeyRing> api_keys;
  std::shared_ptr<KeyRing> admin_keys;
  std::shared_ptr<SharedPrefixes> shared_prefixes;
};

// Reads them now, and whenever `reloader` finds a change. API keys share `client_memory`. Errors name the file.
[[nodiscard]] Result<WatchedFiles> OpenFiles(const RouterOptions& options, std::shared_ptr<ByteBudget> client_memory,
                                             Reloader& reloader);

}  // namespace roost::router
