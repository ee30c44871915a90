// The report of an engine's step: the tokens, the cache's events, the load, and counts for metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "kernels/memory_use.h"
#include "worker/engine_api/engine_order.h"
#include "worker/engine_api/miss_reasons.h"
#include "worker/engine_api/residency_counts.h"

namespace roost::worker {

// A router's link to this worker; request ids are unique within one.
using LinkId = StrongId<struct LinkTag, std::uint32_t>;

struct RequestKey {
  LinkId link;
  RequestId request;
  auto operator<=>(const RequestKey&) const = default;
};

// The tokens of one request in one step, with the link and request that they belong to.
struct RequestEvent {
  LinkId link;
  wire::TokenEvent event;
};

// Ends of arrivals, and what they brought.
struct ArrivalCounts {
  std::array<std::uint64_t, wire::kHoldOutcomeNames.size()> ends{};  // by outcome
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  double prefill_seconds = 0;  // the time that computing them would have taken
  std::vector<double> seconds;
  std::vector<double> first_frame_seconds;
};

// Counts of one step, for metrics. All are increments.
struct StepCounts {
  std::uint64_t prompt_tokens = 0;         // of requests whose prompt is now computed
  std::uint64_t cached_prompt_tokens = 0;  // the part of them that came from the cache
  std::uint64_t output_tokens = 0;
  std::uint64_t evicted_blocks = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t verification_misses = 0;  // hash equal, tokens not
  MissCounts computed_prompt_tokens{};    // prompt tokens that were computed, by reason
  std::uint64_t tail_cached_tokens =
      0;  // part of the cached ones: copied from a block whose first tokens alone are equal
  std::uint64_t tier_cached_tokens = 0;    // part of the cached ones: from a tier behind another program's cache
  std::uint64_t uncached_requests = 0;     // requests that switched caching off
  std::uint64_t refused_pins = 0;          // blocks that were not pinned because the pins' share of the pool was full
  std::uint64_t refused_retentions = 0;    // blocks that were not retained because their tenant's share was full
  std::uint64_t shortened_retentions = 0;  // requests whose retention was shortened
  std::uint64_t dropped_pins = 0;          // times that all pins ended because a request needed their blocks
  std::uint64_t returned_sessions = 0;     // sessions that came back while their blocks were retained
  std::uint64_t verified_hits = 0;         // requests with hits that were computed again and agreed
  std::uint64_t distrusted_blocks = 0;     // that came from a worker and were discarded, because one of them was wrong
  std::uint64_t wrong_hits = 0;            // requests with hits that were computed again and did not agree
  ResidencyCounts residency;
  ArrivalCounts pulled;                 // from other workers
  ArrivalCounts restored;               // from the disk
  double saved_prefill_seconds = 0;     // of the prompt tokens above: see Scheduler::PrefillTimes
  double computed_prefill_seconds = 0;  // the same
  std::vector<double> ttft_seconds;
  std::vector<double> prefill_seconds;  // from a request's first step to its first token
  std::vector<double> decode_seconds;   // from a choice's first token to its last, if it ended by itself
  std::vector<double> queue_wait_seconds;
  std::vector<double> inter_token_seconds;
};

// Estimated share of prompt blocks that would be hits with half the pool, this pool, twice and four times it.
inline constexpr std::array<double, 4> kPoolMultiples{0.5, 1.0, 2.0, 4.0};
using HitRateCurve = std::array<double, kPoolMultiples.size()>;

// A report lists at most this many of the prompts that are still to be computed, so a step's work does not grow with
// the queue.
inline constexpr std::size_t kMaxReportedPrompts = 64;
static_assert(kMaxReportedPrompts <= wire::kMaxOtherPrompts);

// A prompt that is still to be computed.
struct LinkPrompt {
  RequestKey key;
  Instant submitted{};
  std::uint32_t uncached_tokens = 0;
};

// The reply to an order from this link.
struct EngineAnswer {
  LinkId link;
  OrderReply answer;
};

struct StepReport {
  std::uint64_t step_number = 0;  // completed steps since the start; it stands still while a step hangs
  bool made_progress = true;      // false: the engine has only told its load
  std::vector<RequestEvent> tokens;
  std::vector<wire::CacheEvent> events;
  wire::Load load;                  // without other_prompts, which differ from link to link
  std::vector<LinkPrompt> prompts;  // the first prompts that load.queued_prefill_tokens counts, in queue order
  std::uint64_t submit_count = 0;   // requests submitted since the start; the load includes them
  StepCounts counts;
  std::vector<EngineAnswer> answers;  // to orders that are complete, with their last events in this report
  // Blocks by state; their sum is the pool.
  std::uint32_t free_blocks = 0;
  std::uint32_t referenced_blocks = 0;
  std::uint32_t idle_blocks = 0;
  std::optional<HitRateCurve> hit_rates;                         // once a second, if new prompts have arrived
  std::optional<std::vector<kernels::MemoryUse>> device_memory;  // once a second; see Model::DeviceMemory
};

}  // namespace roost::worker
