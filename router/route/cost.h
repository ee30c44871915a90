// What a request would cost on a worker, in seconds: the sum that the cache-aware policy minimises, and that every
// decision reports, term by term.
//
//   ttft  = max(queue, slots) + prefill + decode
//   cost  = pace · (max(queue, slots) + growth + congestion · (prefill + decode) + delay)
//
//   queue       the uncached tokens before it, at the worker's pace. Where short prompts go first these are the shorter
//               prompts of all routers, and the step under way
//   slots       until running requests end, where batch slots or blocks are short; passes at the same time as the queue
//   prefill     its own uncached tokens ÷ prefill rate
//   decode      the running decodes that its own prefill steps also compute, at least one step
//   growth      shorter prompts that may come and overtake it while it waits: the queue over
//               1 - ρ · (the part of the work that is shorter). It affects the choice only, not the prediction
//   delay       the prompts that its prefill holds up: prefill · the prompts that it overtakes. A prompt that has
//   waited
//               long counts up to 20 times (prompt_queue.h). In a saturated fleet all prompts are late: there each
//               request that waits at the worker counts twice instead
//   congestion  2 / (1 - ρ), ρ the busy share of the fleet. Computing what a longer match would have saved delays all
//               later requests, the more the busier the fleet is; and it counts twice, because what is computed evicts
//               as much, which is then computed again. A router without this term minimises each request's own wait and
//               recomputes prefixes until the fleet is full
//   pace        makes workers equal whose measured speeds differ by less than measurements do (a factor of 1.5 from the
//               mean). Otherwise the worker that seems a little faster would get every new prefix of an idle fleet, and
//               the others' caches would stay empty
//
// Every term is continuous in the load, so the choice between affinity and balance has no cliff. router/route/README.md
// says what each term and constant is worth.
//
// A worker with unknown rates counts as fast as the mean of the known ones. While none is known there are no seconds,
// only an order: (queued + uncached) · (batch + 1), after LMetric's product of new prefill tokens and batch size (Zhang
// et al., arXiv 2603.15202).
//
// The congestion weight comes from the mean wait of a single queue, which grows with 1 / (1 - ρ). The growth term comes
// from the residence time under shortest remaining time first (Schrage and Miller, Operations Research 14, 1966), which
// grows with 1 / (1 - ρ of the shorter ones).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "router/route/worker_view.h"

namespace roost::router {

// Means over a fleet's workers, see WorkerView. Each rate is the mean of the known ones, 0 when none is known.
struct FleetSpeed {
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;
  double busy_share = 0;

  [[nodiscard]] bool is_known() const { return prefill_tokens_per_second > 0; }
};

// One worker with its price for a request.
struct Candidate {
  WorkerSlot slot;
  std::uint32_t matched_tokens = 0;  // prompt tokens that it need not compute
  std::uint32_t pending_tokens = 0;  // those of them that are still being computed there, and so are in its queue
  double queue_seconds = 0;
  double growth_seconds = 0;
  double slot_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double delay_seconds = 0;
  double congestion = 1;
  double pace = 1;

  [[nodiscard]] double wait_seconds() const { return std::max(queue_seconds, slot_seconds); }
  [[nodiscard]] double ttft_seconds() const { return wait_seconds() + prefill_seconds + decode_seconds; }
  // The worker's computing time for it, with its weight.
  [[nodiscard]] double work_seconds() const { return congestion * (prefill_seconds + decode_seconds); }
  [[nodiscard]] double cost_seconds() const {
    return pace * (wait_seconds() + growth_seconds + work_seconds() + delay_seconds);
  }
};

struct PromptOnWorker {
  std::uint32_t prompt_token_count = 0;
  std::uint32_t matched_block_count = 0;  // leading blocks that the worker holds, or will hold when its queue is done
  std::uint32_t pending_block_count = 0;  // of these, the last ones are still being computed
};

// Prompt tokens that a worker need not compute. Full blocks only, and never the whole prompt: its last token is always
// computed, for its logits.
[[nodiscard]] std::uint32_t CachedTokens(PromptOnWorker prompt, std::uint32_t block_tokens);

// Without a time the order of the worker's queue is ignored: all of it goes first. O(prompts queued there).
[[nodiscard]] Candidate PredictCost(PromptOnWorker prompt, const WorkerView& worker, const FleetSpeed& speed,
                                    std::optional<Instant> now = {});

// The load by which workers are ordered: how long a prompt of one full step, of which nothing is cached, would take, in
// tokens that the mean worker computes in that time. So a slow worker counts as loaded. Idle workers of about the same
// speed are exactly equal.
[[nodiscard]] double LoadTokens(const WorkerView& worker, const FleetSpeed& speed);

// The time that the worker needs for this many prompt tokens, in full steps that also compute its decodes. Zero while
// its rates are not known.
[[nodiscard]] double PrefillSeconds(const WorkerView& worker, std::uint64_t prompt_tokens);

}  // namespace roost::router
