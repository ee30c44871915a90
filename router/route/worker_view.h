// One worker as a decision sees it: what it reported last, and what this router has sent it since. A plain value, but
// for the queue that it points to, which outlives it.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "router/route/prompt_queue.h"

namespace roost::router {

// Of a worker that does not tell its own token budget. Only the number of steps that a prefill is cut into hangs on it.
inline constexpr std::uint32_t kUsualBatchTokens = 512;

struct WorkerView {
  WorkerSlot slot;
  std::uint64_t epoch = 0;  // of its life: another one means that what was remembered of the slot is void

  // As it said hello.
  std::uint32_t block_tokens = 16;
  std::uint32_t max_running_requests = 1;
  std::uint32_t max_batch_tokens = kUsualBatchTokens;  // token budget of one step, above 0
  std::uint32_t ageing_tokens = 0;                     // of its queue, where short prompts go first; see wire::Hello
  std::uint32_t max_sample_count = 1;
  bool full_sampling = false;
  bool logprobs = false;
  bool min_output_tokens = false;

  // As it reported. Queue and waiting include what this router has sent since, at its uncached tokens.
  std::uint64_t queued_prefill_tokens = 0;
  std::uint32_t waiting_requests = 0;
  std::uint32_t running_requests = 0;
  std::uint64_t running_context_tokens = 0;
  std::uint32_t free_block_count = 0;
  std::uint32_t cached_block_count = 0;

  // This router's own.
  const PromptQueue* prompts = nullptr;  // that it has sent and has no token of, and others'; null: not known
  Instant joined_at{};                   // when it said hello
  std::uint32_t in_flight_requests = 0;
  bool receives_copy = false;  // of a prefix, which this router has it make
  // Number of the last request sent to it, in the order of all. Of a worker that was sent none, a random one below all
  // of these: routers that know nothing of each other are not to begin with the same worker.
  std::uint64_t last_sent = 0;

  // Fitted online from the steps that it reports; zero until known.
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;  // of a step with the running requests' decodes and no prefill
  double busy_share = 0;           // of its time that prefill takes, 0 to 1, smoothed (busy_share.h)
};

}  // namespace roost::router
