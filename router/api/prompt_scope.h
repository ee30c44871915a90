// The scope of a prompt's blocks: their tenant, and the prefixes that tenants share.
#pragma once

#include <memory>
#include <string>

namespace roost::router {

class SharedPrefixes;

struct PromptScope {
  std::string tenant;                      // of the request's key; empty: no tenant in particular
  std::shared_ptr<SharedPrefixes> shared;  // null: tenants share nothing
};

}  // namespace roost::router
