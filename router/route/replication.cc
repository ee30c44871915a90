#include "router/route/replication.h"

#include <algorithm>
#include <optional>

#include "common/base/rng.h"
#include "router/route/candidates.h"

namespace roost::router {

std::size_t PrefixSums::SetOf(BlockHash prefix) const { return Mix64(prefix.low ^ seed_) % kSets; }

void PrefixSums::Add(BlockHash prefix, double amount, Instant now) {
  if (amount <= 0) return;
  Set& set = sets_[SetOf(prefix)];
  auto entry = std::find_if(set.begin(), set.end(), [&](const Entry& each) { return each.prefix == prefix; });
  if (entry == set.end()) {
    entry = std::min_element(set.begin(), set.end(),
                             [now](const Entry& a, const Entry& b) { return a.sum.At(now) < b.sum.At(now); });
    *entry = {.prefix = prefix};
  }
  entry->sum.Add(amount, now);
}

void PrefixSums::Clear(BlockHash prefix) {
  for (Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) entry = {};
  }
}

double PrefixSums::At(BlockHash prefix, Instant now) const {
  for (const Entry& entry : sets_[SetOf(prefix)]) {
    if (entry.prefix == prefix) return entry.sum.At(now);
  }
  return 0;
}

namespace {

// A prefix that was used less often in about the last minute is not kept at several workers.
constexpr double kMinUses = 3;

// The prompt tokens of the prefixes that may deserve another holder: the deepest match, and, where one worker alone has
// that, the deepest that another has. The former may be one conversation's, the latter what conversations share.
struct SharedPrefixes {
  std::uint32_t deepest = 0;
  std::uint32_t of_several = 0;  // 0: it is `deepest`, or there is none
};

SharedPrefixes PrefixesOf(const FleetView& fleet, const std::vector<Candidate>& candidates) {
  SharedPrefixes prefixes;
  bool several_hold_deepest = false;
  for (const Candidate& candidate : candidates) {
    if (fleet.Find(candidate.slot)->receives_copy) continue;  // its part of the copy is no prefix of its own
    const std::uint32_t tokens = candidate.held_tokens();
    if (tokens > prefixes.deepest) {
      prefixes = {.deepest = tokens, .of_several = prefixes.deepest};
      several_hold_deepest = false;
    } else if (tokens == prefixes.deepest) {
      several_hold_deepest = true;
    } else {
      prefixes.of_several = std::max(prefixes.of_several, tokens);
    }
  }
  if (several_hold_deepest) prefixes.of_several = 0;
  return prefixes;
}

std::size_t HolderCount(const RouteQuery& query, std::uint32_t block_count) {
  return static_cast<std::size_t>(std::count_if(
      query.matches.begin(), query.matches.end(),
      [&](const WorkerMatch& match) { return match.block_count >= block_count && !IsDisk(match.worker); }));
}

// The part of the cost for the worker's computing, and for the blocks that come instead. The prompts that it overtakes
// are left out, because a shorter prompt overtakes more.
double WorkCost(const Candidate& candidate) {
  return candidate.pace * (candidate.work_seconds() + candidate.displaced_seconds);
}

// The worker that would receive a copy: the cheapest of those that may receive one and lack some of the prefix. Null
// when there is none.
const Candidate* FindReceiver(const FleetView& fleet, const std::vector<Candidate>& candidates,
                              std::uint32_t prefix_tokens) {
  const Candidate* receiver = nullptr;
  for (const Candidate& each : candidates) {
    if (each.held_tokens() >= prefix_tokens || fleet.Find(each.slot)->receives_copy) continue;
    if (receiver == nullptr || each.cost_seconds() < receiver->cost_seconds()) receiver = &each;
  }
  return receiver;
}

// `receiver` with the cost that it would have if it held the first `block_count` blocks.
Candidate AsHolder(const RouteQuery& query, const FleetView& fleet, const Candidate& receiver,
                   std::uint32_t block_count) {
  const PromptOnWorker prompt{.prompt_token_count = query.prompt_token_count,
                              .matched_block_count = block_count,
                              .answer = query.answer,
                              .slo = query.slo};
  return PredictCost(prompt, *fleet.Find(receiver.slot), fleet.speed(), query.now);
}

}  // namespace

bool Replication::LacksCopies(const RouteQuery& query, const FleetView& fleet, BlockHash prefix,
                              std::size_t holder_count) {
  if (query.min_copies <= 1) return false;
  used_.Add(prefix, 1, *query.now);
  const auto receives = [](const WorkerView& worker) { return worker.receives_copy; };
  return holder_count < query.min_copies && used_.At(prefix, *query.now) >= kMinUses &&
         std::none_of(fleet.workers().begin(), fleet.workers().end(), receives);
}

std::optional<PrefixCopy> Replication::Choose(const RouteQuery& query, const FleetView& fleet,
                                              const std::vector<Candidate>& candidates, const Candidate& chosen) {
  if (!fleet.speed().is_known()) return std::nullopt;
  const SharedPrefixes prefixes = PrefixesOf(fleet, candidates);
  const std::optional<PrefixCopy> copy = Judge(prefixes.deepest, query, fleet, candidates, chosen);
  return copy.has_value() ? copy : Judge(prefixes.of_several, query, fleet, candidates, chosen);
}

std::optional<PrefixCopy> Replication::Judge(std::uint32_t prefix_tokens, const RouteQuery& query,
                                             const FleetView& fleet, const std::vector<Candidate>& candidates,
                                             const Candidate& chosen) {
  const std::uint32_t block_tokens = fleet.Find(chosen.slot)->block_tokens;
  const std::uint32_t block_count = prefix_tokens / block_tokens;
  if (block_count == 0 || block_count > query.block_hashes.size()) return std::nullopt;
  const BlockHash prefix = query.block_hashes[block_count - 1];
  // The request itself makes the chosen worker compute or fetch the prefix.
  if (chosen.held_tokens() < prefix_tokens) {
    waited_.Clear(prefix);
    return std::nullopt;
  }
  const std::size_t holder_count = HolderCount(query, block_count);
  const bool lacks_copies = LacksCopies(query, fleet, prefix, holder_count);
  const Candidate* const receiver = FindReceiver(fleet, candidates, prefix_tokens);
  if (receiver == nullptr || holder_count >= kMaxHolders) return std::nullopt;
  const double price = WorkCost(*receiver) - WorkCost(AsHolder(query, fleet, *receiver, block_count));
  if (!lacks_copies && waited_.At(prefix, *query.now) < price) {
    // Had the receiver had the prefix, what follows it would be there too.
    const Candidate as_holder = AsHolder(query, fleet, *receiver, chosen.matched_tokens / block_tokens);
    waited_.Add(prefix, chosen.cost_seconds() - as_holder.cost_seconds(), *query.now);
    return std::nullopt;
  }
  waited_.Clear(prefix);
  return PrefixCopy{
      .worker = receiver->slot, .held_block_count = receiver->held_tokens() / block_tokens, .block_count = block_count};
}

}  // namespace roost::router
