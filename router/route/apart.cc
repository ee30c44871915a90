#include "router/route/apart.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "router/route/candidates.h"

namespace roost::router {
namespace {

// The answer at a worker, and the blocks that go there.
struct Rest {
  PrefixPull follow;
  WorkerSlot decode;
  bool by_connector = false;
  double cost_seconds = std::numeric_limits<double>::infinity();
};

// The last step's blocks begin their way when the prompt is done; before them, what the way takes longer than the
// prompt.
double SecondsBehind(const Candidate& prefill, const TransferPrice& price, const RouteQuery& query,
                     const WorkerView& worker) {
  const std::uint32_t computed = query.prompt_token_count - prefill.matched_tokens;
  const double steps = std::max(1.0, static_cast<double>(computed) / worker.max_batch_tokens);
  return std::max(price.seconds - prefill.ttft_seconds(), price.seconds / steps);
}

// How the blocks come from one worker to the other; empty: they can not.
struct WayOfBlocks {
  TransferPrice price;
  bool by_connector = false;
};
std::optional<WayOfBlocks> WayBetween(const WorkerView& from, const WorkerView& to, std::uint32_t block_count,
                                      const RouteQuery& query) {
  const auto both = [&](wire::Feature feature) {
    return from.features.contains(feature) && to.features.contains(feature);
  };
  if (both(wire::Feature::kConnector)) return WayOfBlocks{{.seconds = to.handover_seconds}, true};
  if (!both(wire::Feature::kFollows) || query.transfers == nullptr) return std::nullopt;
  const auto offer = query.transfers->Offer({.from = from.slot, .to = to.slot}, block_count, *query.now);
  if (!offer.has_value() || offer->is_paused) return std::nullopt;
  return WayOfBlocks{offer->price};
}

// Empty: the blocks can not follow.
std::optional<Rest> RestAt(const Candidate& decode, const Candidate& prefill, const RouteQuery& query,
                           const FleetView& fleet) {
  const WorkerView& from = *fleet.Find(prefill.slot);
  const WorkerView& to = *fleet.Find(decode.slot);
  const PromptOnWorker prompt = PromptOn(query, decode.slot);
  const bool is_coming = prompt.pending_seconds > 0;
  const std::uint32_t first = prompt.matched_block_count - (is_coming ? 0 : prompt.pending_block_count);
  const auto end =
      static_cast<std::uint32_t>(std::min<std::size_t>(query.block_hashes.size(), wire::WireLimits::kMaxHeldHashes));
  if (first >= end) return {};
  const std::optional<WayOfBlocks> way = WayBetween(from, to, end - first, query);
  if (!way.has_value()) return {};
  const double behind = way->by_connector ? way->price.seconds : SecondsBehind(prefill, way->price, query, from);
  return Rest{.follow = {.source = from.slot, .first_block = first, .block_count = end - first, .price = way->price},
              .decode = to.slot,
              .by_connector = way->by_connector,
              .cost_seconds =
                  decode.answer_pace * (decode.answer_seconds + decode.slo_seconds) + decode.token_seconds + behind};
}

}  // namespace

std::string_view NameOf(Together why) {
  switch (why) {
    case Together::kNoPrefillWorker: return "no_prefill_worker";
    case Together::kOneToken: return "one_token";
    case Together::kChoices: return "choices";
    case Together::kCacheOff: return "cache_off";
    case Together::kBegun: return "begun";
    case Together::kUnknownSpeed: return "unknown_speed";
    case Together::kFewBlocks: return "few_blocks";
    case Together::kNoWay: return "no_way";
    case Together::kPrice: return "price";
  }
  return "unknown";
}

std::variant<Apart, Together> ChooseApart(const RouteQuery& query, const FleetView& fleet, const Decision& together) {
  if (!together.in_seconds) return Together::kUnknownSpeed;
  const WorkerView& there = *fleet.Find(together.slot);
  if (query.prompt_token_count - together.matched_tokens < kLeastBlocksApart * there.block_tokens) {
    return Together::kFewBlocks;
  }
  if (!query.now.has_value()) return Together::kNoWay;
  RouteQuery first_token = query;
  first_token.stage = Stage::kFirstToken;
  first_token.answer.own = 1;
  first_token.slo.itl_seconds = 0;
  const std::vector<Candidate> prefills = FindCandidates(first_token, fleet);
  if (prefills.empty()) return Together::kNoPrefillWorker;
  const Candidate& prefill = prefills.front();
  Rest best;
  double together_seconds = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : together.candidates) {
    if (candidate.slot == together.slot) together_seconds = candidate.cost_seconds();
    const std::optional<Rest> rest = RestAt(candidate, prefill, query, fleet);
    if (rest.has_value() && rest->cost_seconds < best.cost_seconds) best = *rest;
  }
  if (best.follow.block_count == 0) return Together::kNoWay;
  const double apart_seconds = prefill.cost_seconds() + best.cost_seconds;
  if (apart_seconds >= together_seconds) return Together::kPrice;
  return Apart{.prefill = prefill,
               .decode = best.decode,
               .follow = best.follow,
               .by_connector = best.by_connector,
               .cost_seconds = apart_seconds,
               .together_seconds = together_seconds};
}

}  // namespace roost::router
