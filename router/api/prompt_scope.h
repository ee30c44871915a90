// Whose blocks a prompt's are.
#pragma once

#include <memory>
#include <string>

namespace roost::router {

class SharedPrefixes;

struct PromptScope {
  std::string tenant;                      // of the request's key; empty: nobody in particular
  std::shared_ptr<SharedPrefixes> shared;  // null: tenants share nothing
};

}  // namespace roost::router
