// session: all requests of a conversation go to one worker, where consistent hashing puts its session, whatever the
// load; as the session router of vLLM's production-stack. Requests that name no session are hashed by their first four
// blocks, which approximates one: turns of a chat begin alike. Those without a full block go to the fewest requests.
//
// No parameters but the ring's, see hash_ring.h.
#include "router/policies/baselines.h"
#include "router/policies/hash_ring.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr std::size_t kKeyBlocks = 4;

class Session final : public ScanningPolicy {
 public:
  explicit Session(std::uint64_t seed) : ScanningPolicy("session", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    if (query.session_hash != 0) return {Home(Mix64(query.session_hash), prospects), DecisionReason::kSession};
    if (query.block_hashes.empty()) return {LeastInFlight(prospects), DecisionReason::kLeastLoad};
    return {Home(HashRing::KeyOf(query.block_hashes, kKeyBlocks), prospects), DecisionReason::kHash};
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
