// The router's core as the HTTP side sees it: models that can be served, and requests on their way to workers.
//
// Threads: all functions may be called from any thread. Observers are called from the link thread, one call at a time
// per request. They must not block: they hand the data to another thread and return.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
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
#include "router/fleet/fleet_reasons.h"
#include "router/fleet/fleet_standing.h"
#include "router/fleet/worker_mode.h"
#include "router/route/log/cache_verdict.h"
#include "router/route/log/decision_log.h"
#include "router/route/log/worker_shares.h"
#include "router/route/policy.h"

namespace roost {
class ChatTemplate;
class Tokenizer;
}  // namespace roost

namespace roost::router {

class PrefixIndex;

// A revision of a model that at least one worker serves (revisions.h), with its tokenizer and template; or one of its
// LoRA adapters, which shares all but the name with it. Immutable; a change creates a new object.
struct ServedModel {
  std::string name;  // that clients ask for
  std::string base;  // of an adapter, and of a model under another name: the model's; empty: it is the model itself
  bool is_alias = false;  // `name` is another name of `base`
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
  std::string revision;  // its name; equal for all workers that serve the same files
  // The index of its workers' blocks. Any thread may call Match.
  std::shared_ptr<const PrefixIndex> index;
  // False: its workers have no tokenizer to bring, so there is none here, and requests are handed on unread.
  bool has_text = true;
  std::set<std::string, std::less<>> routes = {};  // paths that at least one of its workers hands on to its engine

  [[nodiscard]] bool is_adapter() const { return !base.empty() && !is_alias; }
  // For workers, and for blocks: empty for the model itself.
  [[nodiscard]] std::string_view adapter() const { return is_adapter() ? std::string_view(name) : ""; }
  // The model's own name, under which its workers and metrics are counted.
  [[nodiscard]] const std::string& model_name() const { return base.empty() ? name : base; }
};

// The scope of a model's blocks: of an adapter, of a tenant, and within it of a salt. Each may be empty.
[[nodiscard]] inline BlockHash ScopeRoot(const ServedModel& model, const std::string& tenant, const std::string& salt) {
  return RootHash({.fingerprint = model.fingerprint,
                   .adapter = std::string(model.adapter()),
                   .tenant = tenant,
                   .salt = salt,
                   .block_tokens = model.block_tokens,
                   .kv_dtype = model.kv_dtype});
}

// One generation, ready to be routed: validated, rendered, tokenized, hashed.
struct GenerateSpec {
  std::shared_ptr<const ServedModel> model;
  // The whole generation as a message. Each attempt sends it to a worker with what is its own (WorkerOrder):
  // request_id, first_output_index, expected_cached_tokens, deadline_ms and adapter are not set here.
  wire::Generate generate;
  // Ids by which a client can ask about the request later; see DecisionRecord.
  std::string answer_id;
  std::string request_id;
  std::string key = {};                           // name of the API key that it came with; empty: none
  PromptComparison comparison;                    // with the request before it
  std::shared_ptr<const ComputedBy> computed_by;  // to be set by the fleet; null: it is not kept
  std::uint64_t cache_key_hash = 0;               // of prompt_cache_key, within the scope of `root`; 0: none
  // The message may get an expect_return_ms up to this that was learned from the session: the client has left open how
  // long its blocks stay. 0: not.
  std::uint64_t longest_learned_return_ms = 0;
  std::string salt;                 // from which the message's `root` was made
  std::optional<Instant> deadline;  // when the request ends, even in mid-stream
  // The request's charge on the input memory budget, held until the last copy of this spec is gone; null: not counted.
  std::shared_ptr<ByteBudget::Guard> memory;
};

struct Dispatched {
  std::string worker_id;
  Decision decision;
};

// Tokens that one choice got at once. Empty if it ended without a token; then cached_token_count is set.
struct ChoiceTokens {
  std::vector<TokenId> tokens;
  // The number of prompt tokens found in the worker's cache: once, with the first tokens of a request, or with the last
  // ones of an engine that tells it late.
  std::optional<std::uint32_t> cached_token_count = std::nullopt;
  std::uint32_t choice = 0;  // below the request's sample_count
  // One entry for each token, in order, if the request wants them; otherwise empty.
  std::vector<wire::TokenLogprobs> logprobs = {};
  // With cached_token_count, as wire::TokenEvent has them.
  std::uint32_t written_token_count = 0;
  wire::PromptMiss miss = wire::PromptMiss::kNone;
};

// The end of one choice while others continue: kStop or kLength.
struct ChoiceEnd {
  std::uint32_t choice = 0;
  wire::FinishReason reason = wire::FinishReason::kStop;
  std::optional<TokenId> stop_token = {};  // with kStop: the one that was sampled; not among the choice's tokens
};

// The end of a request. kStop and kLength end its last choice; the other reasons end all choices that are still open.
struct GenerationEnd {
  wire::FinishReason reason = wire::FinishReason::kStop;
  std::optional<Error> error;              // with kError
  std::optional<TokenId> stop_token = {};  // as in ChoiceEnd
};

// Receives a request's events: OnDispatched (again after a retry, also in mid-stream, where the stream continues at the
// same token), OnPromptLogprobs if the request wants them, OnTokens any number of times, OnChoiceEnd for each choice
// but the last, OnEnd exactly once. A choice has no events after its end, and the request has none after OnEnd.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void OnDispatched(const Dispatched& dispatched) = 0;
  // Called once, before the first tokens or the first choice's end. Entry i belongs to the prompt's token i + 1, so
  // there is one entry less than the prompt has tokens. Not called for a request that fails or is cancelled earlier.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): an override moves from it
  virtual void OnPromptLogprobs(std::vector<wire::TokenLogprobs> /*logprobs*/) {}
  virtual void OnTokens(ChoiceTokens tokens) = 0;
  virtual void OnChoiceEnd(ChoiceEnd end) = 0;
  virtual void OnEnd(GenerationEnd end) = 0;
};

// Called with each request before it is routed: returns the observer that gets its events, which may pass them on to
// the one given. Any thread.
using SubmitHook =
    std::function<std::shared_ptr<GenerationObserver>(const GenerateSpec&, std::shared_ptr<GenerationObserver>)>;

// ---- orders ----

// The workers of a model that an order goes to.
enum class PinTarget : std::uint8_t {
  kAllWorkers,
  kBestWorker,  // the one that a request with this prompt would go to
  kNamedWorkers,
};
struct WorkerChoice {
  PinTarget target = PinTarget::kAllWorkers;
  std::vector<std::string> names = {};  // for kNamedWorkers, without duplicates

  bool operator==(const WorkerChoice&) const = default;
};

// A pin or an unpin: at least one hash, all in the model's scope.
struct PinOrder {
  enum class What : std::uint8_t {
    kPrompt,
    // One block, named by its hash. The order goes to the revision of the model that has it: a pin needs a worker that
    // does, or what a typing error names would wait for ever and fill the pins' share.
    kBlock,
  };
  std::shared_ptr<const ServedModel> model;
  std::variant<wire::Pin, wire::Unpin> message;  // the dispatcher sets its answer_id
  WorkerChoice workers = {};
  What what = What::kPrompt;
};

// A prompt, hashed for one revision of its model.
struct PromptOfRevision {
  std::shared_ptr<const ServedModel> model;
  wire::PromptToEvict prompt;
};

// Names the content to erase from workers' caches: a prompt, for each revision of its model that is served; a tenant;
// or a block with all that continues it.
struct EvictOrder {
  std::variant<std::vector<PromptOfRevision>, wire::TenantToEvict, wire::BlockToEvict> what;
  std::string model = {};  // the model of the workers; empty: the workers of all models
  WorkerChoice workers = {};
};

// A prompt whose full blocks workers should fetch from others, or compute, and keep in their caches. No answer is
// generated.
struct WarmOrder {
  GenerateSpec spec;
  WorkerChoice workers = {};
  std::string source = {};  // the worker to fetch from; empty: for each the best holder
  Instant deadline{};       // of the answer; workers that have not answered by then still finish
};

// Says if an operator wants a worker to get new requests.
enum class Service : std::uint8_t { kOpen, kCordoned };

struct CordonOrder {
  std::string worker_id;
  Service service = Service::kCordoned;
  Duration patience{};  // with kCordoned: how long the answer may wait for the worker's requests to end
};

// Asks which prefixes requests of these models find most often. A model whose workers have just left is left out,
// unless it is the only one.
struct PrefixesQuestion {
  std::vector<std::shared_ptr<const ServedModel>> models;
  std::uint32_t most = 0;  // prefixes from each worker: 1 to wire::kMaxUsedPrefixes
  wire::PrefixTokens tokens = wire::PrefixTokens::kOmit;
};

// Asks what a request with this prompt would find cached.
struct PromptQuery {
  std::shared_ptr<const ServedModel> model;
  std::uint32_t prompt_token_count = 0;
  std::vector<BlockHash> block_hashes;
};

// Asks for decisions: of one request, by its answer_id or request_id, oldest first; or the last ones, newest first.
struct DecisionsQuestion {
  std::variant<std::string, std::size_t> which = std::size_t{0};  // an id, or at most how many
};

// Waits until a worker serves the model, or for a second.
struct ModelAwaited {
  std::string model;
};

// An operator's order to workers, or a question about them. The answers are one for each worker that the order goes to,
// in PrefixesQuestion, PinOrder, WarmOrder and EvictOrder; one in CordonOrder; as AnswersOf says in PromptQuery; one
// for each decision, with the worker that it chose, in DecisionsQuestion; none in ModelAwaited.
using Order = std::variant<PinOrder, PrefixesQuestion, WarmOrder, EvictOrder, CordonOrder, PromptQuery,
                           DecisionsQuestion, ModelAwaited>;

// ---- the answers to orders: each is about one worker, and most come from it ----

// Blocks that a worker fetched from another one.
struct Pull {
  std::string source;  // the other worker
  PullOutcome outcome = {};
  std::uint32_t block_count = 0;  // that arrived
  std::uint64_t bytes = 0;
  double seconds = 0;

  bool operator==(const Pull&) const = default;
};

// The result of warming a prompt at one worker.
struct WarmOutcome {
  enum class Kind : std::uint8_t {
    kComputed,  // all of it is there now: some of it was computed
    kPulled,    // all of it is there now: what was missing came from another worker
    kHeld,      // all of it was there already, as the index says
    kRefused,   // the worker computed none or only a part of it: see `reason`
  };
  Kind kind = Kind::kHeld;
  std::uint32_t block_count = 0;      // the prompt's leading blocks that the worker has now
  std::uint64_t computed_tokens = 0;  // for this order
  std::optional<Pull> pull = {};      // before it computed; empty: it was not told to fetch
  std::string reason = {};

  bool operator==(const WarmOutcome&) const = default;
};

// Says if a worker takes requests, and what it still has to do, by its reports.
struct ServiceState {
  bool is_cordoned = false;
  std::uint32_t running_requests = 0;  // of all routers
  std::uint32_t waiting_requests = 0;
  std::uint32_t in_flight_requests = 0;  // of this router

  [[nodiscard]] bool IsIdle() const { return running_requests + waiting_requests + in_flight_requests == 0; }

  bool operator==(const ServiceState&) const = default;
};

// The worker was not asked: its version does not know such orders.
struct NotSupported {
  bool operator==(const NotSupported&) const = default;
};

// The number of a prompt's blocks, front to back, that one worker has.
struct PromptHolder {
  std::string worker_id;
  WorkerMode mode = WorkerMode::kExact;                     // the source of the numbers
  std::uint32_t held_block_count = 0;                       // blocks in its cache
  std::uint32_t pending_block_count = 0;                    // blocks after these, which it is computing now
  std::uint32_t disk_block_count = 0;                       // blocks after those held that its disk has
  std::uint32_t engine_block_tokens = 0;                    // see HitEnds
  std::uint32_t dropped_tokens = 0;                         // the same
  std::optional<std::uint32_t> resumable_block_count = {};  // of those held, so far a hit goes; empty: all of them

  // The blocks that a request need not compute when the worker's queue is done, if what its disk has comes in time.
  [[nodiscard]] std::uint32_t usable_block_count() const {
    const std::uint32_t in_cache = resumable_block_count.value_or(held_block_count) + pending_block_count;
    return std::max(in_cache, held_block_count + disk_block_count);
  }
};

struct PromptChoice {
  std::string worker_id;  // the worker that the request would go to now
  std::string policy;
  DecisionReason reason = DecisionReason::kOnlyWorker;
  std::uint32_t cached_tokens = 0;
  std::optional<double> ttft_seconds;  // empty while no worker's speed is known
};

// Empty: the worker does not answer such messages, was lost, or took too long.
using WorkerReply = std::variant<std::monostate, wire::PinAnswer, wire::Prefixes, WarmOutcome, wire::EvictAnswer,
                                 ServiceState, NotSupported, PromptHolder, PromptChoice, DecisionRecord>;

struct WorkerAnswer {
  std::string worker_id;
  WorkerReply reply = {};
  std::shared_ptr<const ServedModel> model = {};  // of a PrefixesQuestion: which of its models the worker serves
};

// The caches as a request with a prompt would find them.
struct PromptMatch {
  std::vector<PromptHolder> holders;   // all workers that serve the model, those with most blocks first
  std::optional<PromptChoice> choice;  // empty when none of them takes requests now
};

// As answers: one for each holder, then the choice, if there is one.
[[nodiscard]] inline std::vector<WorkerAnswer> AnswersOf(const PromptMatch& match) {
  std::vector<WorkerAnswer> answers;
  for (const PromptHolder& holder : match.holders) answers.push_back({holder.worker_id, holder});
  if (match.choice) answers.push_back({match.choice->worker_id, *match.choice});
  return answers;
}

[[nodiscard]] inline PromptMatch MatchOf(std::span<const WorkerAnswer> answers) {
  PromptMatch match;
  for (const WorkerAnswer& answer : answers) {
    if (const auto* const holder = std::get_if<PromptHolder>(&answer.reply)) match.holders.push_back(*holder);
    if (const auto* const choice = std::get_if<PromptChoice>(&answer.reply)) match.choice = *choice;
  }
  return match;
}

// Called once on the link thread, with one answer for each worker that was asked, in the same order; Order says what
// else there is. It must not block.
using AnswersDone = std::function<void(std::vector<WorkerAnswer>)>;

// ---- a view of the fleet ----

// Totals of this router's requests at a worker.
struct WorkerTotals {
  std::uint64_t prompt_tokens = 0;  // of requests whose first token came, as the next two
  std::uint64_t cached_tokens = 0;
  std::uint64_t first_tokens = 0;  // such requests
  double ttft_seconds = 0;         // from the decision to the first token, added up
  std::uint64_t output_tokens = 0;
};

struct WorkerStatus {
  std::string worker_id;
  WorkerSlot slot;
  std::string model;
  bool ready = false;  // its tokenizer is read, and its engine does not hang
  WorkerState state = WorkerState::kStarting;
  Instant came_at{};
  double seconds_since_heard = 0;
  wire::Load load;
  std::uint32_t block_count = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t in_flight_requests = 0;
  std::uint64_t indexed_block_count = 0;
  WorkerMode mode = WorkerMode::kExact;
  bool index_in_sync = false;  // the mode is exact and no snapshot is awaited
  std::uint64_t requests_total = 0;
  WorkerTotals totals;
  double cache_value_seconds = 0;  // of prefill in an hour: see Worker::CacheValue
  wire::PeerVersion version;
  std::string fingerprint;  // of the model
  std::string kv_dtype;
  std::vector<std::string> adapters = {};  // that it serves
  WorkerShare share = {};                  // of its model's last requests
  wire::WorkerRole role = wire::WorkerRole::kBoth;
  std::string host = {};           // the host that it runs on; empty: not told
  std::string engine = {};         // program and version of the engine that it stands beside; empty: its own
  std::string cache_absence = {};  // why it does not tell what it caches; see wire::Hello
  bool is_unread = false;          // its requests are handed on unread: see ServedModel::has_text
  wire::ComputeShare compute = {};
  wire::Transfer transfer = {};  // without its secret
};

// Requests of a model that wait at the router for a worker with room; at least one.
struct QueueStatus {
  std::string model;
  std::uint32_t waiting_requests = 0;
  double oldest_wait_seconds = 0;
  double drain_seconds =
      0;  // estimated time until they have left the queue, by the rate of recent departures; bounded by their deadlines
};

// ---- requests that an engine gets unread ----

struct ForwardSpec {
  std::shared_ptr<const ServedModel> model;
  std::string path;
  // Content type, accept, trace and the model's name and place: the rest is set for each attempt.
  wire::Forward head;
  std::shared_ptr<const std::string> body;
  std::optional<Instant> deadline;
  // Equal for requests that should meet at one worker, which has computed what they begin with.
  std::optional<std::uint64_t> session;
  // The prompt's text where no router reads the model's prompts (text_pieces.h); else empty. The first ones are of
  // instructions, which other chats may have in common.
  std::vector<BlockHash> pieces;
  std::size_t instruction_pieces = 0;
  // The body's charge on the input memory budget, held as long as the body; null: not counted.
  std::shared_ptr<ByteBudget::Guard> memory;
};

struct ForwardHead {
  int status = 0;
  std::string content_type;
  std::string worker_id;
};

// The tokens of a request's prompt, as the engine tells at its end.
struct ForwardUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;    // of these
  std::uint32_t promised_tokens = 0;  // that the router expected to be cached

  bool operator==(const ForwardUsage&) const = default;
};

// A part of an answer: the head in the first one, unless it is the last and has an error.
struct ForwardPiece {
  std::optional<ForwardHead> head = {};
  std::string body = {};
  bool is_last = false;
  std::optional<Error> error = {};         // with is_last: the answer is not whole
  std::optional<ForwardUsage> usage = {};  // with is_last, where the engine tells
};

class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  // Called from the link thread, and must not block. Nothing follows the last piece.
  virtual void OnPiece(ForwardPiece piece) = 0;
};

struct FleetSnapshot;  // fleet_snapshot.h

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  // Routes and sends the request. On success the observer sees OnEnd exactly once, perhaps before Submit returns; on an
  // error (kUnavailable, kOverloaded, kDeadlineExceeded, or kInvalidArgument for more than the wire can carry) it sees
  // nothing. The dispatcher keeps the observer until OnEnd.
  [[nodiscard]] virtual Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) = 0;
  // The client is gone: the worker gets a Cancel, and the observer an OnEnd with kCancelled. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;

  // Hands the request on to the engine of a worker that names its path (see ForwardTable); errors as of Submit. Cancel
  // ends it too. At most wire::kForwardCredit bytes of the answer come beyond those that Grant says the client has.
  [[nodiscard]] virtual Result<RequestId> Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer) = 0;
  virtual void Grant(RequestId id, std::size_t bytes) = 0;

  // Carries out an order at the workers that there are now; workers that join later do not get it. On success `done` is
  // called once. A View that is taken after that shows what the order did.
  //
  // Errors: kUnavailable when no worker serves the model, kInvalidArgument for the name of a worker that does not serve
  // it, kNotFound for a worker to cordon, or a block to pin, that there is not, kOverloaded when the link does not keep
  // up or too many orders are open.
  //
  //   PinOrder, PrefixesQuestion   at most two seconds
  //   EvictOrder                   goes to all workers of the model, also to those that take no requests now, and takes
  //                                at most thirty seconds. The dispatcher's own memory of the blocks goes too. Open
  //                                requests for that prompt or tenant leave nothing in a cache any more
  //   WarmOrder                    until its deadline
  //   CordonOrder                  takes a worker out of service for all routers, or puts it back: within two seconds,
  //                                or within the order's patience
  //   PromptQuery, DecisionsQuestion  at once; they send nothing, change nothing, and never fail with kOverloaded
  //   ModelAwaited                 at most a second
  [[nodiscard]] virtual Result<void> Send(Order order, AnswersDone done) = 0;

  // The last snapshot of the models, workers and queues; not null. Takes no lock that the link thread holds for long.
  [[nodiscard]] virtual std::shared_ptr<const FleetSnapshot> View() const = 0;
};

}  // namespace roost::router
