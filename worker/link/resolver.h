// Resolves router names to addresses, repeatedly: a router that is added to DNS gets a link, one that is removed loses
// it. Resolving may take seconds, so it has its own thread.
//
// A name that can not be resolved keeps its last addresses, so a DNS failure takes no link down. If a name has IPv4 and
// IPv6 addresses, only the IPv4 ones are used, because both lead to the same router.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/wire/endpoint.h"
#include "common/wire/socket.h"

namespace roost::worker {

using EndpointSet = std::set<std::string>;  // tcp://NUMERIC:PORT

// Asks the system's resolver. kUnavailable when it has no answer.
[[nodiscard]] Result<EndpointSet> ResolveEndpoint(const wire::Endpoint& name);

class Resolver {
 public:
  using Lookup = std::function<Result<EndpointSet>(const wire::Endpoint&)>;

  struct Options {
    std::vector<wire::Endpoint> names;
    std::chrono::milliseconds interval{5000};
    Lookup lookup = ResolveEndpoint;
  };

  // `waker` outlives it; it is rung when the set changed.
  Resolver(Options options, const wire::Waker& waker);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  void Start();
  void Stop();

  // Any thread. The new set after a change, once.
  [[nodiscard]] std::optional<EndpointSet> TakeChange();

 private:
  void Run();
  void Ask();

  const Options options_;
  const wire::Waker& waker_;
  std::thread thread_;

  // Used by the resolver thread only: the last answer for each name.
  std::vector<EndpointSet> answers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;              // guarded by mutex_
  EndpointSet known_;                  // guarded by mutex_
  std::optional<EndpointSet> change_;  // guarded by mutex_
};

}  // namespace roost::worker
