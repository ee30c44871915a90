// What a request would wait for on each worker, in seconds: the sum that the cache-aware policy minimises, and that
// every decision reports.
//
//   wait     = queued prefill / prefill rate          what stands before it in the worker's queue
//            + decode step · (steps of prefill)       each prefill step carries the running decodes along
//            + slot wait                              when batch slots or blocks are short: until requests end
//   prefill  = uncached tokens / prefill rate
//
// A worker whose rates are not known yet is taken to be as fast as the mean of those that are known. While none is
// known there are no seconds, only an order: (queued + uncached) · (batch + 1), at a nominal rate; small batches and
// long matches win, as in LMetric's product of uncached tokens and batch size.
#pragma once

#include <span>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

// Prompt tokens that a worker which holds `matched_block_count` leading blocks need not compute. Full blocks only, and
// never the whole prompt: its last token is always computed, for its logits.
[[nodiscard]] std::uint32_t CachedTokens(const RouteQuery& query, const WorkerView& worker);

// One candidate per worker, in the order of `workers`.
[[nodiscard]] std::vector<Candidate> PredictCosts(const RouteQuery& query, std::span<const WorkerView> workers);

}  // namespace roost::router
