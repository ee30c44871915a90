// One generation on its way to its client: dispatches it, turns tokens into text, cuts at stop strings, writes the
// stream or the whole answer, tells the observer, and cancels what nobody waits for.
//
//   Start ── Submit ── error ─────────────────────────────────────► proper status
//               └─ dispatched ─ tokens* ─ end ────────────────────► chunks … [DONE], or the whole answer
//                       │          ├ stop string ► Cancel ────────► the same, finish_reason "stop"
//                       │          └ error ───────────────────────► status before the first token, error event after
//                       └ client gone, any time ► Cancel
//
// Threads: the dispatcher's calls are posted to the connection's thread; everything here runs there. Nothing is locked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/text/tokenizer.h"
#include "router/api/api_observer.h"
#include "router/api/openai_json.h"
#include "router/api/sampling_fields.h"
#include "router/api/stop_filter.h"
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
  // In the handler. It keeps itself alive until its end.
  static void Start(const GenerationServices& services, std::shared_ptr<Responder> responder, GenerateSpec spec,
                    GenerationOptions options);

  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

 private:
  class Relay;  // the dispatcher's observer: posts to the connection's thread

  Generation(const GenerationServices& services, std::shared_ptr<Responder> responder, const GenerateSpec& spec,
             GenerationOptions options);

  void Submit(GenerateSpec spec);
  void OnDispatched(const Dispatched& dispatched);
  void OnTokens(const std::vector<TokenId>& tokens, std::optional<std::uint32_t> cached_token_count);
  void OnEnd(const GenerationEnd& end);
  void OnClientGone();

  void TellTimes(std::uint32_t token_count);
  [[nodiscard]] std::string Decode(const std::vector<TokenId>& tokens);
  [[nodiscard]] bool IsStopToken(TokenId id) const;
  void SendText(std::string_view text);
  void Finish(GenerationSummary::Outcome outcome);
  void FinishStream(std::string_view finish_reason);
  void FinishWhole(std::string_view finish_reason);
  void Fail(const Error& error);
  void Conclude(GenerationSummary::Outcome outcome, int status);

  [[nodiscard]] Usage CurrentUsage() const;
  [[nodiscard]] std::optional<Usage> ChunkUsage() const;
  [[nodiscard]] std::vector<HttpHeader> RoutingHeaders(std::uint32_t cached_tokens) const;

  const GenerationServices services_;
  const std::shared_ptr<Responder> responder_;
  const GenerationOptions options_;
  const std::shared_ptr<const ServedModel> model_;
  const std::uint32_t prompt_token_count_;
  const std::vector<TokenId> stop_tokens_;

  TokenStream stream_;
  StopFilter stop_filter_;
  std::optional<RequestId> request_;  // once submitted
  bool ended_ = false;
  std::string worker_id_;
  std::uint32_t predicted_cached_tokens_ = 0;
  std::optional<std::uint32_t> cached_tokens_;
  std::uint32_t completion_token_count_ = 0;
  std::optional<Instant> last_tokens_at_;
  std::string text_;  // of a whole answer, so far
};

}  // namespace roost::router
