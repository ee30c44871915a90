// The messages of a router to a worker, as plain values; messages.h says in which order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "common/wire/version.h"

namespace roost::wire {

// Workers that compute with more threads than there are processors for them. Zeros: they fit, or it is not known.
struct Crowding {
  std::uint32_t workers = 0;
  std::uint32_t threads = 0;  // of all these workers
  std::uint32_t cores = 0;    // that they share

  bool operator==(const Crowding&) const = default;
};

struct Welcome {
  std::uint64_t router_instance = 0;  // different in every process; after a change, earlier requests are orphans
  std::uint64_t epoch = 0;            // the one being welcomed
  PeerVersion version = {};           // of the router
  Crowding crowding = {};             // of the worker's host or machine, itself included

  bool operator==(const Welcome&) const = default;
};

// A router's reason to refuse a hello.
enum class RefusalCause : std::uint8_t { kOther, kVersion, kNameTaken, kKey, kHello, kFull };
// For logs and metrics.
inline constexpr std::array<std::string_view, 6> kRefusalCauseNames{"other", "version", "name_taken",
                                                                    "key",   "hello",   "full"};
[[nodiscard]] constexpr std::size_t IndexOf(RefusalCause cause) { return static_cast<std::size_t>(cause); }

// The router does not accept the hello of this epoch.
struct Refused {
  std::uint64_t epoch = 0;
  std::string reason;  // for people
  RefusalCause cause = RefusalCause::kOther;

  bool operator==(const Refused&) const = default;
};

inline constexpr float kMinRepetitionPenalty = 0.01F;
inline constexpr float kMaxRepetitionPenalty = 100.0F;
inline constexpr float kMaxPenalty = 2.0F;  // of presence and frequency, on both sides of 0
inline constexpr float kMaxLogitBias = 100.0F;

struct LogitBias {
  TokenId token = 0;
  float bias = 0.0F;  // -kMaxLogitBias to kMaxLogitBias

  bool operator==(const LogitBias&) const = default;
};

// kernels/sample.h defines the order in which these apply, worker/sample/token_counts.h what the penalties count.
struct Sampling {
  float temperature = 1.0F;  // 0: greedy
  float top_p = 1.0F;
  std::uint32_t top_k = 0;  // 0: no limit
  std::uint64_t seed = 0;
  float min_p = 0.0F;                      // 0 to 1; 0: no limit
  float repetition_penalty = 1.0F;         // kMinRepetitionPenalty to kMaxRepetitionPenalty; 1: none
  float presence_penalty = 0.0F;           // -kMaxPenalty to kMaxPenalty; 0: none
  float frequency_penalty = 0.0F;          // the same
  std::vector<LogitBias> logit_bias = {};  // by token, each once

  bool operator==(const Sampling&) const = default;
};

// Does this use a parameter that a worker without Hello::full_sampling does not know?
[[nodiscard]] inline bool NeedsFullSampling(const Sampling& sampling) {
  return sampling.min_p != 0 || sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0 || !sampling.logit_bias.empty();
}

// A request's use of the prefix cache.
enum class CacheMode : std::uint8_t {
  kOn,
  kOff,  // the request neither uses cached blocks nor leaves any
};

inline constexpr std::uint32_t kMaxPriority = 100;  // of requests and of blocks
inline constexpr std::uint32_t kMaxSampleCount = 64;
// Bounds Retention's durations, Generate::expect_return_ms and Pin::duration_ms, so that adding one to any clock's time
// does not wrap around.
inline constexpr std::uint64_t kMaxKeepMs = std::uint64_t{366} * 24 * 3600 * 1000;

// A hint: the priority of a request's blocks (0 is evicted first, kMaxPriority last), and for how long after the
// request's end it holds.
struct Retention {
  std::uint32_t prompt_priority = 35;    // 35: the same as without a hint
  std::uint64_t prompt_duration_ms = 0;  // 0: no hint for the prompt's blocks
  std::uint32_t decode_priority = 35;
  std::uint64_t decode_duration_ms = 0;  // 0: no hint for the blocks that the output fills

  bool operator==(const Retention&) const = default;
};

// The rule that the output must match; see schema/roost.capnp.
enum class ConstraintKind : std::uint8_t { kJson, kJsonSchema, kRegex, kChoice, kGrammar, kStructuralTag };

inline constexpr std::size_t kMaxConstraintBytes = std::size_t{256} << 10U;

struct Constraint {
  ConstraintKind kind = ConstraintKind::kJson;
  std::string text;   // empty for kJson; at most kMaxConstraintBytes
  std::string field;  // the field of the client's request that errors about the text name

  bool operator==(const Constraint&) const = default;
};

struct Generate {
  RequestId request_id;
  std::vector<TokenId> prompt;
  BlockHash root;                       // hash of the request's scope
  std::vector<BlockHash> block_hashes;  // of the prompt's full blocks
  Sampling sampling;
  std::uint32_t max_output_tokens = 0;
  // The first token drawn is number `first_output_index` of the request's output: a continued request goes on from
  // there.
  std::uint32_t first_output_index = 0;
  std::vector<TokenId> stop_tokens;  // in addition to the model's own
  bool ignore_eos = false;           // the model's own stop tokens do not stop it
  std::uint32_t expected_cached_tokens = 0;
  std::uint64_t deadline_ms = 0;     // from receipt; 0: none
  std::optional<OwnScope> own = {};  // the blocks of the prompt that no other tenant shares
  std::string tenant;                // for its share of the pool; empty: no tenant
  CacheMode cache_mode = CacheMode::kOn;
  std::uint32_t priority = 50;  // 0 to kMaxPriority; waiting requests with a higher number go first
  std::optional<Retention> retention;
  std::uint64_t session_hash = 0;      // names the conversation, only to compare; 0: none
  std::uint64_t expect_return_ms = 0;  // the conversation returns about this long after the request's end; 0: unknown
  // Outputs sampled from this one prompt, 1 to kMaxSampleCount. Choice i draws with sampling.seed + i, modulo 2^64.
  std::uint32_t sample_count = 1;
  // Report the log probabilities of the output's tokens or of the prompt's, each with this many of the likeliest
  // tokens: 0 to kMaxTopLogprobs. With prompt_logprobs the whole prompt is computed: no block comes from the cache.
  std::optional<std::uint32_t> output_logprobs = std::nullopt;
  std::optional<std::uint32_t> prompt_logprobs = std::nullopt;
  // No stop token is drawn before the output has this many tokens, including those before first_output_index.
  std::uint32_t min_output_tokens = 0;
  std::optional<Constraint> constraint = std::nullopt;  // of the whole output of each choice
  std::string trace_parent = {};                        // see trace_context.h; for logs only; may be empty
  std::string adapter = {};                             // one of Hello::adapters; empty: the model alone
  // Set by the decoder when a newer router asks for what this version does not know. The worker answers the request
  // with this error; it is never sent.
  std::optional<Error> refusal = std::nullopt;

  bool operator==(const Generate&) const = default;
};

struct Cancel {
  RequestId request_id;

  bool operator==(const Cancel&) const = default;
};

// Keeps a prefix: its ready blocks at once, the others when they become ready. A pin belongs to the worker, not to the
// link. A second pin of a block replaces its end time.
struct Pin {
  BlockHash root;                 // hash of the blocks' scope
  std::vector<BlockHash> hashes;  // of the prefix's full blocks, front to back; at least one
  std::uint64_t duration_ms = 0;  // from receipt; 0: until unpinned
  std::uint64_t answer_id = 0;    // id for the PinAnswer; 0: none wanted

  bool operator==(const Pin&) const = default;
};

// Removes the pins of these blocks; blocks without a pin are ignored.
struct Unpin {
  BlockHash root;
  std::vector<BlockHash> hashes;  // at least one
  std::uint64_t answer_id = 0;    // as in Pin

  bool operator==(const Unpin&) const = default;
};

// A prompt whose blocks are to be erased.
struct PromptToEvict {
  BlockHash root;
  std::vector<TokenId> tokens;          // at least one
  std::vector<BlockHash> block_hashes;  // of its full blocks, front to back
  std::optional<OwnScope> own = {};     // as of a Generate

  bool operator==(const PromptToEvict&) const = default;
};
// A tenant all of whose blocks are to be erased.
struct TenantToEvict {
  std::string tenant;

  bool operator==(const TenantToEvict&) const = default;
};
// A full block that is to be erased with all that continues it.
struct BlockToEvict {
  BlockHash hash;

  bool operator==(const BlockToEvict&) const = default;
};

// Erases from the cache, whatever pins say; see schema/roost.capnp for which blocks go.
struct Evict {
  std::variant<PromptToEvict, TenantToEvict, BlockToEvict> what;
  std::uint64_t answer_id = 0;  // of the EvictAnswer that is wanted; 0: none

  bool operator==(const Evict&) const = default;
};

enum class PrefixTokens : std::uint8_t { kOmit, kTell };

// Asks which prefixes requests hit most often.
struct WantPrefixes {
  std::uint64_t answer_id = 0;  // not 0
  std::uint32_t most = 0;       // 1 to kMaxUsedPrefixes
  PrefixTokens tokens = PrefixTokens::kOmit;

  bool operator==(const WantPrefixes&) const = default;
};

// The router does not know the sender, or a sequence number is missing.
struct WantHello {
  bool operator==(const WantHello&) const = default;
};
// The router's view disagrees with the digest.
struct WantSnapshot {
  bool operator==(const WantSnapshot&) const = default;
};
// The router does not have the tokenizer bundle whose digest is in the Hello.
struct WantTokenizer {
  bool operator==(const WantTokenizer&) const = default;
};
// For digests, because the xor of consecutive ids would cancel out.
[[nodiscard]] constexpr std::uint64_t MixedId(RequestId id) { return Mix64(id.value()); }

// The router is alive.
struct Ping {
  // The xor of the MixedIds of all Generates that were sent before this in the running epoch.
  std::optional<std::uint64_t> generate_digest;

  bool operator==(const Ping&) const = default;
};

// An operator takes the worker out of service, or puts it back. The load reports with the wanted Load::cordoned are the
// answer.
struct Cordon {
  bool in_force = true;

  bool operator==(const Cordon&) const = default;
};

}  // namespace roost::wire
