#include "router/route/cost.h"

#include <algorithm>
#include <cmath>

namespace roost::router {

namespace {

// The token budget of one engine step of a worker that does not tell its own. Only the number of steps that a prefill
// is cut into hangs on it.
constexpr double kUsualStepTokens = 512;
// A running request is taken to draw this many tokens more before it gives its slot back.
constexpr double kAssumedRemainingTokens = 128;
// Gives the order before any rate is known a scale of seconds.
constexpr double kNominalTokensPerSecond = 1000;

struct Rates {
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;
};

double Batch(const WorkerView& worker) {
  return static_cast<double>(worker.running_requests) + static_cast<double>(worker.waiting_requests);
}

// Of the workers that know theirs; zero when none does.
Rates MeanRates(std::span<const WorkerView> workers) {
  Rates sum;
  double count = 0;
  for (const WorkerView& worker : workers) {
    if (worker.prefill_tokens_per_second <= 0) continue;
    sum.prefill_tokens_per_second += worker.prefill_tokens_per_second;
    sum.decode_step_seconds += worker.decode_step_seconds;
    ++count;
  }
  if (count == 0) return {};
  return {sum.prefill_tokens_per_second / count, sum.decode_step_seconds / count};
}

// How many requests must end before the next one gets a batch slot and its blocks.
double RequestsToOutwait(const WorkerView& worker, double uncached) {
  const double over = Batch(worker) + 1 - static_cast<double>(worker.max_running_requests);
  const double needed_blocks = std::ceil(uncached / static_cast<double>(worker.block_tokens));
  const double short_of_blocks = needed_blocks > static_cast<double>(worker.free_block_count) ? 1 : 0;
  return std::max({over, short_of_blocks, 0.0});
}

Candidate OrderWithoutRates(const WorkerView& worker, Candidate candidate, double uncached) {
  const double weight = (Batch(worker) + 1) / kNominalTokensPerSecond;
  candidate.wait_seconds = static_cast<double>(worker.queued_prefill_tokens) * weight;
  candidate.prefill_seconds = uncached * weight;
  return candidate;
}

Candidate PredictSeconds(const WorkerView& worker, Candidate candidate, double uncached, Rates rates) {
  const auto queued = static_cast<double>(worker.queued_prefill_tokens);
  candidate.prefill_seconds = uncached / rates.prefill_tokens_per_second;
  candidate.wait_seconds = queued / rates.prefill_tokens_per_second;
  if (worker.running_requests > 0) {
    const double step_tokens = worker.max_batch_tokens > 0 ? worker.max_batch_tokens : kUsualStepTokens;
    candidate.wait_seconds += rates.decode_step_seconds * std::ceil((queued + uncached) / step_tokens);
  }
  const double slots = std::max(1.0, static_cast<double>(worker.max_running_requests));
  candidate.wait_seconds +=
      RequestsToOutwait(worker, uncached) * kAssumedRemainingTokens * rates.decode_step_seconds / slots;
  return candidate;
}

}  // namespace

std::uint32_t CachedTokens(const RouteQuery& query, const WorkerView& worker) {
  if (query.prompt_token_count == 0) return 0;
  const std::uint32_t usable_blocks = (query.prompt_token_count - 1) / worker.block_tokens;
  return std::min(worker.matched_block_count, usable_blocks) * worker.block_tokens;
}

std::vector<Candidate> PredictCosts(const RouteQuery& query, std::span<const WorkerView> workers) {
  const Rates mean = MeanRates(workers);
  std::vector<Candidate> candidates;
  candidates.reserve(workers.size());
  for (const WorkerView& worker : workers) {
    Candidate candidate{.slot = worker.slot, .matched_tokens = CachedTokens(query, worker)};
    const std::uint32_t held_tokens = (worker.matched_block_count - worker.pending_block_count) * worker.block_tokens;
    candidate.pending_tokens = candidate.matched_tokens - std::min(candidate.matched_tokens, held_tokens);
    const double uncached = static_cast<double>(query.prompt_token_count - candidate.matched_tokens);
    if (mean.prefill_tokens_per_second <= 0) {
      candidates.push_back(OrderWithoutRates(worker, candidate, uncached));
      continue;
    }
    const Rates own{worker.prefill_tokens_per_second, worker.decode_step_seconds};
    const Rates& rates = own.prefill_tokens_per_second > 0 ? own : mean;
    candidates.push_back(PredictSeconds(worker, candidate, uncached, rates));
  }
  return candidates;
}

}  // namespace roost::router
