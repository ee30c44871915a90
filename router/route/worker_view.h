// A decision's input about one worker: its last report, plus what this router has sent it since. A plain value, except
// for pointers to the worker's queue and adapters, which outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/rate_estimator.h"
#include "common/wire/messages.h"
#include "router/route/prompt_queue.h"

namespace roost::router {

// The assumed token budget of a worker that does not report its own. It only affects the number of steps of a prefill.
inline constexpr std::uint32_t kUsualBatchTokens = 512;
// The time of an engine's connector until it is measured: users of vLLM's NIXL tell of 0.2 s, most of it waiting.
inline constexpr double kUsualHandoverSeconds = 0.2;

using AdapterNames = std::set<std::string, std::less<>>;

// Where the hits of a worker can end.
struct HitEnds {
  std::uint32_t block_tokens = 16;
  std::uint32_t engine_block_tokens = 0;  // whole blocks of so many tokens; 0: as block_tokens
  std::uint32_t dropped_tokens = 0;       // of each hit, which are computed again; see wire::Load
};

struct WorkerView {
  WorkerSlot slot;
  std::uint64_t epoch = 0;  // a new epoch invalidates what policies remember of the slot

  // From its hello.
  std::uint32_t block_tokens = 16;
  std::uint32_t engine_block_tokens = 0;               // hits are whole blocks of so many tokens; 0: as block_tokens
  std::uint32_t max_batch_tokens = kUsualBatchTokens;  // token budget of one step, above 0
  std::uint32_t ageing_tokens = 0;                     // of its queue, if short prompts go first; see wire::Hello
  std::uint32_t max_sample_count = 1;
  wire::WorkerRole role = wire::WorkerRole::kBoth;
  wire::Features features = {};
  const AdapterNames* adapters = nullptr;  // null: none

  // From its reports.
  std::uint32_t dropped_tokens = 0;  // see HitEnds
  // These two also include what this router has sent since (its uncached tokens and requests).
  std::uint64_t queued_prefill_tokens = 0;
  std::uint32_t waiting_requests = 0;
  std::uint64_t waiting_cached_tokens = 0;  // of what this router has sent since: tokens that need not be computed
  std::uint32_t running_requests = 0;
  std::uint64_t running_context_tokens = 0;
  // How fast blocks come from its disk, and the size of one there; 0: it has none, or that is off.
  double disk_bytes_per_second = 0;
  double disk_block_bytes = 0;

  // Known only to this router.
  const PromptQueue* prompts = nullptr;  // prompts without a first token, this router's and others'; null: not known
  std::uint32_t in_flight_requests = 0;
  double restoring_bytes = 0;  // that should come from its disk for this router's requests
  bool receives_copy = false;  // it is computing a copy of a prefix for this router
  // The number of the last request sent to it; requests to all workers are numbered in order. A worker that was sent
  // none has a random number below all of these, so that several routers do not all begin with the same worker.
  std::uint64_t last_sent = 0;

  // Fitted online from the steps that it reports; zero until known.
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;  // of a step with the running requests' decodes and no prefill
  DecodeCost decode;               // from which that follows, and what more requests and contexts add
  double decode_slowness = 1;      // that the two above hold
  double busy_share = 0;           // share of its time spent on prefill, 0 to 1, smoothed (busy_share.h)
  // From a request whose prompt another engine computed to its first token; smoothed.
  double handover_seconds = kUsualHandoverSeconds;

  [[nodiscard]] HitEnds hit_ends() const { return {block_tokens, engine_block_tokens, dropped_tokens}; }
};

}  // namespace roost::router
