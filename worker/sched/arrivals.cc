#include "worker/sched/arrivals.h"

#include <algorithm>

#include "common/base/check.h"
#include "worker/cache/cache_travel.h"

namespace roost::worker {

using wire::HoldOutcome;

namespace {

// The number of equal hashes at the begin of both.
std::uint32_t CountCommon(std::span<const BlockHash> a, std::span<const BlockHash> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::uint32_t>(end - a.begin());
}

}  // namespace

bool Arrivals::Begin(ArrivalSpec spec) {
  ROOST_CHECK(spec.chain.size() > 0 && Find(spec.id) == nullptr, "hold {}", spec.id.value());
  const bool is_full =
      spec.is_restore() ? restore_count() >= kMaxRestores : arrivals_.size() - restore_count() >= kMaxArrivals;
  if (is_full) {
    Miss(spec, 0);
    return false;
  }
  auto arrival = std::make_unique<Arrival>();
  arrival->spec = std::move(spec);
  arrival->tenant = cache_.tenants().Join(arrival->spec.tenant);
  Arrival& begun = *arrivals_.emplace_back(std::move(arrival));
  if (!TakePath(begun)) {
    End(begun, HoldOutcome::kRefused);
    return true;
  }
  TakeReady(begun);
  if (begun.next == begun.spec.chain.size()) End(begun, HoldOutcome::kComplete);
  return true;
}

// Holds the blocks before the chain. False when they are not here, or are not where the chain says.
bool Arrivals::TakePath(Arrival& arrival) {
  const FrameChain& chain = arrival.spec.chain;
  if (chain.first_position == 0) return true;
  const std::vector<BlockRef> path = PathTo(cache_, chain.parent);
  if (path.size() != chain.first_position) return false;
  for (const BlockRef ref : path) {
    cache_.Hold(ref);
    arrival.blocks.push_back(ref.block);
  }
  return true;
}

// Takes the next blocks that are in the cache: found there, computed meanwhile, or brought by the arrival it joined.
void Arrivals::TakeReady(Arrival& arrival) {
  const FrameChain& chain = arrival.spec.chain;
  while (arrival.next < chain.size()) {
    const auto parent = arrival.blocks.empty() ? std::nullopt : std::optional(arrival.blocks.back());
    const std::optional<BlockRef> ref =
        FindFollower(cache_, chain.hashes[arrival.next], chain.RootAt(arrival.next), parent);
    if (!ref) return;
    cache_.Hold(*ref);
    arrival.blocks.push_back(ref->block);
    ++arrival.next;
    ++(arrival.joined ? arrival.arrived_count : arrival.held_count);
  }
}

std::size_t Arrivals::restore_count() const {
  return static_cast<std::size_t>(
      std::count_if(arrivals_.begin(), arrivals_.end(), [](const auto& each) { return each->spec.is_restore(); }));
}

Arrivals::Arrival* Arrivals::Find(HoldId id) {
  for (const auto& arrival : arrivals_) {
    if (arrival->spec.id == id) return arrival.get();
  }
  return nullptr;
}

const Arrivals::Arrival* Arrivals::Find(HoldId id) const { return const_cast<Arrivals*>(this)->Find(id); }

void Arrivals::Take(FrameNews news) {
  if (auto* const frame = std::get_if<ArrivedFrame>(&news)) {
    Arrival* const arrival = Find(frame->id);
    if (arrival == nullptr) return;
    if (!arrival->first_frame) arrival->first_frame = frame->at;
    arrival->last_frame = frame->at;
    if (frame->index >= arrival->next) arrival->frames.push_back(std::move(*frame));
  } else if (const auto* const ended = std::get_if<FramesEnded>(&news)) {
    Arrival* const arrival = Find(ended->id);
    if (arrival == nullptr) return;
    arrival->source_outcome = ended->outcome;
    arrival->source_cause = ended->cause;
  } else {
    const auto& joined = std::get<FramesJoined>(news);
    if (Arrival* const arrival = Find(joined.id)) arrival->joined = joined.first;
  }
}

void Arrivals::Advance(Instant now, std::vector<ArrivedWrite>& writes) {
  for (std::size_t i = 0; i < arrivals_.size();) {
    Arrival& arrival = *arrivals_[i];
    const std::optional<HoldOutcome> outcome = OutcomeOf(arrival, now, writes);
    if (outcome) {
      End(arrival, *outcome);
    } else {
      ++i;
    }
  }
}

// Commits what has come of the arrival. Nothing: more is to come.
std::optional<HoldOutcome> Arrivals::OutcomeOf(Arrival& arrival, Instant now, std::vector<ArrivedWrite>& writes) {
  while (true) {
    TakeReady(arrival);
    while (!arrival.frames.empty() && arrival.frames.front().index < arrival.next) arrival.frames.pop_front();
    if (arrival.next == arrival.spec.chain.size()) return HoldOutcome::kComplete;
    if (arrival.frames.empty()) break;
    // The source tells its blocks in order. A gap is what was here when it was asked, and has left since.
    if (arrival.frames.front().index > arrival.next) return HoldOutcome::kMissing;
    if (const std::optional<HoldOutcome> failure = CommitNext(arrival, writes)) return failure;
  }
  if (arrival.source_outcome) {
    // It has told all, and yet a block is not here: it has left the cache since.
    return *arrival.source_outcome == HoldOutcome::kComplete ? HoldOutcome::kMissing : *arrival.source_outcome;
  }
  if (arrival.joined && Find(*arrival.joined) == nullptr) return HoldOutcome::kMissing;
  if (now >= arrival.spec.patience_end) return HoldOutcome::kSlow;
  return std::nullopt;
}

// The frame of the next block is the first that waits.
std::optional<HoldOutcome> Arrivals::CommitNext(Arrival& arrival, std::vector<ArrivedWrite>& writes) {
  const std::optional<BlockId> own = cache_.Allocate(arrival.spec.group);
  if (!own) return HoldOutcome::kNoRoom;
  ArrivedFrame frame = std::move(arrival.frames.front());
  arrival.frames.pop_front();
  const FrameBlock& block = frame.opened.block;
  const auto parent = arrival.blocks.empty() ? std::nullopt : std::optional(arrival.blocks.back());
  const CommitResult result = cache_.Commit({.hash = block.hash,
                                             .root = block.root,
                                             .position = block.position,
                                             .tokens = frame.opened.tokens,
                                             .tenant = block.tenant == 0 ? TenantId() : arrival.tenant,
                                             .source = arrival.spec.source,
                                             .hit_count = arrival.spec.hit_count},
                                            parent, *own, arrival.spec.group);
  if (result.kind != CommitResult::Kind::kStored) {
    // Another prefix has this hash; an equal block would have been found.
    ROOST_CHECK(result.kind == CommitResult::Kind::kCollided, "block {} of a hold was there", arrival.next);
    cache_.Release(*own, {});
    return HoldOutcome::kMissing;
  }
  arrival.blocks.push_back(*own);
  ++arrival.next;
  ++arrival.arrived_count;
  writes.push_back({*own, std::move(frame.buffer)});
  return std::nullopt;
}

void Arrivals::End(Arrival& arrival, HoldOutcome outcome) {
  const FrameChain& chain = arrival.spec.chain;
  cache_.ReleaseAll(arrival.blocks,
                    {.number = release_count_++,
                     .prompt_token_count = (chain.first_position + chain.size()) * cache_.block_tokens()});
  cache_.tenants().Leave(arrival.tenant);
  // The disk still has the rest.
  if (!arrival.spec.is_restore() || outcome != HoldOutcome::kCancelled) Miss(arrival.spec, arrival.next);
  ended_.push_back({.id = arrival.spec.id,
                    .is_restore = arrival.spec.is_restore(),
                    .outcome = outcome,
                    .cause = CauseOf(arrival, outcome),
                    .held_count = arrival.held_count,
                    .arrived_count = arrival.arrived_count,
                    .missing_count = chain.size() - arrival.held_count - arrival.arrived_count,
                    .begin = arrival.spec.begin,
                    .first_frame = arrival.first_frame,
                    .last_frame = arrival.last_frame,
                    .source_ended = arrival.source_outcome.has_value()});
  std::erase_if(arrivals_, [&arrival](const auto& each) { return each.get() == &arrival; });
}

// An arrival that ends as wrong without its source's word was found to be computed wrong.
wire::HoldCause Arrivals::CauseOf(const Arrival& arrival, HoldOutcome outcome) {
  if (arrival.source_outcome == outcome) return arrival.source_cause;
  return outcome == HoldOutcome::kWrong ? wire::HoldCause::kComputedWrong : wire::HoldCause::kNone;
}

// `next`: the first block that has not come.
void Arrivals::Miss(const ArrivalSpec& spec, std::uint32_t next) {
  if (spec.purpose != wire::HoldPurpose::kRequest || next == spec.chain.size()) return;
  if (missed_.size() == kMaxArrivals) missed_.pop_front();
  const std::vector<BlockHash>& hashes = spec.chain.hashes;
  missed_.push_back({.first_position = spec.chain.first_position + next,
                     .hashes = {hashes.begin() + next, hashes.end()},
                     .forgotten_at = std::max(now_, spec.begin) + kUnwantedPatience});
}

bool Arrivals::GiveWay() {
  if (arrivals_.empty()) return false;
  End(*arrivals_.back(), HoldOutcome::kNoRoom);
  return true;
}

template <typename Which>
void Arrivals::EndEach(const Which& which, HoldOutcome outcome) {
  for (std::size_t i = 0; i < arrivals_.size();) {
    if (which(*arrivals_[i])) {
      End(*arrivals_[i], outcome);
    } else {
      ++i;
    }
  }
}

bool ArrivalSpec::Names(BlockHash block) const {
  return chain.parent == block || std::find(chain.hashes.begin(), chain.hashes.end(), block) != chain.hashes.end();
}

void Arrivals::EndWhere(const std::function<bool(const ArrivalSpec&)>& is_meant, HoldOutcome outcome) {
  EndEach([&](const Arrival& arrival) { return is_meant(arrival.spec); }, outcome);
}

void Arrivals::EndRestoresOf(std::span<const BlockHash> held) {
  const auto brings_same = [&](const ArrivalSpec& spec) {
    if (!spec.is_restore()) return false;
    return spec.Names(held.front()) || std::find(held.begin(), held.end(), spec.chain.hashes.front()) != held.end();
  };
  EndWhere(brings_same, HoldOutcome::kCancelled);
}

void Arrivals::CancelErased() {
  const auto is_erased = [&](const Arrival& arrival) {
    return std::any_of(arrival.blocks.begin(), arrival.blocks.end(),
                       [&](BlockId block) { return !cache_.IsReady(block); });
  };
  EndEach(is_erased, HoldOutcome::kCancelled);
}

bool Arrivals::IsNext(const Arrival& arrival, std::span<const BlockHash> hashes) {
  const FrameChain& chain = arrival.spec.chain;
  const std::size_t position = std::size_t{chain.first_position} + arrival.next;
  return position < hashes.size() && arrival.next < chain.size() && hashes[position] == chain.hashes[arrival.next];
}

void Arrivals::OnWaiterGone(std::span<const BlockHash> hashes, Instant now) {
  for (const auto& arrival : arrivals_) {
    if (arrival->spec.needs_requests() && IsNext(*arrival, hashes)) arrival->unwanted_since = now;
  }
}

void Arrivals::EndUnwanted(Instant now, const std::function<bool(BlockHash, std::uint32_t)>& is_wanted) {
  const auto is_over = [&](Arrival& arrival) {
    const bool is_new = arrival.spec.needs_requests() && !std::exchange(arrival.was_checked, true);
    if (!is_new && !(arrival.unwanted_since && now >= *arrival.unwanted_since + kUnwantedPatience)) return false;
    const FrameChain& chain = arrival.spec.chain;
    const bool is_free =
        arrival.next < chain.size() && !is_wanted(chain.hashes[arrival.next], chain.first_position + arrival.next);
    arrival.unwanted_since = is_new && is_free ? std::optional(now) : std::nullopt;
    return !is_new && is_free;
  };
  EndEach(is_over, HoldOutcome::kCancelled);
  now_ = now;
  std::erase_if(missed_, [now](const Missed& missed) { return now >= missed.forgotten_at; });
}

std::optional<Instant> Arrivals::NextEnd() const {
  std::optional<Instant> next;
  for (const auto& arrival : arrivals_) {
    Instant end = arrival->spec.patience_end;
    if (arrival->unwanted_since) end = std::min(end, *arrival->unwanted_since + kUnwantedPatience);
    next = next ? std::min(*next, end) : end;
  }
  return next;
}

std::optional<Arrivals::Coming> Arrivals::FindComing(std::span<const BlockHash> hashes, std::uint32_t first,
                                                     Instant now) const {
  for (const auto& arrival : arrivals_) {
    if (arrival->spec.chain.first_position + arrival->next != first || !IsNext(*arrival, hashes)) continue;
    const auto rest = std::span(arrival->spec.chain.hashes).subspan(arrival->next);
    return Coming{arrival->spec.id, {first, first + CountCommon(hashes.subspan(first), rest)}};
  }
  return FindMissed(hashes, now);
}

std::optional<Arrivals::Coming> Arrivals::FindMissed(std::span<const BlockHash> hashes, Instant now) const {
  for (const Missed& missed : missed_) {
    const std::uint32_t first = missed.first_position;
    if (now >= missed.forgotten_at || first >= hashes.size()) continue;
    const std::uint32_t count = CountCommon(hashes.subspan(first), missed.hashes);
    if (count > 0) return Coming{std::nullopt, {first, first + count}};
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Arrivals::NextPosition(HoldId id) const {
  const Arrival* const arrival = Find(id);
  if (arrival == nullptr) return std::nullopt;
  return arrival->spec.chain.first_position + arrival->next;
}

std::size_t Arrivals::HeldAloneCount() const {
  if (arrivals_.empty()) return 0;
  std::vector<BlockId> held;
  for (const auto& arrival : arrivals_) held.insert(held.end(), arrival->blocks.begin(), arrival->blocks.end());
  std::sort(held.begin(), held.end());
  std::size_t alone = 0;
  for (auto first = held.begin(); first != held.end();) {
    const auto end = std::find_if(first, held.end(), [&](BlockId block) { return block != *first; });
    if (cache_.pool().references(*first) == static_cast<std::uint32_t>(end - first)) ++alone;
    first = end;
  }
  return alone;
}

void Arrivals::CountReferences(std::span<std::uint32_t> references) const {
  for (const auto& arrival : arrivals_) {
    for (const BlockId block : arrival->blocks) ++references[block.value()];
  }
}

}  // namespace roost::worker
