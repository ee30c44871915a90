// The differences between engines: the form of a request, of its answer, and of the pages that tell facts and load. A
// protocol has no state and does no input or output; its functions may be called from any thread.
//
// To add an engine: a folder with a EngineProtocol and an AnswerReader, its function in the list below, its row in
// engine_protocol.cc, and transcripts of real answers for the tests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_read.h"
#include "common/wire/messages.h"
#include "worker/adapters/engine_error.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/http_port.h"
#include "worker/adapters/metrics_page.h"

namespace roost {
class Tokenizer;
}

namespace roost::worker::adapters {

inline constexpr std::uint32_t kGrainTokens = 16;

// One of several data-parallel ranks of an engine: a part of it with a cache and a load of its own.
struct EngineRank {
  std::uint32_t number = 0;  // among all ranks, of other hosts too: in metrics, events and their ports
  std::uint32_t index = 0;   // among those behind this engine's URL: in requests

  bool operator==(const EngineRank&) const = default;
};

// The most ranks behind one URL.
inline constexpr std::size_t kMaxEngineRanks = 64;

// The facts that an engine tells of itself while it starts; constant during its life.
struct EngineFacts {
  std::string version = {};
  std::string model = {};              // the name that it serves the model under
  std::set<std::string> aliases = {};  // its other names
  std::uint32_t block_tokens = 0;
  std::uint32_t block_count = 0;                           // of a rank, that can hold content
  std::uint32_t max_context_tokens = 0;                    // prompt and output together
  std::optional<std::uint32_t> max_running_requests = {};  // not every engine tells
  bool keeps_prefixes = true;                              // its prefix cache is on
  bool tells_found_runs = false;                           // a request may ask for events of the blocks that it finds
  bool takes_priority = true;                              // it may be sent a request's priority
  bool takes_sessions = false;                             // a request may name its session
  std::optional<double> started_at = {};                   // its process, in seconds of the wall clock
  std::set<std::string> routes = {};                       // paths that it takes with POST; as many as a Hello can hold
  bool generates = true;                                   // false: it embeds, pools or ranks alone
  std::set<std::string> adapters = {};                     // LoRA adapters that requests may name; see wire::Hello
  std::vector<EngineRank> ranks = {};                      // in order; empty: it has one
  std::optional<EngineRank> rank = {};                     // that the worker stands for; none: the only one
  std::string advice = {};       // what would give it more hits; see wire::Hello, cacheAbsence
  std::uint32_t slot_count = 0;  // slots that a request may name (slot_table.h); 0: it chooses itself
  std::string model_file = {};   // where it has read its model from; on its own host
  // The source that it renders chats with, and that for chats with tools; empty: it does not tell.
  std::string chat_template = {};
  std::string tool_template = {};

  // The tokens of a block of Roost beside this engine: 16, or as many below as divide its blocks. 0: none does, so its
  // events can not be followed, and routers predict its cache from what they sent there.
  [[nodiscard]] std::uint32_t grain_tokens() const;
  // The engine's room in such blocks; in blocks of 16 tokens where there are none.
  [[nodiscard]] std::uint32_t grain_count() const;
};

// Reads /props of llama.cpp's server: its version, its slots and the context of each; leaves other servers' pages. The
// list of models was read before.
[[nodiscard]] Result<void> ReadLlamaProps(std::string_view body, EngineFacts& facts);

// Reads the list of models that both engines have at /v1/models: the model itself is the first entry without a parent,
// its other names are those that follow, adapters have one. Leaves out names, or one more of which, a Hello can not
// hold. The context is 0 if the list does not tell it.
[[nodiscard]] Result<void> ReadModelNames(std::string_view body, EngineFacts& facts);
// The same of an engine whose list tells it.
[[nodiscard]] Result<void> ReadModelList(std::string_view body, EngineFacts& facts);

// The ranks with these numbers; none for one alone. kInvalidArgument for more than kMaxEngineRanks.
[[nodiscard]] Result<std::vector<EngineRank>> RanksOf(const std::set<std::uint32_t>& numbers);

// A page of metrics without the series of other ranks than the facts'; `label` tells a series' rank.
[[nodiscard]] MetricsPage PageOfRank(std::string_view body, const EngineFacts& facts, std::string_view label);

// The page that tells the engine's routes (openapi.json of FastAPI), unless the engine was told to have none: then each
// of kUsualRoutes is asked.
inline constexpr std::string_view kRoutesPage = "/openapi.json";
inline constexpr std::array<std::string_view, 17> kUsualRoutes{"/v1/chat/completions",
                                                               "/v1/completions",
                                                               "/v1/responses",
                                                               "/v1/messages",
                                                               "/v1/messages/count_tokens",
                                                               "/tokenize",
                                                               "/detokenize",
                                                               "/generate",
                                                               "/v1/embeddings",
                                                               "/v1/rerank",
                                                               "/rerank",
                                                               "/v1/score",
                                                               "/score",
                                                               "/pooling",
                                                               "/classify",
                                                               "/v1/audio/transcriptions",
                                                               "/v1/audio/translations"};
// Keeps as many as a Hello can hold, the usual ones first.
[[nodiscard]] Result<void> ReadRoutes(std::string_view body, EngineFacts& facts);

// Compares the facts that must not change while a worker lives: the router knows them from the worker's Hello. The
// message names those that did. Adapters may come and go.
[[nodiscard]] Result<void> CheckSameEngine(const EngineFacts& before, const EngineFacts& now);

// A slot of the engine, as its page tells; see slot_table.h.
struct SlotState {
  bool is_busy = false;
  std::optional<std::uint32_t> task = {};  // that runs there, or was the last to
  std::uint32_t kept_tokens = 0;           // of what the slot held, which the task that runs has found
  std::uint32_t held_tokens = 0;           // the prompt and the output so far
};

// The load that a page told last. Each number may be missing.
struct EngineLoad {
  std::optional<std::uint32_t> running_requests = {};
  std::optional<std::uint32_t> waiting_requests = {};
  std::optional<double> used_share = {};  // of the blocks, 0 to 1: those of requests, not those that are cached only
  std::optional<double> computed_tokens =
      {};  // of prompts and outputs since the start; a prompt counts once it is computed
  std::optional<double> started_at = {};
  std::optional<double> tier_tokens = {};  // of prompts, taken from a tier behind the engine's cache since the start
  std::vector<SlotState> slots = {};       // by number
  Instant asked_at = {};                   // when the page was asked for
};

// One call for one choice. The references last for the call.
struct CallPlan {
  const wire::Generate& generate;
  const EngineFacts& facts;
  std::string_view id;  // for the engine; unique among its requests
  std::string_view salt = {};
  std::uint32_t choice = 0;
  std::uint32_t max_tokens = 0;
  bool scores_prompt = false;  // asks for the prompt's log probabilities
  // False: the answer comes in one piece at its end.
  bool is_streamed = true;
  bool asks_found_runs = false;            // for events of the blocks that it finds; see EngineFacts
  std::optional<std::uint32_t> slot = {};  // where it goes, of EngineFacts::slot_count
  bool finds_prefix = true;                // false: nothing that was computed before may be used
  bool lends_blocks = false;             // another engine fetches the prompt's blocks: the answer is to say from where
  const Tokenizer* tokenizer = nullptr;  // the model's; null: not known

  // The seed of this choice, never negative and never -1 as a signed number: some engines take that for "none".
  [[nodiscard]] std::uint64_t seed() const { return (generate.sampling.seed + choice) & (~std::uint64_t{0} >> 1U); }
};

// The end of a choice. An engine that gave it up is an error.
struct ChoiceEnd {
  wire::FinishReason reason = wire::FinishReason::kStop;  // kStop, kLength or kError
  std::optional<TokenId> stop_token = {};
  std::optional<Error> error = {};
};

// The content for one choice in a part of an answer. The stop token is not among the tokens.
struct ChoicePiece {
  std::uint32_t index = 0;
  std::vector<TokenId> tokens = {};
  std::vector<wire::TokenLogprobs> logprobs = {};         // one for each token, or none
  std::vector<wire::TokenLogprobs> prompt_logprobs = {};  // of the prompt from its second token on, or none
  std::optional<ChoiceEnd> end = {};
  bool has_untold = false;  // some of its tokens are missing or were guessed, because the engine did not tell them
};

struct AnswerPiece {
  std::vector<ChoicePiece> choices = {};
  std::optional<std::uint32_t> cached_tokens = {};
  std::optional<Complaint> complaint = {};
  std::string kv_transfer = {};  // see wire::TokenEvent
  bool is_last = false;
  bool is_cut = false;  // the engine would go on: its connection is to be closed
};

// Reads the answer of one call. An Error means that the answer can not be read: an engine of another version.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  // The data of one server-sent event: a JSON document, or "[DONE]".
  [[nodiscard]] Result<AnswerPiece> ReadEvent(simdjson::dom::parser& parser, std::string_view data);
  // The body of an answer that is not streamed.
  [[nodiscard]] Result<AnswerPiece> ReadWhole(simdjson::dom::parser& parser, std::string_view body);

 private:
  [[nodiscard]] virtual Result<AnswerPiece> ReadDocument(json::Element document) = 0;
};

class EngineProtocol {
 public:
  virtual ~EngineProtocol() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  // True: requests go with token ids, so that a worker tells routers its model's tokenizer. False: all go unread.
  [[nodiscard]] virtual bool takes_tokens() const { return true; }

  // True: its facts tell the chat template that it renders with, which need not be the model's.
  [[nodiscard]] virtual bool tells_template() const { return false; }

  // True: its KV connectors are known: calls may lend blocks (CallPlan), and requests name those of other engines.
  [[nodiscard]] virtual bool has_connectors() const { return false; }

  // ---- facts and load ----
  // Answers 200 while the engine can serve.
  [[nodiscard]] virtual std::string_view health_page() const = 0;
  [[nodiscard]] virtual Duration health_interval() const = 0;
  // The pages that facts come from; each must answer 200, unless the engine may lack it.
  [[nodiscard]] virtual std::span<const std::string_view> fact_pages() const = 0;
  [[nodiscard]] virtual bool MayLack(std::string_view /*page*/) const { return false; }
  [[nodiscard]] virtual Result<void> ReadFacts(std::string_view page, std::string_view body,
                                               EngineFacts& facts) const = 0;
  // The route of generations: an engine that tells its routes and lacks it generates nothing.
  [[nodiscard]] virtual std::string_view generate_route() const = 0;
  // The fact page that tells of adapters, which is read again now and then.
  [[nodiscard]] virtual std::string_view adapters_page() const = 0;
  // Empty: it has none.
  [[nodiscard]] virtual std::string_view load_page() const = 0;
  // How to ask whether there is a route for POST: with GET, which such a route refuses with 405, or with an empty POST,
  // which servers without it refuse with 404, 405 or 501.
  [[nodiscard]] virtual HttpMethod route_question() const { return HttpMethod::kGet; }
  // The load of the facts' rank.
  [[nodiscard]] virtual EngineLoad ReadLoad(std::string_view body, const EngineFacts& facts) const = 0;

  [[nodiscard]] virtual EventDecoder event_decoder() const = 0;

  // ---- requests ----
  [[nodiscard]] virtual Result<HttpCall> BuildRequest(const CallPlan& plan) const = 0;
  [[nodiscard]] virtual std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const = 0;
  // The call that ends the request beside its connection's end; nothing if that suffices.
  [[nodiscard]] virtual std::optional<HttpCall> BuildAbort(std::string_view id) const = 0;
  // The name in a request to Roost of what the engine names so; empty if there is none.
  [[nodiscard]] virtual std::string_view FieldOf(std::string_view parameter) const = 0;

  // Sets what a worker beside this engine can do: the flags of requests, and max_sample_count. An engine that lacks one
  // of them overrides it.
  virtual void Claim(const EngineFacts& facts, wire::Hello& hello) const;
};

// ---- the engines ----
[[nodiscard]] const EngineProtocol& VllmProtocol();
[[nodiscard]] const EngineProtocol& SglangProtocol();
[[nodiscard]] const EngineProtocol& OpenAiProtocol();
[[nodiscard]] const EngineProtocol& LlamaCppProtocol();

inline constexpr std::array<std::string_view, 4> kEngineProtocolNames{"vllm", "sglang", "openai", "llama.cpp"};
// Null for a name that is not in the list.
[[nodiscard]] const EngineProtocol* EngineProtocolOf(std::string_view name);

}  // namespace roost::worker::adapters
