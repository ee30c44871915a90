#include "router/route/pulls.h"

#include <algorithm>
#include <limits>

#include "router/route/cache_aware.h"

namespace roost::router {

Pulls::Pulls(const RouteQuery& query, const FleetView& fleet) : query_(query), fleet_(fleet), speed_(fleet.speed()) {
  if (query.transfers == nullptr || query.prompt_token_count == 0) return;
  if (!query.transfers->any() || !speed_.is_known()) return;
  sources_.reserve(kMaxListed);
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();  // of those so far
  for (const WorkerMatch& match : query.matches) {
    if (sources_.size() >= kMaxListed && match.block_count < least) break;  // as all that follow
    const std::uint32_t held = match.block_count - match.pending_block_count;
    if (held == 0 || !query.transfers->Serves(match.worker)) continue;
    sources_.push_back({match.worker, held, query.transfers->QueuedOut(match.worker)});
    least = std::min(least, held);
  }
  const auto goes_before = [](const Source& a, const Source& b) {
    if (a.block_count != b.block_count) return a.block_count > b.block_count;
    if (a.queued_bytes != b.queued_bytes) return a.queued_bytes < b.queued_bytes;
    return a.slot < b.slot;
  };
  const std::size_t listed = std::min(kMaxListed, sources_.size());
  std::partial_sort(sources_.begin(), sources_.begin() + static_cast<std::ptrdiff_t>(listed), sources_.end(),
                    goes_before);
  sources_.resize(listed);
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

double Pulls::LeastCost(PromptOnWorker prompt, const WorkerView& worker, std::uint32_t end) const {
  prompt.matched_block_count = end;
  prompt.pending_block_count = 0;
  prompt.pending_seconds = 0;
  return PredictCost(prompt, worker, speed_, query_.now).cost_seconds();
}

void Pulls::Improve(Candidate& candidate, double bound) {
  const WorkerView& worker = *fleet_.Find(candidate.slot);
  PromptOnWorker prompt = PromptOn(query_, candidate.slot);
  const std::uint32_t usable =
      std::min<std::uint32_t>((query_.prompt_token_count - 1) / worker.block_tokens, wire::WireLimits::kMaxHeldHashes);
  // Blocks on their way to it need not be fetched once more; those that it computes must.
  const bool is_coming = prompt.pending_seconds > 0;
  const std::uint32_t first = prompt.matched_block_count - (is_coming ? 0 : prompt.pending_block_count);
  const std::uint32_t deepest = std::min(sources_.front().block_count, usable);
  if (deepest <= prompt.matched_block_count || LeastCost(prompt, worker, deepest) > bound) return;
  std::size_t compared = 0;
  for (const Source& source : sources_) {
    const std::uint32_t end = std::min(source.block_count, usable);
    if (end <= prompt.matched_block_count || compared == kMaxSources) return;
    const std::optional<TransferOffer> offer = query_.transfers->Offer({.from = source.slot, .to = candidate.slot},
                                                                       end - first, query_.now.value_or(Instant{}));
    if (!offer.has_value()) continue;
    ++compared;
    prompt.pull = {.source = source.slot, .first_block = first, .block_count = end - first, .price = {}};
    prompt.pull->price = offer->price.has_value() ? *offer->price : *offer->hope;
    Candidate pulling = PredictCost(prompt, worker, speed_, query_.now);
    if (offer->price.has_value() && pulling.cost_seconds() < candidate.cost_seconds()) candidate = pulling;
    const bool is_hopeful = offer->hope.has_value() && offer->hope->seconds <= prompt.pull->price.seconds;
    if (!is_hopeful) continue;
    // The same at a lower price.
    pulling.transfer_seconds = std::max(prompt.pending_seconds, offer->hope->seconds);
    Hope(pulling);
  }
}

void Pulls::Hope(const Candidate& pulling) {
  const double cost = pulling.cost_seconds();
  if (hope_.has_value() && hope_->cost_seconds <= cost) return;
  const PrefixPull& pull = *pulling.pull;
  hope_ = {.pair = {.ends = {.from = pull.source, .to = pulling.slot},
                    .first_block = pull.first_block,
                    .block_count = std::min(pull.block_count, query_.transfers->BlocksToMeasure(pull.source))},
           .cost_seconds = cost};
}

}  // namespace roost::router
