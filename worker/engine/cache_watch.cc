#include "worker/engine/cache_watch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace roost::worker {
namespace {

bool Agree(std::span<const float> left, std::span<const float> right, float tolerance) {
  if (left.size() != right.size()) return false;
  float largest = 0;
  float difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i]));
    const float gap = std::abs(left[i] - right[i]);
    if (!(gap <= difference)) difference = gap;  // also where it is no number
  }
  return difference <= tolerance * largest;
}

}  // namespace

std::vector<SourceId> SourcesOf(const PrefixCache& cache, std::span<const BlockId> blocks) {
  std::vector<SourceId> sources;
  for (const BlockId block : blocks) {
    const SourceId source = cache.tree()[block.value()].source;
    if (source == SourceId() || std::find(sources.begin(), sources.end(), source) != sources.end()) continue;
    sources.push_back(source);
  }
  return sources;
}

void HitVerifier::OnPromptComputed(const Sequence& sequence, const std::function<std::span<const float>()>& logits) {
  if (share_ <= 0 || check_ || sequence.cached_token_count == 0 || rng_.Uniform() >= share_) return;
  const auto prompt_end = sequence.tokens.begin() + sequence.prompt_token_count;
  const Result<SequenceId> submitted = scheduler_.Submit({.root = sequence.root,
                                                          .own = sequence.own,
                                                          .prompt = {sequence.tokens.begin(), prompt_end},
                                                          .priority = 0,
                                                          .cache_mode = wire::CacheMode::kOff,
                                                          .group = sequence.group,
                                                          .tenant = cache_.tenants().name(sequence.tenant)});
  // A full queue leaves no room for checks.
  if (!submitted.ok()) return;
  const std::span<const float> expected = logits();
  const std::size_t prompt_blocks = (sequence.prompt_token_count + cache_.block_tokens() - 1) / cache_.block_tokens();
  const auto blocks = std::span(sequence.blocks).first(std::min(prompt_blocks, sequence.blocks.size()));
  check_ = Check{*submitted, {expected.begin(), expected.end()}, SourcesOf(cache_, blocks)};
}

HitVerifier::Judgement HitVerifier::Judge(std::span<const float> logits) {
  Check check = std::move(*check_);
  check_.reset();
  return {check.sequence, Agree(check.expected, logits, tolerance_), std::move(check.sources)};
}

namespace {

constexpr Duration kCurveInterval = std::chrono::seconds(1);

std::uint32_t TimesPool(double multiple, std::uint32_t block_count) {
  constexpr double kLargest = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::clamp(multiple * block_count, 1.0, kLargest));
}

}  // namespace

CacheWatch::CacheWatch(PrefixCache& cache, const Scheduler& scheduler)
    : cache_(cache),
      scheduler_(scheduler),
      reuse_({.largest_pool = TimesPool(kPoolMultiples.back(), cache.pool().block_count())}) {}

void CacheWatch::OnSubmitted(Request& request, const Sequence& sequence) {
  if (!sequence.uses_cache() || sequence.prompt_token_count < cache_.block_tokens()) return;
  const auto first_block = std::span(sequence.tokens).first(cache_.block_tokens());
  request.other_root = salts_.Observe(request.root, first_block) == SaltFinding::kOtherRoot;
}

void CacheWatch::OnStarted(const Request& request, const Sequence& sequence) {
  if (!sequence.uses_cache()) return;
  const std::size_t prompt_blocks = sequence.prompt_token_count / cache_.block_tokens();
  reuse_.Access(std::span(sequence.hashes).first(prompt_blocks));
  prompts_came_ = true;
  if (request.other_root && sequence.cached_token_count == 0) salts_.CountFound(cache_.block_tokens());
}

void CacheWatch::OnEnd(const Sequence& sequence) {
  if (sequence.uses_cache() && sequence.cached_token_count + sequence.computed_token_count > 0) {
    reuse_.Use(sequence.hashes);
  }
}

void CacheWatch::Fill(Instant now, StepReport& report) {
  StepCounts& counts = report.counts;
  const CacheCounters& cache = cache_.counters();
  counts.evicted_blocks = cache.evicted_blocks - reported_cache_.evicted_blocks;
  counts.verification_misses = cache.verification_misses - reported_cache_.verification_misses;
  counts.refused_pins = cache.refused_pins - reported_cache_.refused_pins;
  counts.refused_retentions = cache.refused_retentions - reported_cache_.refused_retentions;
  reported_cache_ = cache;
  FillReasons(counts);
  counts.residency = cache_.TakeResidency();
  if (!prompts_came_ || now < next_curve_) return;
  next_curve_ = now + kCurveInterval;
  HitRateCurve& curve = report.hit_rates.emplace();
  for (std::size_t i = 0; i < curve.size(); ++i) {
    curve[i] = reuse_.HitRateAt(TimesPool(kPoolMultiples[i], cache_.pool().block_count())).value_or(0);
  }
}

void CacheWatch::FillReasons(StepCounts& counts) {
  const SchedulerCounters& scheduler = scheduler_.counters();
  for (std::size_t reason = 0; reason < counts.computed_prompt_tokens.size(); ++reason) {
    counts.computed_prompt_tokens[reason] =
        scheduler.computed_prompt_tokens[reason] - reported_scheduler_.computed_prompt_tokens[reason];
  }
  std::uint64_t& cold = counts.computed_prompt_tokens[IndexOf(MissReason::kCold)];
  const std::uint64_t other_salt = salts_.TakeShare(cold);
  cold -= other_salt;
  counts.computed_prompt_tokens[IndexOf(MissReason::kOtherSalt)] += other_salt;
  counts.tail_cached_tokens = scheduler.tail_cached_tokens - reported_scheduler_.tail_cached_tokens;
  counts.preemptions = scheduler.preemptions - reported_scheduler_.preemptions;
  counts.dropped_pins = scheduler.dropped_pins - reported_scheduler_.dropped_pins;
  counts.returned_sessions = scheduler.returned_sessions - reported_scheduler_.returned_sessions;
  reported_scheduler_ = scheduler;
}

}  // namespace roost::worker
