#include "router/route/cost.h"

#include <algorithm>

namespace roost::router {

namespace {

// A busy share above it counts as this one, so the factor 1 / (1 - ρ) is at most 33.
constexpr double kMaxBusyShare = 0.97;
// A computed token costs its own time, and the time to compute again the token that it evicts.
constexpr double kPriceOfAMiss = 2;
// Measured speeds within this factor of the mean count as the mean.
constexpr double kSpeedNoise = 1.5;
// The share of a prefill's time that an answer which runs there pays for it.
constexpr double kStallShare = 0.4;

struct Rates {
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;
};

Rates MeanOf(const FleetSpeed& speed) { return {speed.prefill_tokens_per_second, speed.decode_step_seconds}; }

// The step of an idle worker may be fitted as 0.
bool KnowsDecodes(const WorkerView& worker) {
  const DecodeCost& cost = worker.decode;
  return worker.decode_step_seconds > 0 ||
         cost.base_seconds + cost.per_request_seconds + cost.per_context_token_seconds > 0;
}

// A worker's unknown rates are taken from the others, scaled to its own pace. Otherwise the worker whose decodes were
// measured first would seem slower.
Rates RatesOf(const WorkerView& worker, const FleetSpeed& speed) {
  const double own = worker.prefill_tokens_per_second;
  if (own <= 0) return MeanOf(speed);
  if (KnowsDecodes(worker)) return {own, worker.decode_step_seconds};
  return {own, speed.decode_step_seconds * speed.prefill_tokens_per_second / own};
}

double StepTokens(const WorkerView& worker) { return static_cast<double>(worker.max_batch_tokens); }

double Batch(const WorkerView& worker) {
  return static_cast<double>(worker.running_requests) + static_cast<double>(worker.waiting_requests);
}

double SecondsPerToken(const WorkerView& worker, Rates rates) {
  return 1 / rates.prefill_tokens_per_second + rates.decode_step_seconds / StepTokens(worker);
}

// The worker's time for a token, relative to the mean worker's.
double SlownessOf(const WorkerView& worker, double seconds_per_token, const FleetSpeed& speed) {
  return speed.is_known() ? seconds_per_token / SecondsPerToken(worker, MeanOf(speed)) : 1;
}

// The slowness without measurement noise: 1 within kSpeedNoise of the mean, and continuous at the ends of that range.
double WithoutNoise(double slowness) {
  if (slowness > 1) return std::max(1.0, slowness / kSpeedNoise);
  return std::min(1.0, slowness * kSpeedNoise);
}

// A new prompt's place in a worker's queue: the work before it, and the prompts that it delays.
struct Standing {
  double tokens_before = 0;
  double overtaken = 0;  // prompts; late ones count more
};

Standing StandingOf(const WorkerView& worker, double seconds_per_token, double uncached, std::optional<Instant> now) {
  const auto queued = static_cast<double>(worker.queued_prefill_tokens);
  if (worker.ageing_tokens == 0 || worker.prompts == nullptr || !now.has_value()) return {.tokens_before = queued};
  const PromptQueue::Place place = worker.prompts->PlaceOf(uncached, *now, worker.ageing_tokens, seconds_per_token);
  const double of_others = std::max(0.0, queued - place.all_tokens);
  const double under_way = StepTokens(worker);  // no prompt overtakes the current step
  const double before = std::min(queued, place.before_tokens + of_others + under_way);
  return {.tokens_before = before, .overtaken = place.overtaken};
}

// The time that a request adds to each step that draws a token of it, in seconds. Its context is taken half-way through
// its answer.
double AddedStepSeconds(const WorkerView& worker, double prompt_tokens, double answer_tokens) {
  return worker.decode.StepSeconds(1, prompt_tokens + answer_tokens / 2) - worker.decode.base_seconds;
}

// The number of tokens that are drawn while both the new answer and one that runs there go on, if lengths have no
// memory. After that the loads of the workers tell nothing of each other any more.
double OverlapOf(const AnswerLength& answer) {
  const double sum = answer.own + answer.of_others;
  return sum > 0 ? answer.own * answer.of_others / sum : 0;
}

// The mean step of so many tokens: with those that run there and those that wait there, whose contexts grow meanwhile.
double StepWithAll(const WorkerView& worker, Rates rates, double tokens) {
  const auto waiting_context = static_cast<double>(worker.queued_prefill_tokens + worker.waiting_cached_tokens);
  const double more_context = waiting_context + Batch(worker) * tokens / 2;
  return rates.decode_step_seconds + worker.decode.StepSeconds(worker.waiting_requests, more_context) -
         worker.decode.base_seconds;
}

// The share of answers with this prediction that count as beyond the bound.
double ShareBeyond(double seconds, double bound) {
  return bound > 0 ? std::clamp(2 * seconds / bound - 1, 0.0, 1.0) : 0;
}

// `step_before` is the mean time between tokens there without the request.
double SloSeconds(const AnswerLength& answer, const SloBounds& slo, const WorkerView& worker, const CostTerms& terms,
                  double step_before) {
  if (slo.ttft_seconds <= 0 && slo.itl_seconds <= 0) return 0;
  const double slow_tokens = ShareBeyond(terms.token_seconds, slo.itl_seconds);
  const double own = std::max(slow_tokens, ShareBeyond(terms.ttft_seconds(), slo.ttft_seconds));
  const double of_others = slow_tokens - ShareBeyond(step_before, slo.itl_seconds);
  return own * terms.whole_seconds(answer.own) +
         of_others * worker.running_requests * answer.of_others * terms.token_seconds;
}

void AddPull(const PromptOnWorker& prompt, const WorkerView& worker, Candidate& candidate) {
  PromptOnWorker with_pull = prompt;
  with_pull.matched_block_count = prompt.pull->end_block();
  const std::uint32_t tokens = CachedTokens(with_pull, worker.hit_ends());
  candidate.pulled_tokens = tokens - candidate.matched_tokens;
  candidate.matched_tokens = tokens;
  candidate.pull = prompt.pull;
}

Candidate OrderWithoutRates(const WorkerView& worker, Candidate candidate, double uncached, double answer_tokens) {
  // Counts as if the tokens of a usual step took one second.
  const double weight = (Batch(worker) + 1) / kUsualBatchTokens;
  candidate.queue_seconds = static_cast<double>(worker.queued_prefill_tokens) * weight;
  candidate.prefill_seconds = uncached * weight;
  candidate.answer_seconds = answer_tokens * weight;
  return candidate;
}

}  // namespace

std::string_view NameOf(Way way) {
  switch (way) {
    case Way::kHeld: return "held";
    case Way::kCompute: return "compute";
    case Way::kPull: return "pull";
    case Way::kRestore: return "restore";
  }
  return "unknown";
}

std::uint32_t CachedTokens(const PromptOnWorker& prompt, const HitEnds& ends) {
  if (prompt.prompt_token_count == 0) return 0;
  const std::uint32_t usable_blocks = (prompt.prompt_token_count - 1) / ends.block_tokens;
  std::uint32_t tokens = std::min(prompt.matched_block_count, usable_blocks) * ends.block_tokens;
  if (ends.engine_block_tokens > ends.block_tokens) tokens -= tokens % ends.engine_block_tokens;
  return tokens - std::min(tokens, ends.dropped_tokens);
}

WorkerPrices::WorkerPrices(const PromptOnWorker& prompt, const WorkerView& worker, const FleetSpeed& speed,
                           std::optional<Instant> now)
    : worker_(worker),
      now_(now),
      prompt_token_count_(prompt.prompt_token_count),
      answer_(prompt.answer),
      slo_(prompt.slo) {
  const Rates rates = RatesOf(worker, speed);
  if (rates.prefill_tokens_per_second <= 0) return;
  prefill_tokens_per_second_ = rates.prefill_tokens_per_second;
  decode_step_seconds_ = rates.decode_step_seconds;
  seconds_per_token_ = SecondsPerToken(worker, rates);
  const double overlap = OverlapOf(answer_);
  step_before_ = StepWithAll(worker, rates, overlap);
  token_seconds_ = step_before_ + AddedStepSeconds(worker, prompt_token_count_, answer_.own);
  answer_seconds_ = overlap * token_seconds_;
  const double slowness = SlownessOf(worker, seconds_per_token_, speed);
  pace_ = WithoutNoise(slowness) / slowness;
  const double answer_slowness = worker.decode_slowness / speed.decode_slowness;
  answer_pace_ = WithoutNoise(answer_slowness) / answer_slowness;
  congestion_ = kPriceOfAMiss / (1 - std::clamp(speed.busy_share, 0.0, kMaxBusyShare));
}

[[gnu::always_inline]] inline void WorkerPrices::Fill(const There& there, CostTerms& terms) const {
  const WorkerView& worker = worker_;
  const auto uncached = static_cast<double>(prompt_token_count_ - there.tokens);
  const Standing standing = StandingOf(worker, seconds_per_token_, uncached, now_);
  terms.queue_seconds = standing.tokens_before * seconds_per_token_;
  terms.transfer_seconds = there.transfer_seconds;
  terms.prefill_seconds = uncached / prefill_tokens_per_second_;
  terms.decode_seconds = decode_step_seconds_ * std::max(1.0, uncached / StepTokens(worker));
  terms.delay_seconds = terms.prefill_seconds * standing.overtaken;
  terms.token_seconds = token_seconds_;
  terms.answer_seconds = answer_seconds_;
  const double stalled = kStallShare * worker.running_requests;  // seconds, for each of prefill
  terms.stall_seconds = stalled * terms.prefill_seconds;
  terms.slo_seconds = SloSeconds(answer_, slo_, worker, terms, step_before_);
  terms.congestion = congestion_;
  terms.pace = pace_;
  terms.answer_pace = answer_pace_;
  const double computing_seconds = there.displacing_tokens / prefill_tokens_per_second_;
  terms.displaced_seconds = (terms.congestion - 1 + stalled / kPriceOfAMiss) * computing_seconds;
}

CostTerms WorkerPrices::TermsWith(const There& there) const {
  CostTerms terms;
  Fill(there, terms);
  return terms;
}

Candidate WorkerPrices::With(const PromptOnWorker& prompt) const {
  Candidate candidate;
  candidate.slot = worker_.slot;
  candidate.matched_tokens = CachedTokens(prompt, worker_.hit_ends());
  const std::uint32_t held_tokens = (prompt.matched_block_count - prompt.pending_block_count) * worker_.block_tokens;
  candidate.pending_tokens = candidate.matched_tokens - std::min(candidate.matched_tokens, held_tokens);
  candidate.is_pending_coming = prompt.pending_seconds > 0;
  if (prompt.pull.has_value()) AddPull(prompt, worker_, candidate);
  if (prefill_tokens_per_second_ <= 0) {
    const auto uncached = static_cast<double>(prompt_token_count_ - candidate.matched_tokens);
    return OrderWithoutRates(worker_, candidate, uncached, answer_.own);
  }
  const double transfer_seconds = prompt.pull.has_value() ? prompt.pull->price.seconds : 0.0;
  Fill({.tokens = candidate.matched_tokens,
        .displacing_tokens = candidate.way() == Way::kRestore ? 0 : candidate.pulled_tokens,
        .transfer_seconds = std::max(prompt.pending_seconds, transfer_seconds)},
       candidate);
  return candidate;
}

Candidate PredictCost(const PromptOnWorker& prompt, const WorkerView& worker, const FleetSpeed& speed,
                      std::optional<Instant> now) {
  return WorkerPrices(prompt, worker, speed, now).With(prompt);
}

double LoadTokens(const WorkerView& worker, const FleetSpeed& speed) {
  const Rates rates = RatesOf(worker, speed);
  if (rates.prefill_tokens_per_second <= 0) {
    return (static_cast<double>(worker.queued_prefill_tokens) + kUsualBatchTokens) * (Batch(worker) + 1);
  }
  const double seconds_per_token = SecondsPerToken(worker, rates);
  const double waiting = PredictCost({.answer = kUsualAnswer}, worker, speed).queue_seconds;
  const double tokens = OverlapOf(kUsualAnswer);
  const double answering = tokens * (StepWithAll(worker, rates, tokens) - worker.decode.base_seconds);
  const double busy = worker.decode.base_seconds > 0 ? waiting + answering : waiting;
  return (busy / seconds_per_token + kUsualBatchTokens) * WithoutNoise(SlownessOf(worker, seconds_per_token, speed));
}

double PrefillTokenSeconds(const WorkerView& worker, const FleetSpeed& speed) {
  const double tokens_per_second = RatesOf(worker, speed).prefill_tokens_per_second;
  return tokens_per_second > 0 ? 1 / tokens_per_second : 0;
}

double PrefillSeconds(const WorkerView& worker, std::uint64_t prompt_tokens) {
  if (worker.prefill_tokens_per_second <= 0) return 0;
  return static_cast<double>(prompt_tokens) * SecondsPerToken(worker, RatesOf(worker, {}));
}

}  // namespace roost::router
