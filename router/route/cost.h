// The cost of a request on a worker, in seconds: the sum that the cache-aware policy minimises, and that every decision
// reports, term by term.
//
//   ttft  = max(queue, transfer) + prefill + decode
//   cost  = max(pace · queue, transfer) + pace · (congestion · (prefill + decode) + delay + stall + displaced)
//           + answer pace · (answer + slo)
//
// So it is what the request and the others wait until their last tokens; a second of any request counts the same.
//
//   queue       the uncached tokens before it, at the worker's pace. Where short prompts go first, these are those of
//               the shorter prompts of all routers, and of the current step
//   transfer    the time until the blocks are there that the worker fetches from another one (transfers.h), or takes
//               from its disk (pulls.h), if it does.
//               They come while its queue is computed. Not a matter of the worker's speed, so `pace` leaves it alone
//   prefill     its own uncached tokens ÷ prefill rate
//   decode      the running decodes that its own prefill steps also compute, at least one step
//   delay       the prompts that its prefill delays: prefill · the prompts that it overtakes. A prompt that has waited
//               long counts up to 20 times (prompt_queue.h)
//   answer      its own tokens at the step that the worker would have with the requests that run and wait there, and
//               with this one; as many as it draws while those run too. Its later tokens cost the same everywhere
//               (answer_lengths.h predicts lengths). The time that it adds to their steps is about as much, and counts
//               once
//   stall       the answers that run there stand still while its prompt is computed: 0.4 of its prefill for each, as
//               decodes and prompts share their steps
//   displaced   blocks that come evict as many others, which then are nowhere else and are computed again: the cost of
//               computing here what comes, with the congestion weight and half of its stall, less the request's own
//               time, for which it waits for the transfer instead. None for blocks from its disk: what they evict goes
//               there too, as far as the disk may be written
//   slo         only with bounds: an answer that breaks one is lost to its user, and counts with all of its seconds
//               once more: the request's own, and those that run there and would break theirs because of it. An
//               answer near a bound counts in part, from none at half of it to all at the bound
//   congestion  2 / (1 - ρ), where ρ is the busy share of the fleet. Computing tokens that a longer match would have
//               saved delays all later requests, and more so in a busier fleet. It counts twice, because computed
//               blocks evict as many others, which are then computed again. Without this term a router minimises each
//               request's own wait and recomputes prefixes until the fleet is full
//   pace        makes workers equal whose measured speeds differ by no more than the noise of measurements (a factor of
//               1.5 from the mean); one of prompts, one of answers. Otherwise the worker that seems a little faster
//               would get every new prefix of an idle fleet, and the others' caches would stay empty
//
// Every term is continuous in the load, so a small change of load changes the costs only a little.
// tests/results/ablations.tsv says what each term and constant is worth.
//
// A worker with unknown rates counts as fast as the mean of the known ones. While no rates are known, the cost is not a
// time but only an order: (queued + uncached + answer) · (batch + 1), after LMetric's product of new prefill tokens and
// batch size (Zhang et al., arXiv 2603.15202), which knows no answers.
//
// The congestion weight comes from the mean wait of a single queue, which grows with 1 / (1 - ρ).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "router/route/transfers.h"
#include "router/route/worker_view.h"

namespace roost::router {

// Means over a fleet's workers; see WorkerView. Each rate is the mean of the known ones, 0 when none is known.
struct FleetSpeed {
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;
  double decode_slowness = 1;
  double busy_share = 0;

  [[nodiscard]] bool is_known() const { return prefill_tokens_per_second > 0; }
};

// The way in which a worker gets the longest part of the prompt that it need not compute.
enum class Way : std::uint8_t {
  kHeld,     // it has it, or will when its queue is done
  kCompute,  // there is none
  kPull,     // it fetches blocks from another worker
  kRestore,  // it takes blocks from its own disk
};
[[nodiscard]] std::string_view NameOf(Way way);

// Blocks that a worker fetches for a request.
struct PrefixPull {
  WorkerSlot source;              // the worker itself: they come from its disk
  std::uint32_t first_block = 0;  // those before it are there, or on their way
  std::uint32_t block_count = 0;  // from that one on
  TransferPrice price;            // predicted, from the decision on

  [[nodiscard]] std::uint32_t end_block() const { return first_block + block_count; }
};

// The cost's terms.
struct CostTerms {
  double queue_seconds = 0;
  double transfer_seconds = 0;   // until all blocks are there that it fetches: for this request, and for others before
  double displaced_seconds = 0;  // for what has to make room for the blocks that come
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double delay_seconds = 0;
  double token_seconds = 0;   // between two tokens of its answer
  double answer_seconds = 0;  // of the tokens that count, see above
  double stall_seconds = 0;   // by which its prefill lengthens the answers that run there
  double slo_seconds = 0;     // of answers that break a bound
  double congestion = 1;
  double pace = 1;
  double answer_pace = 1;

  // Blocks come while prompts before it are computed.
  [[nodiscard]] double ttft_seconds() const {
    return std::max(queue_seconds, transfer_seconds) + prefill_seconds + decode_seconds;
  }
  // From the decision to the last of so many tokens.
  [[nodiscard]] double whole_seconds(double answer_tokens) const {
    return ttft_seconds() + std::max(0.0, answer_tokens - 1) * token_seconds;
  }
  // The worker's computing time for the request, with the congestion weight.
  [[nodiscard]] double work_seconds() const { return congestion * (prefill_seconds + decode_seconds); }
  // Before its prefill, in the cost.
  [[nodiscard]] double wait_seconds() const { return std::max(pace * queue_seconds, transfer_seconds); }
  [[nodiscard]] double cost_seconds() const {
    return pace * (queue_seconds + work_seconds() + delay_seconds + stall_seconds + displaced_seconds) +
           answer_pace * (answer_seconds + slo_seconds) + std::max(0.0, transfer_seconds - pace * queue_seconds);
  }
};

// One worker with its price for a request.
struct Candidate : CostTerms {
  WorkerSlot slot;
  std::uint32_t matched_tokens = 0;  // prompt tokens that the worker need not compute
  std::uint32_t pending_tokens = 0;  // those of them that it is still computing, and so are in its queue, or fetches
  std::uint32_t pulled_tokens = 0;   // those of them that it would fetch for this request, or take from its disk
  std::uint32_t disk_tokens = 0;     // behind the matched ones that it need not fetch: on its disk
  bool is_pending_coming = false;    // `pending_tokens` are on their way; otherwise the worker computes them
  std::optional<PrefixPull> pull;    // that would bring the pulled ones

  [[nodiscard]] Way way() const {
    if (pull.has_value()) return pull->source == slot ? Way::kRestore : Way::kPull;
    return matched_tokens > 0 ? Way::kHeld : Way::kCompute;
  }
  // Those that it holds, computes for others or fetches for others.
  [[nodiscard]] std::uint32_t held_tokens() const { return matched_tokens - pulled_tokens; }
  // Those that come from another worker, or from its disk.
  [[nodiscard]] std::uint32_t arriving_tokens() const {
    return pulled_tokens + (is_pending_coming ? pending_tokens : 0);
  }
};

// Output tokens, as expected.
struct AnswerLength {
  double own = 0;
  double of_others = 0;  // that are left of an answer that runs
};

// The length to expect if nothing is known of a request.
inline constexpr AnswerLength kUsualAnswer{.own = 256, .of_others = 256};

// The promises to users. An answer that breaks a bound counts more than its seconds; 0: no bound.
struct SloBounds {
  double ttft_seconds = 0;
  double itl_seconds = 0;  // mean time between tokens
};

struct PromptOnWorker {
  std::uint32_t prompt_token_count = 0;
  std::uint32_t matched_block_count = 0;  // leading blocks that the worker holds, or will hold when its queue is done
  std::uint32_t pending_block_count = 0;  // the last of them, which are still being computed, or on their way
  AnswerLength answer = {};
  SloBounds slo = {};
  double pending_seconds = 0;           // until those that are on their way are there
  std::optional<PrefixPull> pull = {};  // to a block behind the matched ones
};

// The prompt tokens that a worker need not compute. Full blocks only, of the engine beside it too, if its are larger,
// without what that computes again; and never the whole prompt: its last token is always computed, for its logits.
[[nodiscard]] std::uint32_t CachedTokens(const PromptOnWorker& prompt, const HitEnds& ends);

// One prompt on one worker, however much of it is there or comes from elsewhere: computes once what does not depend on
// that. Exactly what PredictCost returns. The worker outlives it.
class WorkerPrices {
 public:
  // Takes only the length, the answer and the bounds from `prompt`. See PredictCost for `now`. O(1).
  WorkerPrices(const PromptOnWorker& prompt, const WorkerView& worker, const FleetSpeed& speed,
               std::optional<Instant> now);

  // O(prompts queued there).
  [[nodiscard]] Candidate With(const PromptOnWorker& prompt) const;

  // As many tokens are there when `transfer_seconds` are over, of which these are fetched for the request. Only where
  // some worker's rates are known. O(prompts queued there).
  struct There {
    std::uint32_t tokens = 0;
    std::uint32_t displacing_tokens = 0;  // that come, and evict others for good
    double transfer_seconds = 0;
  };
  [[nodiscard]] CostTerms TermsWith(const There& there) const;

 private:
  void Fill(const There& there, CostTerms& terms) const;

  const WorkerView& worker_;
  const std::optional<Instant> now_;
  const std::uint32_t prompt_token_count_;
  const AnswerLength answer_;
  const SloBounds slo_;
  double prefill_tokens_per_second_ = 0;  // 0: no worker's rates are known, and then nothing below is
  double decode_step_seconds_ = 0;
  double seconds_per_token_ = 0;
  double step_before_ = 0;  // the mean time between tokens there without the request
  // Terms that are the same however much is there.
  double token_seconds_ = 0;
  double answer_seconds_ = 0;
  double congestion_ = 1;
  double pace_ = 1;
  double answer_pace_ = 1;
};

// Without `now` the order of the worker's queue is ignored: all of it goes before the prompt. O(prompts queued there).
[[nodiscard]] Candidate PredictCost(const PromptOnWorker& prompt, const WorkerView& worker, const FleetSpeed& speed,
                                    std::optional<Instant> now = {});

// The load by which workers are ordered: the time of an uncached prompt of one full step, and what the answers that run
// add to a usual one, expressed in tokens that the mean worker computes in that time. So a slow worker counts as
// loaded. Idle workers of about the same speed have exactly the same load.
[[nodiscard]] double LoadTokens(const WorkerView& worker, const FleetSpeed& speed);

// The worker's time for one prompt token, without the decodes beside it. Zero while no worker's rates are known.
[[nodiscard]] double PrefillTokenSeconds(const WorkerView& worker, const FleetSpeed& speed);

// The time that the worker needs for this many prompt tokens, in full steps that also compute its decodes. Zero while
// its rates are not known.
[[nodiscard]] double PrefillSeconds(const WorkerView& worker, std::uint64_t prompt_tokens);

}  // namespace roost::router
