// consistent-hash: consistent hashing of a prompt's beginning, with bounded loads (Mirrokni, Thorup, Zadimoghaddam,
// SODA 2018), as in KubeAI's PrefixHash. It walks the ring from the prompt's hash and takes the first worker whose
// requests in flight are at most 1.25 times the mean; both numbers include the new request. If there is none, it takes
// the first worker on the ring. When nothing is in flight, every worker is within the bound.
//
// Defaults as in KubeAI (meanLoadPercentage 125, replication 256), except for the key. KubeAI hashes the first 100
// characters (prefixCharLength), about two blocks of 16 tokens. Here the key is the first four blocks, which
// distinguish conversations far better on traces where all first blocks are the same. Prompts without a full block go
// to the worker with the fewest requests.
#include "router/policies/baselines.h"
#include "router/policies/hash_ring.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr double kLoadFactor = 1.25;

class ConsistentHash final : public ScanningPolicy {
 public:
  explicit ConsistentHash(std::uint64_t seed) : ScanningPolicy("consistent-hash", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    if (query.block_hashes.empty()) return {LeastInFlight(prospects), DecisionReason::kMinLoad};
    const Loads loads = LoadsOf(prospects);
    std::optional<std::size_t> home;
    std::optional<std::size_t> chosen;
    ring_.Walk(HashRing::KeyOf(query.block_hashes), [&](WorkerSlot slot) {
      const std::optional<std::size_t> index = index_by_slot_[slot.value()];
      if (!index.has_value()) return true;
      if (!home.has_value()) home = index;
      if (IsWithinBound(prospects[*index], loads)) chosen = index;
      return !chosen.has_value();
    });
    if (!chosen.has_value() || chosen == home) return {*home, DecisionReason::kHash};
    return {*chosen, DecisionReason::kOverBound};
  }

 private:
  struct Loads {
    std::uint64_t total = 0;
    std::size_t worker_count = 0;
  };

  // The sum of the loads. Also fills index_by_slot_.
  Loads LoadsOf(std::span<const Prospect> prospects) {
    Loads loads{.total = 0, .worker_count = prospects.size()};
    index_by_slot_.assign(index_by_slot_.size(), std::nullopt);
    for (std::size_t i = 0; i < prospects.size(); ++i) {
      const WorkerView& worker = *prospects[i].worker;
      const std::size_t slot = worker.slot.value();
      if (index_by_slot_.size() <= slot) index_by_slot_.resize(slot + 1);
      index_by_slot_[slot] = i;
      loads.total += worker.in_flight_requests;
    }
    ring_.Grow(static_cast<std::uint32_t>(index_by_slot_.size()));
    return loads;
  }

  static bool IsWithinBound(const Prospect& prospect, const Loads& loads) {
    if (loads.total == 0) return true;
    const double mean = static_cast<double>(loads.total + 1) / static_cast<double>(loads.worker_count);
    return static_cast<double>(prospect.worker->in_flight_requests) + 1 <= mean * kLoadFactor;
  }

  HashRing ring_;
  std::vector<std::optional<std::size_t>> index_by_slot_;  // into this call's prospects; one entry for each ring slot
};

}  // namespace

std::unique_ptr<Policy> MakeConsistentHash(std::uint64_t seed) { return std::make_unique<ConsistentHash>(seed); }

}  // namespace roost::router
