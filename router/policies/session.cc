// session: all requests of a conversation go to the worker to which consistent hashing maps their session, regardless
// of the load, as in the session router of vLLM's production-stack. Requests without a session are hashed by their
// prompt_cache_key, and those without one by their first four blocks, which approximates a session, because turns of a
// chat begin with the same text. Requests without a full block go to the worker with the fewest requests.
//
// No parameters except those of the ring; see hash_ring.h.
#include "router/policies/baselines.h"
#include "router/policies/hash_ring.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

class Session final : public ScanningPolicy {
 public:
  explicit Session(std::uint64_t seed) : ScanningPolicy("session", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    if (query.session_hash != 0) return {Home(Mix64(query.session_hash), prospects), DecisionReason::kSession};
    if (query.cache_key_hash != 0) return {Home(Mix64(query.cache_key_hash), prospects), DecisionReason::kHash};
    if (query.block_hashes.empty()) return {LeastInFlight(prospects), DecisionReason::kMinLoad};
    return {Home(HashRing::KeyOf(query.block_hashes), prospects), DecisionReason::kHash};
  }

 private:
  std::size_t Home(std::uint64_t key, std::span<const Prospect> prospects) {
    for (const Prospect& prospect : prospects) ring_.Grow(prospect.worker->slot.value() + 1);
    std::size_t home = 0;
    ring_.Walk(key, [&](WorkerSlot slot) {
      const auto found = std::find_if(prospects.begin(), prospects.end(),
                                      [slot](const Prospect& prospect) { return prospect.worker->slot == slot; });
      if (found == prospects.end()) return true;
      home = static_cast<std::size_t>(found - prospects.begin());
      return false;
    });
    return home;
  }

  HashRing ring_;
};

}  // namespace

std::unique_ptr<Policy> MakeSession(std::uint64_t seed) { return std::make_unique<Session>(seed); }

}  // namespace roost::router
