#include "router/route/pulls.h"

#include <algorithm>

namespace roost::router {

Pulls::Pulls(const RouteQuery& query, const FleetView& fleet) : query_(query), fleet_(fleet), speed_(fleet.speed()) {
  if (query.transfers == nullptr || query.prompt_token_count == 0) return;
  if (!query.transfers->any() || !speed_.is_known()) return;
  for (const WorkerMatch& match : query.matches) {
    const std::uint32_t held = match.block_count - match.pending_block_count;
    if (held == 0 || !query.transfers->Serves(match.worker)) continue;
    sources_.push_back({match.worker, held, query.transfers->QueuedOut(match.worker)});
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

void Pulls::Improve(Candidate& candidate) {
  const WorkerView& worker = *fleet_.Find(candidate.slot);
  PromptOnWorker prompt = PromptOn(query_, candidate.slot);
  const std::uint32_t usable =
      std::min<std::uint32_t>((query_.prompt_token_count - 1) / worker.block_tokens, wire::WireLimits::kMaxHeldHashes);
  // What others fetch for it need not be fetched once more; what it computes must.
  const bool is_coming = prompt.pending_seconds > 0;
  const std::uint32_t first = prompt.matched_block_count - (is_coming ? 0 : prompt.pending_block_count);
  std::size_t compared = 0;
  for (const Source& source : sources_) {
    const std::uint32_t end = std::min(source.block_count, usable);
    if (end <= prompt.matched_block_count || compared == kMaxSources) return;
    const std::optional<TransferOffer> offer = query_.transfers->Offer({.from = source.slot, .to = candidate.slot},
                                                                       end - first, query_.now.value_or(Instant{}));
    if (!offer.has_value()) continue;
    ++compared;
    prompt.pull = {.source = source.slot, .first_block = first, .block_count = end - first, .price = {}};
    if (offer->hope.has_value()) {
      prompt.pull->price = *offer->hope;
      Hope(PredictCost(prompt, worker, speed_, query_.now));
    }
    if (!offer->price.has_value()) continue;
    prompt.pull->price = *offer->price;
    const Candidate pulling = PredictCost(prompt, worker, speed_, query_.now);
    if (pulling.cost_seconds() < candidate.cost_seconds()) candidate = pulling;
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
