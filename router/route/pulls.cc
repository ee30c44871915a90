#include "router/route/pulls.h"

#include <algorithm>
#include <limits>

#include "router/route/cache_aware.h"

namespace roost::router {

Sources::Sources(std::span<const WorkerMatch> matches, const Transfers& transfers) : transfers_(&transfers) {
  listed_.reserve(kMaxListed);
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();  // of those so far
  for (const WorkerMatch& match : matches) {
    if (listed_.size() >= kMaxListed && match.block_count < least) break;  // as all that follow
    const std::uint32_t held = match.block_count - match.pending_block_count;
    if (held == 0 || !transfers.Serves(match.worker)) continue;
    listed_.push_back({match.worker, held, transfers.QueuedOut(match.worker)});
    least = std::min(least, held);
  }
  const auto goes_before = [](const Listed& a, const Listed& b) {
    if (a.block_count != b.block_count) return a.block_count > b.block_count;
    if (a.queued_bytes != b.queued_bytes) return a.queued_bytes < b.queued_bytes;
    return a.slot < b.slot;
  };
  const std::size_t listed = std::min(kMaxListed, listed_.size());
  std::partial_sort(listed_.begin(), listed_.begin() + static_cast<std::ptrdiff_t>(listed), listed_.end(), goes_before);
  listed_.resize(listed);
}

namespace {

// Blocks on their way to it need not be fetched once more; those that it computes must.
std::uint32_t FirstToFetch(const PromptOnWorker& prompt) {
  const bool is_coming = prompt.pending_seconds > 0;
  return prompt.matched_block_count - (is_coming ? 0 : prompt.pending_block_count);
}

}  // namespace

void ConsiderRestore(const RouteQuery& query, const WorkerView& worker, const FleetSpeed& speed, Candidate& candidate) {
  if (worker.disk_bytes_per_second <= 0 || query.prompt_token_count == 0 || !speed.is_known()) return;
  const std::uint32_t usable = (query.prompt_token_count - 1) / worker.block_tokens;
  const std::uint32_t end = std::min(MatchOf(query, DiskOf(worker.slot)).block_count, usable);
  PromptOnWorker prompt = PromptOn(query, worker.slot);
  if (end <= prompt.matched_block_count) return;
  const std::uint32_t first = FirstToFetch(prompt);
  const double bytes = worker.disk_block_bytes * (end - first);
  prompt.pull = {.source = worker.slot,
                 .first_block = first,
                 .block_count = end - first,
                 .price = {.seconds = (worker.restoring_bytes + bytes) / worker.disk_bytes_per_second, .bytes = bytes}};
  const Candidate restored = PredictCost(prompt, worker, speed, query.now);
  if (restored.cost_seconds() < candidate.cost_seconds()) candidate = restored;
  candidate.disk_tokens = (end - prompt.matched_block_count) * worker.block_tokens;
}

Pulls::Pulls(const RouteQuery& query, const FleetView& fleet) : query_(query), fleet_(fleet), speed_(fleet.speed()) {
  if (query.transfers == nullptr || query.prompt_token_count == 0) return;
  if (query.transfers->any() && speed_.is_known()) sources_ = Sources(query.matches, *query.transfers);
}

void Pulls::Improve(std::vector<Candidate>& candidates) {
  double cheapest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) cheapest = std::min(cheapest, candidate.cost_seconds());
  // The least loaded come last, and gain the most.
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    Improve(*candidate, cheapest + std::min(kTieSeconds, kTieShare * cheapest));
    cheapest = std::min(cheapest, candidate->cost_seconds());
  }
}

void Pulls::Improve(Candidate& candidate, double bound) {
  const WorkerView& worker = *fleet_.Find(candidate.slot);
  PromptOnWorker prompt = PromptOn(query_, candidate.slot);
  const std::uint32_t usable =
      std::min<std::uint32_t>((query_.prompt_token_count - 1) / worker.block_tokens, wire::WireLimits::kMaxHeldHashes);
  const std::uint32_t first = FirstToFetch(prompt);
  const std::uint32_t deepest = std::min(sources_.deepest(), usable);
  if (deepest <= prompt.matched_block_count) return;
  const WorkerPrices prices(prompt, worker, speed_, query_.now);
  // No pull costs less than having all that the deepest source has.
  const CostTerms with_most = prices.TermsWith({.tokens = deepest * worker.block_tokens});
  if (with_most.cost_seconds() > bound) return;
  const auto cost_of = [&](const PrefixPull& pull, double least) {
    // A longer prompt waits for more, so none waits less than the one that has most.
    const double wait = std::max(with_most.pace * with_most.queue_seconds, pull.price.seconds);
    if (wait >= least) return wait;
    const std::uint32_t tokens = pull.end_block() * worker.block_tokens;
    return prices
        .TermsWith({.tokens = tokens,
                    .displacing_tokens = tokens - candidate.matched_tokens,
                    .transfer_seconds = std::max(prompt.pending_seconds, pull.price.seconds)})
        .cost_seconds();
  };
  prompt.pull =
      sources_.BestSource({.by = candidate.slot, .held = prompt.matched_block_count, .first = first, .end = usable},
                          query_.now.value_or(Instant{}), candidate.cost_seconds(), cost_of);
  if (prompt.pull.has_value()) candidate = prices.With(prompt);
}

}  // namespace roost::router
