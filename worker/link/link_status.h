// A router's view of this worker, for /ready and for logs.
#pragma once

#include <cstdint>
#include <string>

namespace roost::worker {

enum class LinkStanding : std::uint8_t {
  kConnecting,  // the router has not answered
  kUp,          // the router has accepted the worker
  kRefused,     // the router has answered within the last seconds, and does not take the worker
};

struct RouterStatus {
  std::string router;  // its address
  LinkStanding standing = LinkStanding::kConnecting;
  std::string reason = {};  // of a refusal

  bool operator==(const RouterStatus&) const = default;
};

}  // namespace roost::worker
