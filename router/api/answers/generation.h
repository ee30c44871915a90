// Produces one answer. It dispatches the prompts, turns the tokens of each choice into text, cuts at stop strings,
// separates tool calls and reasoning from content, writes the stream or the whole answer, reports to the observer, and
// cancels requests whose clients are gone.
//
//   Start ── Submit ── error ─────────────────────────────────────► error status
//               └─ dispatched ─ tokens* ─ end ────────────────────► the format's frames, or the whole answer
//                       │          ├ stop string in the last open choice ► Cancel ► the same
//                       │          └ error ───────────────────────► status before the first token, error event after
//                       └ client gone, any time ► Cancel
//
// An answer that is gathered is charged as it grows; one that finds no memory ends with 429, or 413 where it can never
// fit.
//
// An answer may have several prompts. Each prompt becomes a request of its own, and all have the same number of
// choices: choice i of prompt p is choice p · (choices per prompt) + i of the answer. The first failure ends the
// answer.
//
// When a stop string ends a choice while other choices of its prompt continue, the worker still computes the choice to
// its end; the router drops its remaining tokens.
//
// Threads: Start runs on a text thread. Callbacks of the dispatcher and the client's disconnection are posted to the
// connection's thread; everything else runs there, without a lock. Only the requests' ids, which Cancel needs, are
// shared between threads and guarded by a mutex.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/http/responder.h"
#include "common/trace/span.h"
#include "router/access/key_account.h"
#include "router/api/answer.h"
#include "router/api/answers/api_observer.h"
#include "router/api/answers/client_watch.h"
#include "router/api/choice_text.h"
#include "router/api/requests/sampling_fields.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_set.h"
#include "router/fleet/dispatcher.h"
#include "router/text/text_work.h"

namespace roost::router {

// The place of a request in a trace: where it comes from, what the router's span of it is called, and what workers are
// told (www.w3.org/TR/trace-context).
//
//   client's span ─► the router's: from the handler's start to the end of the answer
//                      ├─► "route": from the submission, or a lost worker, to the dispatch
//                      └─► the worker's (worker/link/request_spans.h)
struct Tracing {
  trace::SpanOutlet spans = {};  // closed: a client's context goes to the worker as it is
  double sample_ratio = 1;       // of the requests whose client says nothing about it
};

struct RequestTrace {
  std::string trace_parent;  // for the worker; may be empty
  // The ids of the router's span; empty unless it is recorded.
  std::string trace_id;
  std::string span_id;
  std::string parent_span_id;

  [[nodiscard]] bool is_recorded() const { return !span_id.empty(); }
  // A span of this trace: the request's own, or with a name of its own a child of it.
  [[nodiscard]] trace::Span Own(std::string name, Instant begin, Instant end) const;
  [[nodiscard]] trace::Span Child(std::string name, Instant begin, Instant end, const trace::SpanOutlet& spans) const;
};

// `client`: its traceparent header, or anything else. A client that sends one decides whether the request is traced.
[[nodiscard]] RequestTrace BeginTrace(const Tracing& tracing, std::string_view client);

// Services that all generations share; they outlive the server.
struct GenerationServices {
  Dispatcher& dispatcher;
  ApiObserver& observer;
  const Clock& clock;
  Tracing tracing = {};
  TextWork* text = nullptr;  // writes the bodies of large whole answers; null: the connection's thread does
};

struct GenerationOptions {
  std::string_view route;  // a name of the route table: it lasts as long as the process
  std::string request_id;
  std::string client;  // its address
  RequestTrace trace;
  std::unique_ptr<AnswerFormat> format;
  Delivery delivery = Delivery::kWhole;
  TextOptions text;  // its stop strings end what the client sees as content, not reasoning or calls
  ToolCallCount calls = ToolCallCount::kMany;  // kOne: a choice ends where a second call would begin
  TokenIdReport token_ids = TokenIdReport::kOmit;
  std::vector<std::string> echoes;  // by prompt: the text with which its choices begin; empty without an echo
  // kDrop: the answer is the echo alone; kPrewarm: the same, and that is what was wanted.
  enum class Output { kTell, kDrop, kPrewarm } output = Output::kTell;
  // Makes the parser of one choice.
  std::function<std::unique_ptr<OutputParser>(std::uint32_t choice)> make_parser = [](std::uint32_t) {
    return std::make_unique<PlainOutput>();
  };
  Instant started_at;
  std::shared_ptr<Admission> admission;  // of the key that the request came with; null: none
  // The answer's charge. The gathered answer is added to it, and it stays until the client has the answer; see
  // text_memory.h. Null: it is not counted.
  std::shared_ptr<ByteBudget::Guard> memory;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `specs`: at least one, all of one model and with the same number of choices. The generation keeps itself alive
  // until it ends. The responder's OnClosed must call client.OnGone.
  static void Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                    std::vector<GenerateSpec> specs, GenerationOptions options);

  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

 private:
  using Outcome = GenerationSummary::Outcome;
  class Relay;  // the dispatcher's observer of one prompt: posts to the connection's thread

  struct Choice {
    ChoiceText stream;
    std::unique_ptr<OutputParser> parser;
    std::unique_ptr<StopFilter> stop;  // behind a pointer, because it must not move: it points into itself
    bool began = false;
    bool has_all_calls = false;  // a call more than the request wants had begun
    ChoiceAnswer answer;         // so far; a stream sets only its finish
    std::uint32_t tool_call_count = 0;
    std::uint32_t reasoning_token_count = 0;
    std::optional<Outcome> outcome;  // set when the choice ends
    std::optional<Instant> last_tokens_at;

    // True if it ends here, whatever the worker writes next.
    [[nodiscard]] bool is_stopped() const { return has_all_calls || stop->stopped(); }
  };

  struct Prompt {
    std::uint32_t token_count = 0;
    std::uint64_t charge = 0;     // to the key, of tokens
    std::vector<TokenId> tokens;  // if the answer reports them or their log probabilities
    std::vector<wire::TokenLogprobs> logprobs;
    std::uint32_t predicted_cached_tokens = 0;
    std::optional<std::uint32_t> cached_tokens;
    std::uint32_t written_tokens = 0;
    wire::PromptMiss miss = wire::PromptMiss::kNone;
    std::uint32_t elsewhere_tokens = 0;  // that another worker holds
    BlockLoss::Worker before = BlockLoss::Worker::kUnknown;
    CacheWorth worth;            // of the attempt that told of cached_tokens
    std::uint32_t hour_end = 0;  // the tokens before it are to stay for an hour
    bool ended = false;          // no more events come from the dispatcher
  };

  Generation(const GenerationServices& services, std::shared_ptr<Responder> responder,
             const std::vector<GenerateSpec>& specs, GenerationOptions options);

  void Submit(ClientWatch& client, std::vector<GenerateSpec> specs);
  // The tokens of a prompt that the key is charged less for than for others, as far as it is known before it is routed.
  [[nodiscard]] std::uint64_t ExpectedCachedTokens(const GenerateSpec& spec) const;
  // Brings the charge of the prompt to what so many cached tokens make it.
  void Charge(Prompt& prompt, std::uint64_t cached_tokens) const;
  [[nodiscard]] Result<RequestId> TrySubmit(GenerateSpec spec, std::size_t prompt);
  // Returns whether to submit the next prompt.
  [[nodiscard]] bool OnSubmitted(std::size_t prompt, RequestId request);
  // Cancels the requests of all prompts; a request that has no id yet is cancelled when it gets one.
  void Cancel();
  void CancelPrompt(std::size_t prompt);
  void OnDispatched(std::size_t prompt, const Dispatched& dispatched);
  void OnPromptLogprobs(std::size_t prompt, std::vector<wire::TokenLogprobs> logprobs);
  void OnTokens(std::size_t prompt, ChoiceTokens tokens);
  void OnChoiceEnd(std::size_t prompt, ChoiceEnd end);
  void OnEnd(std::size_t prompt, const GenerationEnd& end);
  void OnClientGone();

  [[nodiscard]] std::uint32_t ChoiceOf(std::size_t prompt, std::uint32_t choice) const;
  void TellTimes(Choice& choice, std::uint32_t token_count);
  // Turns the tokens into a delta.
  [[nodiscard]] AnswerDelta Parse(Choice& choice, ChoiceTokens tokens);
  // Appends `piece` to `delta`, up to the first stop string of its content, or to the first call too many.
  void AppendVisible(Choice& choice, AnswerDelta piece, AnswerDelta& delta) const;
  void BeginChoice(std::uint32_t index);
  void Say(std::uint32_t index, AnswerDelta delta);
  void Gather(Choice& choice, AnswerDelta delta);
  void SendFrames(std::string frames);
  // The worker has no more tokens for this choice.
  void CompleteChoice(std::uint32_t index, wire::FinishReason reason, std::optional<TokenId> stop_token);
  void EndChoice(std::uint32_t index, Outcome outcome);
  // Ends the prompt's request if all its choices have ended, and the answer if all choices of all prompts have.
  void FinishIfDone(std::size_t prompt);
  void Finish();
  // Answers with the whole body. Of a large one a text thread writes it, because other connections of this thread would
  // wait; meanwhile the client may still leave.
  void FinishWhole();
  [[nodiscard]] bool WriteElsewhere(std::shared_ptr<std::vector<ChoiceAnswer>> answers);
  void RespondWhole(std::string body);
  // The choices' text leaves them: it is a part of the body then.
  [[nodiscard]] std::vector<ChoiceAnswer> TakeAnswers();
  void Fail(const Error& error, Duration retry_after);
  // Gives back what the answer holds, also while the dispatcher still keeps this generation.
  void FreeAnswer();
  void Conclude(Outcome outcome, int status, std::optional<ErrorCode> error = {});
  void LogEnd(Outcome outcome, int status, double seconds) const;
  [[nodiscard]] trace::Span SpanOf(Outcome outcome, int status) const;
  void TraceDispatch(const Dispatched& dispatched);

  [[nodiscard]] std::string_view key_name() const;  // empty: none
  [[nodiscard]] std::string_view tenant_name() const;
  [[nodiscard]] bool is_streamed() const { return options_.delivery == Delivery::kStream; }
  [[nodiscard]] bool TakesEvents() const { return !ended_ && !is_being_written_; }
  [[nodiscard]] bool IsOpen(std::size_t prompt) const;
  [[nodiscard]] Usage CurrentUsage() const;
  [[nodiscard]] std::uint32_t predicted_cached_tokens() const;
  // `cached_tokens`: found, or before the first token expected.
  [[nodiscard]] std::vector<HttpHeader> RoutingHeaders(std::uint32_t cached_tokens) const;
  [[nodiscard]] CacheVerdict VerdictWith(std::uint32_t cached_tokens) const;

  std::shared_ptr<ByteBudget::Guard> memory_;  // the answer's charge; null: not counted
  const GenerationServices services_;
  const std::shared_ptr<Responder> responder_;
  const GenerationOptions options_;
  const std::shared_ptr<const ServedModel> model_;
  const std::vector<TokenId> stop_tokens_;
  const PromptComparison comparison_;  // of an answer to one prompt
  const std::uint32_t min_tokens_;     // before a stop string counts
  const std::uint32_t choices_per_prompt_;
  std::uint64_t request_bytes_ = 0;  // that the prompts hold beside the answer

  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  bool began_ = false;
  bool ended_ = false;
  bool is_being_written_ = false;       // a text thread writes the whole body; only the client's leaving still matters
  std::string worker_id_;               // of the prompt that was dispatched last
  std::string_view reason_;             // of that decision
  std::optional<double> ttft_seconds_;  // of the choice that had a token first
  Instant routed_since_;                // the submission, or the last dispatch
  Outcome last_outcome_ = Outcome::kStop;  // of the choice that ended last

  std::mutex submit_mutex_;
  std::vector<std::optional<RequestId>> requests_;  // guarded by submit_mutex_; by prompt, once submitted
  bool cancelled_ = false;                          // guarded by submit_mutex_
};

// The time that a client should wait before it retries after `error`. For an overload: until the requests that now wait
// at the router for the model have left the queue.
[[nodiscard]] Duration RetryAfter(const Dispatcher& dispatcher, const Error& error, std::string_view model);

}  // namespace roost::router
