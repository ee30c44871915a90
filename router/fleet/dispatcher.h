// The router's core as the HTTP side sees it: models that can be served, and requests on their way to workers.
//
// Threads: all functions may be called from any thread. Observers are called from the link thread, one call at a time
// per request, and must not block: they hand over and return.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/worker_answer.h"
#include "router/fleet/worker_mode.h"
#include "router/route/decision_log.h"
#include "router/route/policy.h"

namespace roost {
class ChatTemplate;
class Tokenizer;
}  // namespace roost

namespace roost::router {

class PrefixIndex;

// A revision of a model that at least one worker serves (revisions.h), with what the router needs to speak it.
// Immutable; a change is a new object.
struct ServedModel {
  std::string name;
  std::string fingerprint;
  std::string kv_dtype;
  std::uint32_t block_tokens = 16;
  std::uint32_t max_context_tokens = 0;
  wire::SamplingDefaults sampling;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null when the model brings none
  std::string bos_token;
  std::string eos_token;
  std::int64_t created_unix_seconds = 0;
  std::string revision;  // names it; equal for all workers that serve the same files
  // Which of its workers hold which blocks; any thread may match in it. Lives while somebody holds it.
  std::shared_ptr<const PrefixIndex> index;
};

// The scope of a tenant's blocks of a model under a salt; requests without either have empty ones.
[[nodiscard]] inline BlockHash ScopeRoot(const ServedModel& model, const std::string& tenant, const std::string& salt) {
  return RootHash({.fingerprint = model.fingerprint,
                   .adapter = "",
                   .tenant = tenant,
                   .salt = salt,
                   .block_tokens = model.block_tokens,
                   .kv_dtype = model.kv_dtype});
}
[[nodiscard]] inline BlockHash ScopeRoot(const ServedModel& model, const std::string& salt) {
  return ScopeRoot(model, "", salt);
}

// One generation, ready to be routed: validated, rendered, tokenized, hashed.
struct GenerateSpec {
  std::shared_ptr<const ServedModel> model;
  std::vector<TokenId> prompt;
  BlockHash root;
  std::vector<BlockHash> block_hashes;
  wire::Sampling sampling;
  std::uint32_t max_output_tokens = 0;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  std::uint32_t sample_count = 1;  // outputs, 1 to wire::kMaxSampleCount; choice i draws with sampling.seed + i
  // Log probabilities of the output's and of the prompt's tokens that the observer wants, each with this number of the
  // likeliest tokens: 0 to wire::kMaxTopLogprobs. Empty: none.
  std::optional<std::uint32_t> output_logprobs;
  std::optional<std::uint32_t> prompt_logprobs;
  std::uint32_t min_output_tokens = 0;         // no stop token ends a choice before; at most max_output_tokens
  std::optional<wire::Constraint> constraint;  // for the whole output of each choice
  // Hints for the worker's queue and cache; see wire::Generate.
  std::string tenant;
  wire::CacheMode cache_mode = wire::CacheMode::kOn;
  std::uint32_t priority = 50;
  std::optional<wire::Retention> retention;
  std::uint64_t session_hash = 0;
  std::uint64_t expect_return_ms = 0;
  // Ids by which a client can ask about the request later; see DecisionRecord.
  std::string answer_id;
  std::string request_id;
  std::string trace_parent;         // see common/base/trace_context.h; may be empty
  std::string salt;                 // of the scope that `root` is the hash of
  std::optional<Instant> deadline;  // then the request ends, even in mid-stream
  // The request's part of the budget for input memory, held until the last copy of this is gone; null: not counted.
  std::shared_ptr<ByteBudget::Guard> memory;
};

[[nodiscard]] inline bool WantsLogprobs(const GenerateSpec& spec) {
  return spec.output_logprobs.has_value() || spec.prompt_logprobs.has_value();
}

struct Dispatched {
  std::string worker_id;
  Decision decision;
};

// Tokens that one choice got at once. None if it ended without one; then cached_token_count is set.
struct ChoiceTokens {
  std::vector<TokenId> tokens;
  // Set in the first tokens of a request: the number of prompt tokens found in the worker's cache.
  std::optional<std::uint32_t> cached_token_count = std::nullopt;
  std::uint32_t choice = 0;  // below the request's sample_count
  // Of each of the tokens, in their order, if the request wants them; else empty.
  std::vector<wire::TokenLogprobs> logprobs = {};
};

// The end of one choice while others go on: kStop or kLength.
struct ChoiceEnd {
  std::uint32_t choice = 0;
  wire::FinishReason reason = wire::FinishReason::kStop;
  std::optional<TokenId> stop_token = {};  // with kStop: which one was drawn; it is not among the choice's tokens
};

// The end of a request. kStop and kLength end its last choice; the other reasons end all choices that are still open.
struct GenerationEnd {
  wire::FinishReason reason = wire::FinishReason::kStop;
  std::optional<Error> error;              // with kError
  std::optional<TokenId> stop_token = {};  // as of a ChoiceEnd
};

// What a client sees of a request: OnDispatched (again after a retry, also in mid-stream, where the stream continues at
// the same token), OnPromptLogprobs if the request wants them, OnTokens any number of times, OnChoiceEnd for each
// choice but the last, OnEnd exactly once. Nothing comes for a choice after its end, and nothing at all after OnEnd.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void OnDispatched(const Dispatched& dispatched) = 0;
  // Once, before the first tokens or the first choice's end: entry i is of the prompt's token i + 1, so there is one
  // less than the prompt has tokens. Does not come for a request that fails or is cancelled before.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who wants them takes them over
  virtual void OnPromptLogprobs(std::vector<wire::TokenLogprobs> /*logprobs*/) {}
  virtual void OnTokens(ChoiceTokens tokens) = 0;
  virtual void OnChoiceEnd(ChoiceEnd end) = 0;
  virtual void OnEnd(GenerationEnd end) = 0;
};

// The workers of a model that an order is for.
enum class PinTarget : std::uint8_t {
  kAllWorkers,
  kBestWorker,  // the one that a request with this prompt would go to
  kNamedWorkers,
};
struct WorkerChoice {
  PinTarget target = PinTarget::kAllWorkers;
  std::vector<std::string> names = {};  // of kNamedWorkers, each once

  bool operator==(const WorkerChoice&) const = default;
};

// A pin or an unpin: at least one hash, all in the model's scope.
struct PinOrder {
  std::shared_ptr<const ServedModel> model;
  std::variant<wire::Pin, wire::Unpin> message;  // their answer_id is the dispatcher's
  WorkerChoice workers = {};
};

// A prompt, hashed for one revision of its model.
struct PromptOfRevision {
  std::shared_ptr<const ServedModel> model;
  wire::PromptToEvict prompt;
};

// What is to be erased from workers' caches: a prompt, for each revision of its model that is served, or a tenant.
struct EvictOrder {
  std::variant<std::vector<PromptOfRevision>, wire::TenantToEvict> what;
  std::string model = {};  // whose workers are meant; empty: the workers of all models
  WorkerChoice workers = {};
};

// A prompt whose full blocks workers should compute and keep in their caches. No answer is generated.
struct WarmOrder {
  GenerateSpec spec;
  WorkerChoice workers = {};
  Instant deadline{};  // workers that have not answered by then continue all the same
};

// Which prefixes do requests of this model find most often?
struct PrefixesQuestion {
  std::shared_ptr<const ServedModel> model;
  std::uint32_t most = 0;  // asked of each worker: 1 to wire::kMaxUsedPrefixes
  wire::PrefixTokens tokens = wire::PrefixTokens::kOmit;
};

// What would a request with this prompt hit?
struct PromptQuery {
  std::shared_ptr<const ServedModel> model;
  std::uint32_t prompt_token_count = 0;
  std::vector<BlockHash> block_hashes;
};

// One worker's part of a prompt's blocks, front to back.
struct PromptHolder {
  std::string worker_id;
  WorkerMode mode = WorkerMode::kExact;   // what the numbers rest on
  std::uint32_t held_block_count = 0;     // blocks in its cache
  std::uint32_t pending_block_count = 0;  // blocks after these, which it is computing now
};
struct PromptChoice {
  std::string worker_id;  // where the request would go now
  std::string policy;
  DecisionReason reason = DecisionReason::kOnlyWorker;
  std::uint32_t cached_tokens = 0;
  std::optional<double> ttft_seconds;  // nothing while no worker's speed is known
};
struct PromptMatch {
  std::vector<PromptHolder> holders;   // all that serve the model, the deepest first
  std::optional<PromptChoice> choice;  // nothing when none of them takes requests now
};

struct WorkerStatus {
  std::string worker_id;
  WorkerSlot slot;
  std::string model;
  bool ready = false;
  double seconds_since_heard = 0;
  wire::Load load;
  std::uint32_t block_count = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t in_flight_requests = 0;
  std::uint64_t indexed_block_count = 0;
  WorkerMode mode = WorkerMode::kExact;
  bool index_in_sync = false;  // in exact mode: no snapshot is awaited
  std::uint64_t requests_total = 0;
};

// Requests of a model that wait at the router for a worker with room; at least one.
struct QueueStatus {
  std::string model;
  std::uint32_t waiting_requests = 0;
  double oldest_wait_seconds = 0;
  double drain_seconds =
      0;  // estimated time until they have left the queue, by the rate of recent departures; bounded by their deadlines
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  // All that workers serve under this name now.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const ServedModel>> RevisionsOf(std::string_view name) const {
    const std::shared_ptr<const ServedModel> model = FindModel(name);
    return model == nullptr ? std::vector<std::shared_ptr<const ServedModel>>() : std::vector{model};
  }
  // Null when no worker serves it now. Of several revisions the one with the most workers.
  [[nodiscard]] virtual std::shared_ptr<const ServedModel> FindModel(std::string_view name) const = 0;
  // The revision for one more request: several revisions each get their share.
  [[nodiscard]] virtual std::shared_ptr<const ServedModel> ChooseModel(std::string_view name) {
    return FindModel(name);
  }
  // May a worker serve the model soon? One is about to, or did not long ago, or none came since the start.
  [[nodiscard]] virtual bool IsExpected(std::string_view /*model*/) const { return false; }
  [[nodiscard]] virtual std::vector<std::shared_ptr<const ServedModel>> Models() const = 0;
  [[nodiscard]] virtual std::vector<WorkerStatus> Workers() const = 0;
  [[nodiscard]] virtual std::vector<QueueStatus> Queues() const = 0;

  // The error with which Submit would refuse every request for the model now, so that such requests are not tokenized.
  [[nodiscard]] virtual Result<void> CheckRoom(const ServedModel& /*model*/) const { return {}; }

  // Routes and sends the request. On success the observer sees OnEnd exactly once, perhaps before Submit returns; on an
  // error (kUnavailable, kOverloaded, kDeadlineExceeded, or kInvalidArgument for more than the wire can carry) it sees
  // nothing. The dispatcher keeps the observer until OnEnd.
  [[nodiscard]] virtual Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) = 0;

  // Orders and questions for the workers that serve the model now; workers that join later hear nothing of them. On
  // success `done` is called once. Errors: kUnavailable when no worker serves the model, kInvalidArgument for the name
  // of a worker that does not serve it, kOverloaded when the link does not keep up or too many orders are open. Pin and
  // MostUsed take at most two seconds.
  [[nodiscard]] virtual Result<void> Pin(PinOrder order, AnswersDone done) = 0;
  [[nodiscard]] virtual Result<void> MostUsed(PrefixesQuestion question, AnswersDone done) = 0;
  [[nodiscard]] virtual Result<void> Warm(WarmOrder order, AnswersDone done) = 0;
  // Goes to all workers of the model, also to those that take no requests now, and takes at most thirty seconds. The
  // dispatcher's own memory of the blocks goes too. What it has open of that prompt or tenant leaves nothing in a cache
  // any more.
  [[nodiscard]] virtual Result<void> Evict(EvictOrder order, AnswersDone done) = 0;
  // Sends nothing and changes nothing. kUnavailable when no worker serves the model.
  [[nodiscard]] virtual Result<PromptMatch> Match(PromptQuery query) = 0;

  // The last decisions, the newest first, at most `limit`.
  [[nodiscard]] virtual std::vector<DecisionRecord> LatestDecisions(std::size_t limit) const = 0;
  // The remembered decisions of one request, by its answer_id or request_id, oldest first.
  [[nodiscard]] virtual std::vector<DecisionRecord> FindDecisions(std::string_view id) const = 0;

  // The client is gone: the worker is told, the observer sees its end with kCancelled. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;
};

}  // namespace roost::router
