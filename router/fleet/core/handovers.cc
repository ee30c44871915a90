#include "router/fleet/core/handovers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "common/base/log.h"
#include "router/fleet/evicted.h"
#include "router/route/cache_aware.h"

namespace roost::router {

namespace {

// The minor version of the protocol from which on workers tell hashes and await handedOver.
constexpr std::uint32_t kAwaitsHandover = 11;

bool IsLeaving(const Worker& worker) {
  const wire::Load& load = worker.load;
  return load.draining && load.engine_away_ms == 0 && (!load.cordoned || worker.is_drained);
}

double HitsPerHour(const wire::UsedPrefix& prefix) {
  const double hours = static_cast<double>(prefix.age_ms) / 3'600'000;
  return static_cast<double>(prefix.hits) / std::max(hours, ToSeconds(Handovers::kLeastAge) / 3600);
}

std::uint32_t BlocksAt(std::span<const WorkerMatch> matches, WorkerSlot slot) {
  const auto found =
      std::find_if(matches.begin(), matches.end(), [slot](const WorkerMatch& match) { return match.worker == slot; });
  return found == matches.end() ? 0 : found->block_count;
}

// All that the source held has come, or the heir wants it no more.
bool IsSettled(PullOutcome outcome) {
  using wire::HoldOutcome;
  return outcome == HoldOutcome::kComplete || outcome == HoldOutcome::kMissing || outcome == HoldOutcome::kCancelled;
}
// The heir takes no more, from any source.
bool IsFull(PullOutcome outcome) {
  return outcome == wire::HoldOutcome::kNoRoom || outcome == wire::HoldOutcome::kRefused;
}
// The way there may be free again soon.
bool IsPassing(PullOutcome outcome) {
  using wire::HoldOutcome;
  return outcome == HoldOutcome::kBroken || outcome == HoldOutcome::kBusy || outcome == HoldOutcome::kSlow;
}

}  // namespace

std::size_t Handovers::size() const {
  return static_cast<std::size_t>(std::count_if(plans_.begin(), plans_.end(),
                                                [](const auto& entry) { return entry.second.stage != Stage::kOver; }));
}

// ---- who leaves and joins ----

void Handovers::OnReport(Worker& worker, Instant now) {
  const std::string& name = worker.hello.worker_id;
  const bool leaves = IsLeaving(worker);
  const auto known = plans_.find(name);
  if (known != plans_.end() && (known->second.kind == HandoverKind::kLeave) != leaves) plans_.erase(known);
  const bool awaits = leaves && worker.hello.version.minor >= kAwaitsHandover;
  if (awaits && plans_.try_emplace(name, Plan{.model = worker.hello.model}).second) BeginWaiting(now);
  if (leaves || worker.was_offered_prefixes || !worker_registry_.IsServing(worker) || !worker.view.in_sync()) return;
  worker.was_offered_prefixes = true;
  const auto held = static_cast<double>(worker.index->View(worker.slot).block_count);
  const bool is_empty = held <= kEmptyShare * worker.hello.block_count;
  if (!is_empty || !worker.hello.features.contains(wire::Feature::kHolds) || ToAskFor(worker).empty()) return;
  Plan plan{.kind = HandoverKind::kJoin, .model = worker.hello.model};
  Ask(name, plans_.insert_or_assign(name, std::move(plan)).first->second, now);
}

void Handovers::BeginWaiting(Instant now) {
  const auto is_under_way = [](const auto& entry) {
    return entry.second.kind == HandoverKind::kLeave &&
           (entry.second.stage == Stage::kAsks || entry.second.stage == Stage::kMoves);
  };
  auto count = static_cast<std::size_t>(std::count_if(plans_.begin(), plans_.end(), is_under_way));
  for (auto plan = plans_.begin(); plan != plans_.end() && count < kMostLeaving; ++plan) {
    if (plan->second.stage != Stage::kWaits) continue;
    Ask(plan->first, plan->second, now);
    ++count;
  }
}

// Without anybody to ask it goes on at once, and ends.
void Handovers::Ask(const std::string& name, Plan& plan, Instant now) {
  const Worker& worker = *worker_registry_.Find(name);
  wire::WantPrefixes question{.most = wire::kMaxUsedPrefixes, .with_hashes = wire::PrefixHashes::kTell};
  std::vector<const Worker*> to_ask;
  if (plan.kind == HandoverKind::kJoin) {
    question.most = kJoinPrefixes;
    to_ask = ToAskFor(worker);
  } else if (CanHandOver(worker, now)) {
    to_ask = {&worker};
  }
  if (next_id_ == 0) ++next_id_;
  question.answer_id = plan.question = next_id_++;
  plan.stage = Stage::kAsks;
  plan.answers_by = now + kAnswerPatience;
  for (const Worker* const asked : to_ask) {
    plan.asked.insert(asked->hello.worker_id);
    effects_.Send(asked->identity, question);
  }
  if (plan.asked.empty()) BeginMoves(plans_.find(name), now);
}

bool Handovers::CanHandOver(const Worker& leaver, Instant now) {
  const std::shared_ptr<const ServedModel> model = worker_registry_.revisions().Find(leaver.revision);
  const FleetView* const fleet = model == nullptr ? nullptr : worker_registry_.FleetOf(*model);
  if (fleet == nullptr || !leaver.hello.features.contains(wire::Feature::kAnswers)) return false;
  if (leaver.index->View(leaver.slot).block_count == 0) return false;
  return std::any_of(fleet->workers().begin(), fleet->workers().end(), [&](const WorkerView& heir) {
    return worker_registry_.transfers().Offer({.from = leaver.slot, .to = heir.slot}, 0, now).has_value();
  });
}

std::vector<const Worker*> Handovers::ToAskFor(const Worker& joiner) {
  std::vector<const Worker*> holders;
  for (const Worker* const other : worker_registry_.Serving(joiner.revision)) {
    const bool tells = other->hello.version.minor >= kAwaitsHandover &&
                       other->hello.features.contains(wire::Feature::kAnswers) &&
                       worker_registry_.transfers().Serves(other->slot);
    if (other != &joiner && tells && other->index->View(other->slot).block_count > 0) holders.push_back(other);
  }
  const auto goes_before = [](const Worker* a, const Worker* b) { return a->requests_total > b->requests_total; };
  const std::size_t count = std::min(holders.size(), kMostAsked);
  std::partial_sort(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(count), holders.end(), goes_before);
  holders.resize(count);
  return holders;
}

// ---- what there is ----

bool Handovers::OnPrefixes(const std::string& worker_id, wire::Prefixes& answer, Instant now) {
  const auto plan = std::find_if(plans_.begin(), plans_.end(), [&answer](const auto& entry) {
    return answer.answer_id != 0 && entry.second.question == answer.answer_id;
  });
  if (plan == plans_.end()) return false;
  if (plan->second.asked.erase(worker_id) == 0) return true;
  Take(plan->second, answer);
  if (plan->second.asked.empty()) BeginMoves(plan, now);
  return true;
}

void Handovers::Take(Plan& plan, wire::Prefixes& answer) const {
  const bool joins = plan.kind == HandoverKind::kJoin;
  if (joins && answer.prefixes.size() > kJoinPrefixes) answer.prefixes.resize(kJoinPrefixes);
  for (wire::UsedPrefix& used : answer.prefixes) {
    if (used.hashes.empty()) continue;
    const double hits = HitsPerHour(used);
    const auto known = joins ? std::find_if(plan.left.begin(), plan.left.end(),
                                            [&used](const Prefix& prefix) { return prefix.used.hash == used.hash; })
                             : plan.left.end();
    if (known == plan.left.end()) {
      plan.left.push_back({.used = std::move(used), .hits_per_hour = hits});
    } else {
      known->hits_per_hour += hits;
      ++known->holder_count;
    }
  }
}

void Handovers::BeginMoves(Plans::iterator plan, Instant now) {
  std::deque<Prefix>& left = plan->second.left;
  std::sort(left.begin(), left.end(), [](const Prefix& a, const Prefix& b) {
    const auto key = [](const Prefix& prefix) {
      return std::tuple(prefix.hits_per_hour, prefix.used.block_count, prefix.used.hash);
    };
    return key(a) > key(b);
  });
  if (plan->second.kind == HandoverKind::kJoin && left.size() > kJoinPrefixes) left.resize(kJoinPrefixes);
  plan->second.stage = Stage::kMoves;
  GoOn(plan, now);
}

// ---- where it goes ----

void Handovers::GoOn(Plans::iterator entry, Instant now) {
  auto& [name, plan] = *entry;
  const bool leaves = plan.kind == HandoverKind::kLeave;
  const std::size_t most_open = !plan.knows_pace ? 1 : leaves ? kOpenHolds : kJoinSources;
  for (std::size_t looked = 0; looked < kLooked && !plan.left.empty() && plan.open.size() < most_open; ++looked) {
    const Turn turn = leaves ? MoveFromLeaver(name, plan, now) : MoveToJoiner(name, plan, now);
    if (turn == Turn::kWait) break;
  }
  if (plan.left.empty() && plan.open.empty()) End(entry);
}

std::uint32_t Handovers::RoomAt(const Worker& heir, const Plan& plan) const {
  const std::string& name = heir.hello.worker_id;
  auto room = static_cast<std::uint32_t>(kPoolShare * heir.hello.block_count);
  for (const auto& [leaver, each] : plans_) {
    const auto got = each.got.find(name);
    if (each.kind == plan.kind && got != each.got.end()) room -= std::min(room, got->second);
  }
  return plan.full.contains(name) ? 0 : room;
}

Handovers::Turn Handovers::MoveFromLeaver(const std::string& name, Plan& plan, Instant now) {
  Prefix prefix = std::move(plan.left.front());
  plan.left.pop_front();
  const std::optional<Way> way = WayFrom(*worker_registry_.Find(name), plan, prefix, now);
  if (!way || Start(name, plan, *way, prefix, now)) return Turn::kNext;
  plan.left.push_front(std::move(prefix));
  return Turn::kWait;
}

std::optional<Handovers::Way> Handovers::WayFrom(const Worker& leaver, Plan& plan, const Prefix& prefix, Instant now) {
  const std::vector<BlockHash>& hashes = prefix.used.hashes;
  const std::shared_ptr<const ServedModel> model = worker_registry_.revisions().Find(leaver.revision);
  if (model == nullptr) return std::nullopt;
  std::vector<WorkerMatch> matches = leaver.index->Match(hashes);
  worker_registry_.pending().Deepen(hashes, now, matches);
  // The last token of a prompt is always computed.
  const auto prompt_tokens = static_cast<std::uint32_t>(hashes.size() * model->block_tokens + 1);
  const std::optional<Decision> decision = requests_.decider().Ask(*model, prompt_tokens, hashes, matches);
  if (!decision || BlocksAt(matches, decision->slot) >= hashes.size()) return std::nullopt;
  const double least = decision->candidates.empty() ? 0 : decision->candidates.front().cost_seconds();
  const double tie = least + std::min(kTieSeconds, kTieShare * least);
  std::optional<Way> best;
  std::uint32_t most_left = 0;  // room behind it, at the best
  for (const Candidate& candidate : decision->candidates) {
    if (best && candidate.cost_seconds() > tie) break;
    Worker* const heir = worker_registry_.FindAt(candidate.slot);
    if (heir == nullptr) continue;
    const std::uint32_t room = RoomAt(*heir, plan);
    const std::uint32_t held = BlocksAt(matches, heir->slot);
    const auto end = static_cast<std::uint32_t>(std::min<std::size_t>(
        {hashes.size(), std::size_t{held} + room, std::size_t{wire::WireLimits::kMaxHeldHashes}}));
    if (end <= held || (best && room - (end - held) <= most_left)) continue;
    const auto offer = worker_registry_.transfers().Offer({.from = leaver.slot, .to = heir->slot}, end - held, now);
    if (!offer) continue;
    most_left = room - (end - held);
    best = Way{heir, {.source = leaver.slot, .first_block = held, .block_count = end - held, .price = offer->price}};
  }
  if (!best || best->pull.end_block() < hashes.size()) plan.leaves_some = true;
  return best;
}

bool Handovers::IsUsed(const Plan& plan, WorkerSlot source) {
  return std::any_of(plan.open.begin(), plan.open.end(),
                     [source](const auto& entry) { return entry.second.source == source; });
}

Handovers::Turn Handovers::MoveToJoiner(const std::string& name, Plan& plan, Instant now) {
  Worker& joiner = *worker_registry_.Find(name);
  const std::uint32_t room = RoomAt(joiner, plan);
  for (auto prefix = plan.left.begin(); prefix != plan.left.end();) {
    std::optional<PrefixPull> pull = PullTo(joiner, plan, *prefix, now);
    const bool is_over = !pull || room == 0;
    if (is_over) {
      if (pull) plan.leaves_some = true;
      prefix = plan.left.erase(prefix);
    } else if (IsUsed(plan, pull->source)) {
      ++prefix;
    } else {
      pull->block_count = std::min(pull->block_count, room);
      Prefix taken = std::move(*prefix);
      prefix = plan.left.erase(prefix);
      if (Start(name, plan, {&joiner, *pull}, taken, now)) return Turn::kNext;
      plan.left.insert(prefix, std::move(taken));
      return Turn::kWait;
    }
  }
  return Turn::kWait;
}

std::optional<PrefixPull> Handovers::PullTo(const Worker& joiner, const Plan& plan, const Prefix& prefix, Instant now) {
  HoldBook& holds = requests_.holds();
  const std::vector<BlockHash>& hashes = prefix.used.hashes;
  const std::optional<PrefixPull> best = holds.BestSource(joiner, hashes, {}, now);
  if (!best || !IsUsed(plan, best->source)) return best;
  for (const WorkerMatch& match : joiner.index->Match(hashes)) {
    const Worker* const other = worker_registry_.InSlot(match.worker);
    if (other == nullptr || IsUsed(plan, match.worker)) continue;
    const std::optional<PrefixPull> equal = holds.BestSource(joiner, hashes, other->hello.worker_id, now);
    if (equal && equal->end_block() == best->end_block()) return equal;
  }
  return best;
}

// ---- Holds ----

bool Handovers::Start(const std::string& name, Plan& plan, const Way& way, Prefix& prefix, Instant now) {
  GenerateSpec spec;
  spec.model = worker_registry_.revisions().Find(way.heir->revision);
  if (spec.model == nullptr) return false;
  spec.generate.root = prefix.used.root;
  spec.generate.own = prefix.used.own;
  spec.generate.tenant = prefix.used.tenant;
  const double hits = std::ceil(prefix.hits_per_hour / prefix.holder_count);
  const auto on_end = [this, name](const HoldEnd& end, Instant then) { OnHoldEnd(name, end, then); };
  const std::optional<std::uint64_t> id = requests_.holds().Start(
      *way.heir, way.pull, spec, prefix.used.hashes,
      {.patience = kHoldPatience, .hits = static_cast<std::uint32_t>(std::min(hits, 1e6))}, now, on_end);
  if (!id) return false;
  plan.got[way.heir->hello.worker_id] += way.pull.block_count;
  ++prefix.tries;
  Move& move = plan.open[*id];
  move = {.heir = way.heir->hello.worker_id, .source = way.pull.source, .prefix = std::move(prefix), .coming = {}};
  // Requests follow the blocks, and so do the prefixes that continue this one.
  const std::uint32_t end = way.pull.end_block();
  if (way.pull.price.bytes > 0 && way.heir->view.mode() != WorkerMode::kBlind) {
    move.coming = Expect(worker_registry_.pending(), *way.heir, std::span(move.prefix.used.hashes).first(end),
                         now + kHoldPatience, {.block_count = end, .at = now + FromSeconds(way.pull.price.seconds)});
  }
  return true;
}

void Handovers::OnHoldEnd(const std::string& name, const HoldEnd& end, Instant now) {
  const auto plan = plans_.find(name);
  if (plan == plans_.end()) return;
  auto ended = plan->second.open.extract(end.id);
  if (ended.empty()) return;
  Move& move = ended.mapped();
  move.coming = {};
  plan->second.moved_block_count += end.pull.block_count;
  plan->second.knows_pace = true;
  if (Worker* const heir = worker_registry_.Find(move.heir)) {
    heir->view.OnComputed(std::span(move.prefix.used.hashes).first(end.block_count), now);
  }
  if (!IsSettled(end.pull.outcome)) {
    // There is one source of what a worker leaves, so an heir that can not fetch from it gets nothing more.
    const bool has_tries = IsPassing(end.pull.outcome) && ++plan->second.failures[move.heir] < kHeirTries;
    const bool is_over = IsFull(end.pull.outcome) || (plan->second.kind == HandoverKind::kLeave && !has_tries);
    if (is_over) plan->second.full.insert(move.heir);
    Retry(plan->second, std::move(move.prefix));
  }
  GoOn(plan, now);
}

void Handovers::Retry(Plan& plan, Prefix prefix) {
  if (prefix.tries < kTries) {
    plan.left.push_front(std::move(prefix));
  } else {
    plan.leaves_some = true;
  }
}

// ---- ends ----

void Handovers::OnWorkerLost(const std::string& worker_id, Instant now) {
  const auto left = plans_.find(worker_id);
  if (left != plans_.end()) {
    left->second.leaves_some = true;
    if (left->second.stage != Stage::kOver) Tell(worker_id, left->second);
    plans_.erase(left);
  }
  for (auto plan = plans_.begin(); plan != plans_.end();) {
    const auto next = std::next(plan);
    Plan& each = plan->second;
    each.got.erase(worker_id);
    each.full.erase(worker_id);
    for (auto move = each.open.begin(); move != each.open.end();) {
      const bool is_lost = move->second.heir == worker_id;
      if (is_lost) {
        move->second.coming = {};
        Retry(each, std::move(move->second.prefix));
      }
      move = is_lost ? each.open.erase(move) : std::next(move);
    }
    const bool was_asked = each.asked.erase(worker_id) > 0;
    if (was_asked && each.asked.empty()) BeginMoves(plan, now);
    plan = next;
  }
  BeginWaiting(now);
}

void Handovers::Evict(const EvictOrder& order) {
  const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what);
  const auto is_named = [&](const Prefix& prefix) {
    return tenant == nullptr ? MayBeNamed(order, prefix.used.hashes) : prefix.used.tenant == tenant->tenant;
  };
  // The order may be for the worker that joins alone: what others would answer must not bring it back.
  std::erase_if(plans_, [](const auto& entry) {
    return entry.second.kind == HandoverKind::kJoin && entry.second.stage == Stage::kAsks;
  });
  for (auto& [name, plan] : plans_) {
    plan.question = 0;  // what it is answered may be from before
    std::erase_if(plan.left, is_named);
    for (auto& [id, move] : plan.open) {
      if (!is_named(move.prefix)) continue;
      move.coming = {};
      move.prefix.tries = kTries;
    }
  }
}

void Handovers::Expire(Instant now) {
  for (auto plan = plans_.begin(); plan != plans_.end();) {
    const auto next = std::next(plan);
    Plan& each = plan->second;
    if (each.stage == Stage::kAsks && each.question == 0) {
      each.asked.clear();
      each.left.clear();
      Ask(plan->first, each, now);
    } else if (each.stage == Stage::kAsks && now >= each.answers_by) {
      each.asked.clear();
      BeginMoves(plan, now);
    } else if (each.stage == Stage::kMoves) {
      GoOn(plan, now);
    }
    plan = next;
  }
  BeginWaiting(now);
}

void Handovers::End(Plans::iterator entry) {
  auto& [name, plan] = *entry;
  const Worker& worker = *worker_registry_.Find(name);
  Tell(name, plan);
  if (plan.kind == HandoverKind::kJoin) {
    plans_.erase(entry);
    return;
  }
  plan.stage = Stage::kOver;
  plan.got.clear();
  effects_.Send(worker.identity, wire::HandedOver{});
}

void Handovers::Tell(const std::string& name, const Plan& plan) {
  const HandoverEnd end = plan.moved_block_count == 0 && !plan.leaves_some ? HandoverEnd::kNothing
                          : plan.leaves_some                               ? HandoverEnd::kPartial
                                                                           : HandoverEnd::kComplete;
  metrics_.OnHandover(plan.model, plan.kind, end);
  if (end == HandoverEnd::kNothing) return;
  LogInfo("prefixes handed over", {{"worker", name},
                                   {"why", std::string(NameOf(plan.kind))},
                                   {"outcome", std::string(NameOf(end))},
                                   {"blocks", fmt::to_string(plan.moved_block_count)}});
}

}  // namespace roost::router
