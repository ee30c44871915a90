#include "router/route/pulls.h"

#include <algorithm>
#include <limits>

#include "router/route/cache_aware.h"

namespace roost::router {

namespace {

// The least that a candidate costs which fetches blocks. Terms that grow with what it computes are their share of those
// of the candidate that fetches nothing; it waits at least as long as one that has most. This holds because a longer
// prompt waits for more and goes before fewer. It saves the price of a pull that can not be the best.
class LeastCosts {
 public:
  // The candidate's terms as it is, with so many uncached tokens, and with all that it could fetch.
  LeastCosts(const CostTerms& as_it_is, double uncached_tokens, const CostTerms& with_most)
      : uncached_tokens_(uncached_tokens),
        wait_seconds_(with_most.pace * with_most.queue_seconds),
        fixed_(with_most.pace * (with_most.growth_seconds + as_it_is.prefill_seconds * (as_it_is.congestion - 1)) +
               with_most.answer_pace * with_most.answer_seconds),
        growing_(as_it_is.pace * (as_it_is.prefill_seconds + as_it_is.delay_seconds + as_it_is.stall_seconds)),
        decode_(as_it_is.pace * as_it_is.congestion * as_it_is.decode_seconds),
        least_decode_(with_most.pace * with_most.congestion * with_most.decode_seconds) {}

  // With so many uncached tokens, the rest of which come in this time.
  [[nodiscard]] double With(double uncached_tokens, double transfer_seconds) const {
    const double share = uncached_tokens / uncached_tokens_;
    const double sum = std::max(wait_seconds_, transfer_seconds) + fixed_ + share * growing_ +
                       std::max(least_decode_, share * decode_);
    return kRounding * sum;
  }

 private:
  // More than what sums of doubles may differ by.
  static constexpr double kRounding = 1 - 1e-12;

  double uncached_tokens_;
  double wait_seconds_;
  double fixed_;
  double growing_;
  double decode_;
  double least_decode_;
};

}  // namespace

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

void Pulls::Improve(Candidate& candidate, double bound) {
  const WorkerView& worker = *fleet_.Find(candidate.slot);
  PromptOnWorker prompt = PromptOn(query_, candidate.slot);
  const std::uint32_t usable =
      std::min<std::uint32_t>((query_.prompt_token_count - 1) / worker.block_tokens, wire::WireLimits::kMaxHeldHashes);
  // Blocks on their way to it need not be fetched once more; those that it computes must.
  const bool is_coming = prompt.pending_seconds > 0;
  const std::uint32_t first = prompt.matched_block_count - (is_coming ? 0 : prompt.pending_block_count);
  const std::uint32_t deepest = std::min(sources_.front().block_count, usable);
  if (deepest <= prompt.matched_block_count) return;
  const WorkerPrices prices(prompt, worker, speed_, query_.now);
  // No pull costs less than having all that the deepest source has.
  const CostTerms with_most = prices.TermsWith({.tokens = deepest * worker.block_tokens});
  if (with_most.cost_seconds() > bound) return;
  const LeastCosts least_costs(candidate, query_.prompt_token_count - candidate.matched_tokens, with_most);
  double least = candidate.cost_seconds();
  std::optional<PrefixPull> best;
  std::size_t compared = 0;
  for (const Source& source : sources_) {
    const std::uint32_t end = std::min(source.block_count, usable);
    if (end <= prompt.matched_block_count || compared == kMaxSources) break;
    const std::optional<TransferOffer> offer = query_.transfers->Offer({.from = source.slot, .to = candidate.slot},
                                                                       end - first, query_.now.value_or(Instant{}));
    if (!offer.has_value()) continue;
    ++compared;
    const TransferPrice& price = offer->price.has_value() ? *offer->price : *offer->hope;
    const std::uint32_t tokens = end * worker.block_tokens;
    const bool is_hopeful = offer->hope.has_value() && offer->hope->seconds <= price.seconds;
    const double uncached = query_.prompt_token_count - tokens;
    const bool may_win = offer->price.has_value() && least_costs.With(uncached, price.seconds) < least;
    const bool may_be_hope = is_hopeful && IsBetterHope(least_costs.With(uncached, offer->hope->seconds));
    if (!may_win && !may_be_hope) continue;
    CostTerms terms = prices.TermsWith({.tokens = tokens,
                                        .pulled_tokens = tokens - candidate.matched_tokens,
                                        .transfer_seconds = std::max(prompt.pending_seconds, price.seconds)});
    const PrefixPull pull{.source = source.slot, .first_block = first, .block_count = end - first, .price = price};
    if (const double cost = terms.cost_seconds(); offer->price.has_value() && cost < least) {
      least = cost;
      best = pull;
    }
    if (!may_be_hope) continue;
    // The same at a lower price.
    terms.transfer_seconds = std::max(prompt.pending_seconds, offer->hope->seconds);
    Hope(pull, candidate.slot, terms.cost_seconds());
  }
  if (!best.has_value()) return;
  prompt.pull = best;
  candidate = prices.With(prompt);
}

void Pulls::Hope(const PrefixPull& pull, WorkerSlot to, double cost_seconds) {
  if (!IsBetterHope(cost_seconds)) return;
  hope_ = {.pair = {.ends = {.from = pull.source, .to = to},
                    .first_block = pull.first_block,
                    .block_count = std::min(pull.block_count, query_.transfers->BlocksToMeasure(pull.source))},
           .cost_seconds = cost_seconds};
}

}  // namespace roost::router
