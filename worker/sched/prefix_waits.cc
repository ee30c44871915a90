#include "worker/sched/prefix_waits.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace roost::worker {
namespace {

void Promise(Sequence& sequence, BlockRange blocks) {
  BlockRange& promised = sequence.promised;
  if (promised.end > 0) blocks.first = std::min(blocks.first, promised.first);
  promised = {blocks.first, std::max(blocks.end, promised.end)};
}

}  // namespace

void PrefixWaits::BeginStep(std::uint32_t prompt_room) {
  ++step_;
  prompt_room_ = prompt_room;
  arrivals_awaited_until_.reset();
}

bool PrefixWaits::GoesOn(const Sequence& sequence) const {
  return sequence.awaited && IsWorthWaiting(*sequence.awaited) && IsBeingComputed(*sequence.awaited);
}

bool PrefixWaits::IsWorthWaiting(const Sequence::AwaitedPrefix& prefix) const {
  if (prefix.arrival) return !prefix.arrival->since || now_ < PatienceWith(prefix);
  return step_ <= prefix.last_step || now_ < prefix.until;
}

bool PrefixWaits::IsBeingComputed(const Sequence::AwaitedPrefix& prefix) const {
  if (prefix.arrival) {
    const std::optional<std::uint32_t> next = arrivals_.NextPosition(prefix.arrival->hold);
    return next && *next < prefix.block_count;
  }
  const Sequence* const other = sequences_.all.Find(prefix.sequence);
  return other != nullptr && other->state == Sequence::State::kRunning && other->can_commit &&
         other->committed_block_count < prefix.block_count;
}

// Until then this worker would have computed, since it was the sequence's turn, no more than what has come since and a
// tenth of the whole. Without a known pace the arrival's own patience decides.
Instant PrefixWaits::PatienceWith(const Sequence::AwaitedPrefix& prefix) const {
  constexpr double kLead = 0.1;
  const AwaitedArrival& arrival = *prefix.arrival;
  const std::optional<std::uint32_t> next = arrivals_.NextPosition(arrival.hold);
  if (!next) return *arrival.since;
  const double token_seconds = pace_.PromptTokenSeconds(prompt_room_);
  if (token_seconds <= 0) return now_ + std::chrono::hours(1);
  const double come = *next - arrival.first_position;
  const double whole = prefix.block_count - arrival.first_position;
  return *arrival.since + FromSeconds((come + kLead * whole) * block_tokens_ * token_seconds);
}

void PrefixWaits::OnTurn(Sequence::AwaitedPrefix& prefix) {
  if (!prefix.arrival->since) {
    prefix.arrival->since = now_;
    prefix.arrival->first_position = arrivals_.NextPosition(prefix.arrival->hold).value_or(0);
  }
  const Instant end = PatienceWith(prefix);
  arrivals_awaited_until_ = arrivals_awaited_until_ ? std::min(*arrivals_awaited_until_, end) : end;
}

std::uint32_t PrefixWaits::LookFor(Sequence& sequence, std::uint32_t matched_count, std::uint32_t matchable_count) {
  const auto before = std::exchange(sequence.awaited, std::nullopt);
  const std::uint32_t expected = LookFurther(sequence, matched_count, matchable_count, before);
  const bool has_waited = before && before->arrival && before->arrival->since;
  const bool goes_on = sequence.awaited && sequence.awaited->arrival && sequence.awaited->arrival->since;
  if (has_waited && !goes_on) sequence.awaited_arrivals += now_ - *before->arrival->since;
  return expected;
}

// A running sequence that computes the block after the match is awaited with all blocks that the two have in common
// after the match.
std::uint32_t PrefixWaits::LookFurther(Sequence& sequence, std::uint32_t matched_count, std::uint32_t matchable_count,
                                       const std::optional<Sequence::AwaitedPrefix>& before) {
  if (before && !IsWorthWaiting(*before) && IsBeingComputed(*before)) {
    sequence.given_up_block_count = before->block_count;
  }
  const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(matchable_count, sequence.hashes.size()));
  if (!sequence.uses_cache() || sequence.given_up_block_count > 0 || matched_count >= wanted) return matched_count;
  for (const Sequence* other : sequences_.running) {
    const std::uint32_t computing = other->committed_block_count;
    const auto fills = static_cast<std::uint32_t>(
        std::min<std::size_t>({other->token_count() / block_tokens_, other->hashes.size(), wanted}));
    if (!other->can_commit || computing != matched_count || computing >= fills) continue;
    std::uint32_t common = matched_count;
    while (common < fills && other->hashes[common] == sequence.hashes[common]) ++common;
    if (common == matched_count) continue;
    sequence.awaited = Await(*other, common, common - matched_count);
    return common;
  }
  if (!AwaitArrival(sequence, matched_count, wanted)) return matched_count;
  if (before && before->arrival && before->arrival->hold == sequence.awaited->arrival->hold) {
    sequence.awaited->arrival = before->arrival;  // the wait goes on
  }
  return sequence.awaited->block_count;
}

// To compute `missing_count` blocks itself, the sequence would need this many steps, at the latest step's budget, and
// this much time, at the recent pace. One long step uses up the time, but not the steps.
Sequence::AwaitedPrefix PrefixWaits::Await(const Sequence& other, std::uint32_t block_count,
                                           std::uint32_t missing_count) const {
  const std::uint64_t tokens = std::uint64_t{missing_count} * block_tokens_;
  return {.sequence = other.id,
          .block_count = block_count,
          .last_step = step_ + (tokens + prompt_room_ - 1) / prompt_room_,
          .until = now_ + FromSeconds(pace_.MeanSeconds(tokens))};
}

// If the block after the match is the next one of an arrival, or the disk has it, the sequence awaits it and what else
// the two have in common.
bool PrefixWaits::AwaitArrival(Sequence& sequence, std::uint32_t matched_count, std::uint32_t wanted_count) const {
  const auto wanted = std::span(sequence.hashes).first(wanted_count);
  auto coming = arrivals_.FindComing(wanted, matched_count, now_);
  if (!coming && restores_.Begin(sequence, matched_count, wanted_count, now_)) {
    coming = arrivals_.FindComing(wanted, matched_count, now_);
  }
  if (!coming) return false;
  Promise(sequence, coming->blocks);
  if (!coming->id) return false;
  sequence.awaited = {
      .sequence = {}, .arrival = AwaitedArrival{.hold = *coming->id}, .block_count = coming->blocks.end};
  return true;
}

bool PrefixWaits::IsLeftBehind(const Sequence& sequence) const {
  const auto& awaited = sequence.awaited;
  return awaited && awaited->arrival && !arrivals_.NextPosition(awaited->arrival->hold);
}

}  // namespace roost::worker
