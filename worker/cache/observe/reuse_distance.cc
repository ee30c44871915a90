#include "worker/cache/observe/reuse_distance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::worker {
namespace {

// A block is in the sample if its mixed hash is not above this.
std::uint64_t ThresholdOf(double rate) {
  return rate < 1 ? static_cast<std::uint64_t>(std::ldexp(rate, 64)) : std::numeric_limits<std::uint64_t>::max();
}

// The lowest set bit: how many slots entry `index` of a Fenwick tree counts.
std::uint32_t SpanOf(std::uint32_t index) { return index & (0U - index); }

}  // namespace

ReuseDistance::ReuseDistance(const ReuseDistanceOptions& options)
    : largest_pool_(options.largest_pool),
      max_samples_(std::min(options.max_samples, options.largest_pool)),
      rate_(static_cast<double>(max_samples_) / options.largest_pool),
      // The stack's table uses a different seed: otherwise the sampled blocks would all fall into one part of the
      // table.
      sampling_seed_(Mix64(options.seed + 1)),
      threshold_(ThresholdOf(rate_)),
      half_life_accesses_(std::uint64_t{options.half_life} * options.largest_pool),
      stack_(2 * max_samples_, max_samples_),
      in_use_(2 * std::size_t{max_samples_} + 1),
      hits_(max_samples_),
      accesses_to_halve_(half_life_accesses_) {
  ROOST_CHECK(max_samples_ > 0 && half_life_accesses_ > 0, "{} samples for {} blocks, half-life {}",
              options.max_samples, options.largest_pool, options.half_life);
}

void ReuseDistance::Access(std::span<const BlockHash> prompt) {
  for (const BlockHash hash : prompt) {
    if (IsSampled(hash)) Count(hash.low);
  }
  accesses_ += static_cast<double>(prompt.size());
  if (accesses_to_halve_ <= prompt.size()) Halve();
  accesses_to_halve_ -= std::min<std::uint64_t>(prompt.size(), accesses_to_halve_);
  Use(prompt);
}

void ReuseDistance::Use(std::span<const BlockHash> blocks) {
  for (auto hash = blocks.rbegin(); hash != blocks.rend(); ++hash) {
    if (IsSampled(*hash)) MoveToTop(hash->low);
  }
}

std::optional<double> ReuseDistance::HitRateAt(std::uint32_t pool_blocks) const {
  ROOST_CHECK(pool_blocks <= largest_pool_, "{} blocks", pool_blocks);
  if (accesses_ == 0) return std::nullopt;
  const double pool_samples = pool_blocks * rate_;
  const auto whole = static_cast<std::ptrdiff_t>(pool_samples);
  double hits = std::accumulate(hits_.begin(), hits_.begin() + whole, 0.0);
  if (pool_samples > static_cast<double>(whole)) {
    hits += hits_[static_cast<std::size_t>(whole)] * (pool_samples - static_cast<double>(whole));
  }
  const double expected_accesses = accesses_ * rate_;
  return std::clamp((hits + expected_accesses - sampled_accesses_) / expected_accesses, 0.0, 1.0);
}

void ReuseDistance::Count(std::uint64_t key) {
  ++sampled_accesses_;
  if (const std::optional<std::uint32_t> slot = stack_.Find(key)) ++hits_[DistanceOf(*slot)];
}

void ReuseDistance::MoveToTop(std::uint64_t key) {
  if (top_ == 2 * max_samples_) Pack();
  if (const std::optional<std::uint32_t> slot = stack_.Find(key)) {
    AddAt(*slot, 0U - 1U);
    stack_.Move(*slot, top_);
  } else {
    if (stack_.size() == max_samples_) DropOldest();
    stack_.Put(top_, key);
  }
  AddAt(top_, 1);
  ++top_;
}

void ReuseDistance::DropOldest() {
  while (!stack_.Holds(oldest_)) ++oldest_;
  stack_.Erase(oldest_);
  AddAt(oldest_, 0U - 1U);
}

// Moves the keys to the first slots, in their order.
void ReuseDistance::Pack() {
  std::uint32_t packed = 0;
  for (std::uint32_t slot = oldest_; slot < top_; ++slot) {
    if (!stack_.Holds(slot)) continue;
    if (slot != packed) stack_.Move(slot, packed);
    ++packed;
  }
  oldest_ = 0;
  top_ = packed;
  for (std::uint32_t index = 1; index < in_use_.size(); ++index) {
    const std::uint32_t first = index - SpanOf(index);  // of the slots that it counts
    in_use_[index] = std::min(SpanOf(index), packed - std::min(packed, first));
  }
}

std::uint32_t ReuseDistance::DistanceOf(std::uint32_t slot) const {
  std::uint32_t up_to_slot = 0;
  for (std::uint32_t index = slot + 1; index > 0; index -= SpanOf(index)) up_to_slot += in_use_[index];
  return stack_.size() - up_to_slot;
}

// Modulo 2^32, so that adding the complement subtracts.
void ReuseDistance::AddAt(std::uint32_t slot, std::uint32_t summand) {
  for (std::uint32_t index = slot + 1; index < in_use_.size(); index += SpanOf(index)) in_use_[index] += summand;
}

void ReuseDistance::Halve() {
  for (double& count : hits_) count /= 2;
  sampled_accesses_ /= 2;
  accesses_ /= 2;
  accesses_to_halve_ += half_life_accesses_;
}

}  // namespace roost::worker
