// A router of the simulation: the real fleet core and its clients, which check what they see. Every accepted request
// ends once, and its tokens begin like those of any other request with this prompt, whatever happens to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "router/fleet/core/fleet_core.h"

namespace roost::sim {

// Prompt → the longest output that any request with it got.
using Answers = std::map<std::vector<TokenId>, std::vector<TokenId>>;

class SimRouter {
 public:
  using Carry = std::function<void(const std::string& worker_id, const wire::RouterMessage& message)>;

  // The constructor's references outlive it.
  SimRouter(const Clock& clock, Carry carry, Answers& answers, std::uint64_t seed);
  ~SimRouter();

  void Receive(const std::string& worker_id, wire::WorkerMessage message);
  void Tick();

  // False when it is refused.
  bool Submit(std::vector<TokenId> prompt, std::uint32_t max_output_tokens);
  // Cancels a request that was accepted, ended or not. Does nothing if none was accepted.
  void CancelOne(std::uint64_t choice);

  // Orders a worker to hold a prompt's blocks: with a warm-up, which fetches and then computes; or with a Hold of its
  // own for requests, from that source, whose answer is ignored.
  void Warm(std::vector<TokenId> prompt, const std::string& worker, Duration patience);
  void Hold(const std::vector<TokenId>& prompt, const std::string& worker, const std::string& source,
            Duration patience);

  // Orders to erase a prompt from every cache, or everything: all requests are without a tenant.
  void Evict(std::vector<TokenId> prompt);
  void EvictAll();

  // Takes the worker out of service, which hands over, or puts it back.
  void Cordon(const std::string& worker, router::Service service);

  router::FleetCore& core() { return core_; }
  [[nodiscard]] bool is_idle() const {
    return core_.request_count() == 0 && core_.copy_count() == 0 && core_.hold_count() == 0 &&
           core_.handover_count() == 0;
  }
  [[nodiscard]] std::vector<router::WorkerStatus> Workers() { return core_.Workers(clock_.Now()); }
  // True if its index holds exactly `held` for this worker.
  [[nodiscard]] bool ViewIs(const router::WorkerStatus& worker, const std::set<BlockHash>& held) const;

 private:
  class Client;

  void Order(const router::EvictOrder& order);
  void CarryOut();

  const Clock& clock_;
  const Carry carry_;
  Answers& answers_;
  router::FleetMetrics metrics_;
  const std::unique_ptr<router::Policy> policy_;
  router::FleetCore core_;
  std::vector<std::pair<RequestId, std::shared_ptr<Client>>> requests_;
  std::map<std::string, wire::Transfer> transfers_;  // of the workers' last hellos
  std::uint64_t last_hold_ = std::uint64_t{1} << 50U;
};

}  // namespace roost::sim
