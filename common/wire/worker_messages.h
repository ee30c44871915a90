// The messages of a worker to a router, as plain values; messages.h says in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/inline_vector.h"
#include "common/prefix/block_hash.h"
#include "common/wire/version.h"

namespace roost::wire {

// Sampling defaults that come with a model (its generation_config.json).
struct SamplingDefaults {
  float temperature = 1.0F;
  float top_p = 1.0F;
  std::uint32_t top_k = 0;  // 0: no limit
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;

  bool operator==(const SamplingDefaults&) const = default;
};

// ---- log probabilities ----
//
// The log softmax in f32 of the model's own logits, before biases, penalties, temperature and all other steps of
// sampling (vLLM's default, "raw_logprobs"). Never above 0; smaller values are raised to kLeastLogprob.

inline constexpr std::uint32_t kMaxTopLogprobs = 20;
inline constexpr float kLeastLogprob = -9999.0F;

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;

  bool operator==(const TokenLogprob&) const = default;
};

// The log probabilities at one position of a text.
struct TokenLogprobs {
  float logprob = 0.0F;           // of the token at this position
  std::uint32_t rank = 1;         // its place among all tokens, likeliest first; of equals, the lower id comes first
  std::vector<TokenLogprob> top;  // the likeliest tokens in that order, as many as the request asked for

  bool operator==(const TokenLogprobs&) const = default;
};

// ---- the messages ----

inline constexpr std::size_t kMaxAdapters = 1024;  // of one worker

// A hello of another major version has only a version, a name and an epoch: enough to refuse it.
// The processors that a worker computes on. Zeros: not told.
struct ComputeShare {
  std::uint32_t threads = 0;  // that compute; 0 also: it computes elsewhere
  // The same for all workers of one machine, in whatever containers; and its processors.
  std::uint64_t machine = 0;
  std::uint32_t machine_cores = 0;
  // The same for all that share one quota or one set of the machine's processors, and what these may use at a time. 0:
  // they may use all.
  std::uint64_t cpu_group = 0;
  std::uint32_t cpu_group_cores = 0;

  bool operator==(const ComputeShare&) const = default;
};

struct Hello {
  PeerVersion version;
  std::string worker_id;         // stable name of the worker; only one process at a time uses it
  std::uint64_t process_id = 0;  // random, different for each process; never 0
  std::uint64_t epoch = 0;       // different for each new life, across restarts too; never 0
  std::string model;             // served model name
  std::string fingerprint;       // see PrefixScope
  std::string kv_dtype;          // see PrefixScope
  std::uint32_t block_tokens = 0;
  std::uint32_t block_count = 0;
  std::uint32_t max_context_tokens = 0;    // prompt and output together
  std::uint32_t max_running_requests = 0;  // batch slots
  std::string tokenizer_digest;            // SHA-256 of the tokenizer bundle, in hexadecimal
  SamplingDefaults sampling;
  std::uint32_t max_batch_tokens = 0;  // token budget of one step; 0: not reported
  // The worker runs prompts with the fewest uncached tokens first; a second of waiting counts as this many tokens less.
  // 0: it uses another order.
  std::uint32_t ageing_tokens = 0;
  std::uint32_t max_sample_count = 1;  // the largest Generate::sample_count that it accepts
  bool full_sampling = false;          // it knows Sampling's min_p, penalties and logit_bias
  bool logprobs = false;               // it knows Generate's output_logprobs and prompt_logprobs
  bool min_output_tokens = false;      // it knows Generate::min_output_tokens
  bool sends_cache_events = true;      // its steps carry cache events, and it sends snapshots
  bool answers = false;                // it answers a Pin, Unpin or WantPrefixes that has an answer_id
  bool keeps_prefixes = true;          // false: it runs every request as if with CacheMode::kOff
  bool constrains_output = false;      // it knows Generate::constraint
  bool evicts = false;                 // it knows Evict
  bool evicts_blocks = false;          // it knows BlockToEvict
  bool cordons = false;                // it knows Cordon
  std::vector<std::string> adapters;   // LoRA adapters that it serves beside its model; at most kMaxAdapters
  std::string host;                    // its host's name, for operators; may be empty
  ComputeShare compute = {};

  bool operator==(const Hello&) const = default;
};

// kStop and kLength end one choice of a request; the request ends with its last choice. kCancelled and kError end the
// request with all its choices, in one event.
enum class FinishReason : std::uint8_t {
  kStop,       // a stop token was drawn; it is not among the tokens
  kLength,     // max_output_tokens or the end of the context was reached
  kCancelled,  // the router asked for it
  kError,      // see TokenEvent::error
};

// Does this reason end the request, even if other choices are still running?
[[nodiscard]] constexpr bool EndsAllChoices(FinishReason reason) {
  return reason == FinishReason::kCancelled || reason == FinishReason::kError;
}

// Tokens of one choice in one step: usually one, which needs no allocation.
using StepTokens = InlineVector<TokenId, 2>;

// The tokens of one choice in one step, and the choice's end if it ended.
struct TokenEvent {
  RequestId request_id;
  std::uint32_t choice = 0;  // below the request's sample_count
  StepTokens tokens;
  std::vector<TokenLogprobs> logprobs;  // one for each token, if the request asks for them; else empty
  // Reports on the prompt's tokens from the second on, in pieces as they are computed. The last piece comes before, or
  // with, the first output token. Only in events of choice 0.
  std::vector<TokenLogprobs> prompt_logprobs;
  // Set in the request's first event that has tokens, or at the latest in its last one: how many prompt tokens had
  // their KV in the cache.
  std::optional<std::uint32_t> cached_token_count;
  std::optional<double> queue_wait_seconds;
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;  // with kStop only: which token was drawn, if the worker reports it
  std::optional<Error> error;         // with kError only

  bool operator==(const TokenEvent&) const = default;
};

// A run of blocks that became ready: hashes[0] is the block at `first_position` (in blocks) of its chain, and the
// others follow it. The parent of hashes[0] (the root, when first_position is 0) was stored before.
struct StoredRun {
  std::uint32_t first_position = 0;
  std::vector<BlockHash> hashes;

  bool operator==(const StoredRun&) const = default;
};

// Receivers apply events in order. After each one, every stored block's parent is stored.
struct CacheEvent {
  enum class Kind : std::uint8_t { kStored, kRemoved };
  Kind kind = Kind::kStored;
  StoredRun stored;                // kStored
  std::vector<BlockHash> removed;  // kRemoved: each is a leaf at the time it is removed

  bool operator==(const CacheEvent&) const = default;
};

// A prompt from another router, of which the worker still has this much to compute.
struct OtherPrompt {
  std::uint32_t uncached_tokens = 0;
  std::uint32_t waited_ms = 0;
  std::uint64_t id = 0;  // the worker's own id for it; 0: none
  // Hashes of its whole blocks, front to back, if it will leave them in the cache. They are sent once, and hold as long
  // as every later list in this epoch contains the id.
  std::vector<BlockHash> hashes = {};

  bool operator==(const OtherPrompt&) const = default;
};

// The most prompts in one report.
inline constexpr std::size_t kMaxOtherPrompts = 1024;
// The most hashes of all reported prompts at one time: 1 MiB.
inline constexpr std::size_t kMaxOtherHashes = std::size_t{1} << 16U;

inline constexpr std::uint32_t kMaxRouters = 1024;  // that one worker serves

// The worker's state as its engine sees it after a step, reported to one router.
struct Load {
  std::uint32_t waiting_requests = 0;
  std::uint32_t running_requests = 0;
  // Uncached prompt tokens not yet computed, of waiting and running requests. This and waiting_requests include
  // requests of other routers that the engine has not taken in yet, but no such requests of the receiver.
  std::uint64_t queued_prefill_tokens = 0;
  std::uint64_t running_context_tokens = 0;
  std::uint32_t free_block_count = 0;  // never used, or evictable at once
  std::uint32_t cached_block_count = 0;
  BlockHash digest;  // xor of the hashes of all ready blocks
  // The tokens and the time of the last step, for fitting rates. Zero for a report without a step.
  std::uint32_t step_prefill_tokens = 0;
  std::uint32_t step_decode_tokens = 0;
  double step_seconds = 0;
  bool draining = false;                 // it finishes its requests; it answers a new Generate with kUnavailable
  std::uint32_t pinned_block_count = 0;  // ready blocks that are pinned
  // The other routers' share of queued_prefill_tokens, which the receiver can not know: the first kMaxOtherPrompts
  // prompts in the order in which they run.
  std::vector<OtherPrompt> other_prompts;
  std::uint64_t progress = 0;        // grows with each report of the engine, and while it computes a step
  std::uint32_t router_count = 1;    // that the worker's links are up with, the receiver included: 1 to kMaxRouters
  bool cordoned = false;             // by an operator's Cordon; `draining` is set too
  bool cache_unknown = false;        // events and digest are of a part of the cache only
  double saved_prefill_seconds = 0;  // that its cache has saved since the process began, by its own estimate
  // From the begin of the step under way to its last part that is done; 0: none is, or not told.
  double step_under_way_seconds = 0;

  bool operator==(const Load&) const = default;
};

struct Step {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::vector<TokenEvent> tokens;
  std::vector<CacheEvent> events;
  Load load;

  bool operator==(const Step&) const = default;
};

// All ready blocks at one instant of the event stream, parents before children, in chunks. Chunk 0 empties the
// receiver's view first.
struct Snapshot {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint32_t chunk_index = 0;
  bool last = false;
  std::vector<StoredRun> runs;

  bool operator==(const Snapshot&) const = default;
};

// The files and texts that the router needs to turn messages into token ids.
struct Tokenizer {
  std::string digest;
  std::string tokenizer_json;
  std::string chat_template;  // empty when the model has none
  std::string bos_token;      // text, for the template; may be empty
  std::string eos_token;

  bool operator==(const Tokenizer&) const = default;
};

// The worker serves these adapters from now on; see Hello::adapters.
struct Adapters {
  std::uint64_t epoch = 0;
  std::vector<std::string> names;

  bool operator==(const Adapters&) const = default;
};

// The worker leaves now; its unfinished requests are lost. A worker that drains reports Load::draining first.
struct Bye {
  std::uint64_t epoch = 0;

  bool operator==(const Bye&) const = default;
};

// The result of a Pin or an Unpin, sent right after it; each of its blocks counts once.
struct PinAnswer {
  std::uint64_t answer_id = 0;            // of the Pin or Unpin
  std::uint32_t kept_block_count = 0;     // in the cache, and pinned
  std::uint32_t awaited_block_count = 0;  // not in the cache; pinned once they are computed
  std::uint32_t refused_block_count = 0;  // not pinned: the pins' share is full, or an Unpin has ended the pin

  bool operator==(const PinAnswer&) const = default;
};

enum class EvictOutcome : std::uint8_t {
  kDone,
  kRefused,  // nothing was done: the worker has too many of these orders
};

// The result of an Evict, once it is complete.
struct EvictAnswer {
  std::uint64_t answer_id = 0;            // of the order
  std::uint32_t evicted_block_count = 0;  // left the cache, and were free at once
  std::uint32_t busy_block_count = 0;     // left the cache, and are free when the requests that use them end
  EvictOutcome outcome = EvictOutcome::kDone;

  bool operator==(const EvictAnswer&) const = default;
};

// The most prefixes in one answer.
inline constexpr std::uint32_t kMaxUsedPrefixes = 1000;

// A prefix in a worker's cache, named by its last block.
struct UsedPrefix {
  BlockHash hash;  // of the last block
  std::uint32_t block_count = 0;
  std::uint64_t hits = 0;             // requests that found the last block there, since it was computed
  std::vector<TokenId> first_tokens;  // of the first block; schema/roost.capnp says when empty
  std::vector<TokenId> last_tokens;   // of the last block; likewise

  bool operator==(const UsedPrefix&) const = default;
};

// Answers a WantPrefixes.
struct Prefixes {
  std::uint64_t answer_id = 0;
  std::vector<UsedPrefix> prefixes;  // the most used first

  bool operator==(const Prefixes&) const = default;
};

}  // namespace roost::wire
