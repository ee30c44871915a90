// One generation on its way to its client: dispatches it, turns the tokens of each choice into text, cuts at stop
// strings, writes the stream or the whole answer, tells the observer, and cancels what nobody waits for.
//
//   Start ── Submit ── error ─────────────────────────────────────► proper status
//               └─ dispatched ─ tokens* ─ end ────────────────────► chunks … [DONE], or the whole answer
//                       │          ├ stop string in the last open choice ► Cancel ► the same, finish_reason "stop"
//                       │          └ error ───────────────────────► status before the first token, error event after
//                       └ client gone, any time ► Cancel
//
// A choice that a stop string ends while others go on runs to its end at the worker; what it gets there is dropped.
//
// Threads: Start runs on a text thread. The dispatcher's calls and the client's going are posted to the connection's
// thread; everything else runs there, and is not locked. What both need is the request's id, to cancel it by.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "router/api/api_observer.h"
#include "router/api/choice_text.h"
#include "router/api/client_watch.h"
#include "router/api/openai_json.h"
#include "router/api/sampling_fields.h"
#include "router/fleet/dispatcher.h"
#include "router/http/responder.h"

namespace roost::router {

// What generations need of the process; all outlive the server.
struct GenerationServices {
  Dispatcher& dispatcher;
  ApiObserver& observer;
  const Clock& clock;
};

struct GenerationOptions {
  std::string_view route;  // a name of the route table: it lasts as long as the process
  std::string request_id;
  AnswerIdentity identity;
  Delivery delivery = Delivery::kWhole;
  UsageReport usage_report = UsageReport::kNever;
  std::vector<std::string> stop;
  Instant started_at;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // It keeps itself alive until its end. `client` is told by the responder's OnClosed.
  static void Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                    GenerateSpec spec, GenerationOptions options);

  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

 private:
  class Relay;  // the dispatcher's observer: posts to the connection's thread

  Generation(const GenerationServices& services, std::shared_ptr<Responder> responder, const GenerateSpec& spec,
             GenerationOptions options);

  struct Choice {
    ChoiceText stream;
    std::string text;                                   // of a whole answer, so far
    std::optional<GenerationSummary::Outcome> outcome;  // once ended
    std::optional<Instant> last_tokens_at;
  };

  void Submit(ClientWatch& client, GenerateSpec spec);
  [[nodiscard]] Result<RequestId> TrySubmit(GenerateSpec spec);
  void OnSubmitted(RequestId request);
  // Tells the worker, now or once the request has an id.
  void Cancel();
  void OnDispatched(const Dispatched& dispatched);
  void OnTokens(const ChoiceTokens& tokens);
  void OnChoiceEnd(ChoiceEnd end);
  void OnEnd(const GenerationEnd& end);
  void OnClientGone();

  void TellTimes(Choice& choice, std::uint32_t token_count);
  void SendText(std::uint32_t index, std::string_view text);
  // The worker has no more tokens for this choice.
  void CompleteChoice(ChoiceEnd end);
  void EndChoice(std::uint32_t index, GenerationSummary::Outcome outcome);
  // Ends the answer, and the request, if no choice is open.
  void FinishIfDone();
  void Finish();
  void FinishStream();
  void FinishWhole();
  void Fail(const Error& error, Duration retry_after);
  void Conclude(GenerationSummary::Outcome outcome, int status);

  [[nodiscard]] std::uint32_t completion_token_count() const;
  [[nodiscard]] Usage CurrentUsage() const;
  [[nodiscard]] std::optional<Usage> ChunkUsage() const;
  [[nodiscard]] std::vector<HttpHeader> RoutingHeaders(std::uint32_t cached_tokens) const;

  const GenerationServices services_;
  const std::shared_ptr<Responder> responder_;
  const GenerationOptions options_;
  const std::shared_ptr<const ServedModel> model_;
  const std::uint32_t prompt_token_count_;
  const std::vector<TokenId> stop_tokens_;

  std::vector<Choice> choices_;
  bool ended_ = false;
  std::string worker_id_;
  std::uint32_t predicted_cached_tokens_ = 0;
  std::optional<std::uint32_t> cached_tokens_;
  bool first_token_told_ = false;
  GenerationSummary::Outcome last_outcome_ = GenerationSummary::Outcome::kStop;  // of the choice that ended last

  std::mutex submit_mutex_;
  std::optional<RequestId> request_;  // guarded by submit_mutex_; once submitted
  bool cancelled_ = false;            // guarded by submit_mutex_
};

// When to ask again after `error`: for an overload, when those that wait at the router for the model will have gone.
[[nodiscard]] Duration RetryAfter(const Dispatcher& dispatcher, const Error& error, std::string_view model);

}  // namespace roost::router
