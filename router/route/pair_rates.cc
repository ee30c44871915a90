#include "router/route/pair_rates.h"

#include <algorithm>

namespace roost::router {
namespace {

// The rate that an arrival shows: at least `least`, at most `most_bytes_per_second`.
struct Shown {
  PairRate least;
  double most_bytes_per_second = 0;
};

void Blend(std::optional<PairRate>& mean, const Shown& shown) {
  if (!mean) {
    mean = shown.least;
    return;
  }
  const double rate = std::clamp(mean->bytes_per_second, shown.least.bytes_per_second, shown.most_bytes_per_second);
  mean->start_seconds += PairRates::kNewShare * (shown.least.start_seconds - mean->start_seconds);
  mean->bytes_per_second += PairRates::kNewShare * (rate - mean->bytes_per_second);
}

std::optional<PairRate>& At(std::vector<std::optional<PairRate>>& means, WorkerSlot worker) {
  if (means.size() <= worker.value()) means.resize(worker.value() + std::size_t{1});
  return means[worker.value()];
}

std::optional<PairRate> In(const std::vector<std::optional<PairRate>>& means, WorkerSlot worker) {
  return worker.value() < means.size() ? means[worker.value()] : std::nullopt;
}

// Blocks after the first tell the rate, and the first one the start. One block alone, or all at once, tells only both
// together: then all of the time counts for the bytes. Behind a queue the start says nothing, and the link was shared
// while the blocks came: it is as fast as they were, and no faster than if all that was queued came in the same time.
// Only a part of that may have: what a report tells is old, and fetches take turns.
Shown RateOfArrival(const Arrival& arrival, double known_start) {
  const auto bytes = static_cast<double>(arrival.bytes);
  const double first_bytes = bytes / arrival.block_count;
  const double rest_seconds = arrival.seconds - arrival.first_block_seconds;
  const double all_bytes = bytes + arrival.queued_bytes;
  if (arrival.block_count == 1 || rest_seconds <= 0) {
    return {.least = {0, bytes / arrival.seconds}, .most_bytes_per_second = all_bytes / arrival.seconds};
  }
  const double rate = (bytes - first_bytes) / rest_seconds;
  if (arrival.queued_bytes > 0) {
    const double flowing = std::max(arrival.seconds - known_start, rest_seconds);
    return {.least = {known_start, rate}, .most_bytes_per_second = std::max(rate, all_bytes / flowing)};
  }
  return {.least = {std::max(0.0, arrival.first_block_seconds - first_bytes / rate), rate},
          .most_bytes_per_second = rate};
}

// Neither says anything of the pair.
bool IsNoFault(std::optional<wire::HoldOutcome> outcome) {
  return outcome == wire::HoldOutcome::kNoRoom || outcome == wire::HoldOutcome::kCancelled;
}

// A source that holds nothing of what it is asked for was asked in vain.
bool IsDone(std::optional<wire::HoldOutcome> outcome, std::uint32_t block_count) {
  return outcome == wire::HoldOutcome::kComplete || (outcome == wire::HoldOutcome::kMissing && block_count > 0);
}

}  // namespace

PairRates::Pair& PairRates::Touch(WorkerPair ends) {
  const auto place = places_.find(ends);
  if (place != places_.end()) {
    pairs_.splice(pairs_.begin(), pairs_, place->second);
    return pairs_.front();
  }
  if (pairs_.size() == kMaxPairs) {
    places_.erase(pairs_.back().ends);
    pairs_.pop_back();
  }
  pairs_.push_front({.ends = ends});
  places_.emplace(ends, pairs_.begin());
  return pairs_.front();
}

void PairRates::Observe(WorkerPair ends, const Arrival& arrival, Instant now) {
  if (arrival.block_count == 0 || arrival.bytes == 0 || arrival.seconds <= 0) return;
  Pair& pair = Touch(ends);
  const Shown shown = RateOfArrival(arrival, pair.rate ? pair.rate->start_seconds : 0);
  Blend(pair.rate, shown);
  pair.observed_at = now;
  Blend(At(out_, ends.from), shown);
  Blend(At(in_, ends.to), shown);
  Blend(of_all_, shown);
  FindFastest();
}

void PairRates::OnEnd(WorkerPair ends, std::optional<wire::HoldOutcome> outcome, std::uint32_t block_count,
                      Instant now) {
  Pair& pair = Touch(ends);
  pair.has_ended = true;
  pair.last_outcome = outcome;
  if (IsNoFault(outcome)) return;
  if (IsDone(outcome, block_count)) {
    ++pair.done_count;
    pair.next_pause = kFirstPause;
    pair.paused_until = {};
    return;
  }
  ++pair.failed_count;
  if (outcome == wire::HoldOutcome::kWrong) {
    pair.paused_until = now + kWrongPause;
    return;
  }
  pair.paused_until = now + pair.next_pause;
  pair.next_pause = std::min(2 * pair.next_pause, kLastPause);
}

void PairRates::Forget(WorkerSlot worker) {
  for (auto pair = pairs_.begin(); pair != pairs_.end();) {
    const bool is_of_it = pair->ends.from == worker || pair->ends.to == worker;
    if (is_of_it) places_.erase(pair->ends);
    pair = is_of_it ? pairs_.erase(pair) : std::next(pair);
  }
  At(out_, worker).reset();
  At(in_, worker).reset();
  FindFastest();
}

void PairRates::FindFastest() {
  fastest_.reset();
  for (const Pair& pair : pairs_) {
    if (!pair.rate) continue;
    if (!fastest_) fastest_ = pair.rate;
    fastest_->start_seconds = std::min(fastest_->start_seconds, pair.rate->start_seconds);
    fastest_->bytes_per_second = std::max(fastest_->bytes_per_second, pair.rate->bytes_per_second);
  }
}

std::optional<PairRate> PairRates::MeanOf(WorkerPair ends) const {
  const std::optional<PairRate> out = In(out_, ends.from);
  const std::optional<PairRate> in = In(in_, ends.to);
  if (out && in) return out->bytes_per_second < in->bytes_per_second ? out : in;
  if (out || in) return out ? out : in;
  return of_all_;
}

PairRates::Expected PairRates::Expect(WorkerPair ends, Instant now) const {
  const auto place = places_.find(ends);
  if (place == places_.end()) return {.rate = MeanOf(ends)};
  const Pair& pair = *place->second;
  return {.rate = pair.rate ? pair.rate : MeanOf(ends),
          .is_own = pair.rate.has_value(),
          .is_fresh = pair.rate.has_value() && now - pair.observed_at < kFreshTime,
          .is_paused = now < pair.paused_until};
}

}  // namespace roost::router
