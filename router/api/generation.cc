#include "router/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/log.h"

namespace roost::router {

using Outcome = GenerationSummary::Outcome;

namespace {

constexpr int kStatusOk = 200;

}  // namespace

class Generation::Relay final : public GenerationObserver {
 public:
  explicit Relay(std::shared_ptr<Generation> generation) : generation_(std::move(generation)) {}

  void OnDispatched(const Dispatched& dispatched) override {
    generation_->responder_->Post([generation = generation_, dispatched] { generation->OnDispatched(dispatched); });
  }
  void OnTokens(ChoiceTokens tokens) override {
    generation_->responder_->Post(
        [generation = generation_, tokens = std::move(tokens)] { generation->OnTokens(tokens); });
  }
  void OnChoiceEnd(ChoiceEnd end) override {
    generation_->responder_->Post([generation = generation_, end] { generation->OnChoiceEnd(end); });
  }
  void OnEnd(GenerationEnd end) override {
    generation_->responder_->Post([generation = generation_, end = std::move(end)] { generation->OnEnd(end); });
  }

 private:
  const std::shared_ptr<Generation> generation_;
};

// ---- the life of a request ----

Generation::Generation(const GenerationServices& services, std::shared_ptr<Responder> responder,
                       const GenerateSpec& spec, GenerationOptions options)
    : services_(services),
      responder_(std::move(responder)),
      options_(std::move(options)),
      model_(spec.model),
      prompt_token_count_(static_cast<std::uint32_t>(spec.prompt.size())),
      stop_tokens_(spec.stop_tokens) {
  for (std::uint32_t i = 0; i < spec.sample_count; ++i) {
    choices_.push_back({ChoiceText(model_->tokenizer, options_.stop), {}, {}, {}});
  }
}

void Generation::Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                       GenerateSpec spec, GenerationOptions options) {
  const std::shared_ptr<Generation> generation(
      new Generation(services, std::move(responder), spec, std::move(options)));
  generation->Submit(client, std::move(spec));
}

void Generation::Submit(ClientWatch& client, GenerateSpec spec) {
  services_.observer.OnGenerationStart(model_->name);
  if (!client.Watch([self = shared_from_this()] { self->OnClientGone(); })) {
    return responder_->Post([self = shared_from_this()] { self->OnClientGone(); });
  }
  Result<RequestId> request = TrySubmit(std::move(spec));
  if (request.ok()) return OnSubmitted(*request);
  const Duration retry_after = RetryAfter(services_.dispatcher, request.error(), model_->name);
  responder_->Post([self = shared_from_this(), error = std::move(request).error(), retry_after] {
    if (!self->ended_) self->Fail(error, retry_after);
  });
}

Result<RequestId> Generation::TrySubmit(GenerateSpec spec) {
  try {
    return services_.dispatcher.Submit(std::move(spec), std::make_shared<Relay>(shared_from_this()));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kUnavailable, "the server is out of memory", ""};
  }
}

void Generation::OnSubmitted(RequestId request) {
  {
    const std::lock_guard lock(submit_mutex_);
    request_ = request;
    if (!cancelled_) return;
  }
  services_.dispatcher.Cancel(request);
}

void Generation::Cancel() {
  std::optional<RequestId> request;
  {
    const std::lock_guard lock(submit_mutex_);
    cancelled_ = true;
    request = request_;
  }
  if (request) services_.dispatcher.Cancel(*request);
}

void Generation::OnDispatched(const Dispatched& dispatched) {
  if (ended_) return;
  worker_id_ = dispatched.worker_id;
  predicted_cached_tokens_ = dispatched.decision.matched_tokens;
  if (options_.delivery == Delivery::kStream) responder_->PrepareStream(RoutingHeaders(predicted_cached_tokens_));
}

void Generation::OnTokens(const ChoiceTokens& tokens) {
  if (ended_) return;
  if (tokens.cached_token_count) cached_tokens_ = tokens.cached_token_count;
  Choice& choice = choices_.at(tokens.choice);
  if (choice.outcome || tokens.tokens.empty()) return;
  if (choice.stream.token_count() == 0 && options_.delivery == Delivery::kStream &&
      options_.identity.kind == AnswerKind::kChat) {
    responder_->Send(Frame(RoleChunk(options_.identity, tokens.choice, ChunkUsage())));
  }
  TellTimes(choice, static_cast<std::uint32_t>(tokens.tokens.size()));
  // Before the chunk is written, which may tell the number of tokens.
  const std::string text = choice.stream.Push(tokens.tokens, stop_tokens_);
  SendText(tokens.choice, text);
  if (!choice.stream.stopped()) return;
  EndChoice(tokens.choice, Outcome::kStop);
  FinishIfDone();
}

void Generation::OnChoiceEnd(ChoiceEnd end) {
  if (ended_) return;
  CompleteChoice(end);
  FinishIfDone();
}

void Generation::OnEnd(const GenerationEnd& end) {
  if (ended_) return;
  switch (end.reason) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength:
      for (std::uint32_t i = 0; i < choices_.size(); ++i) CompleteChoice({i, end.reason});
      return Finish();
    case wire::FinishReason::kCancelled:
      // Nobody here asked for it, so the answer is cut for a reason of the cluster's.
      return Fail({ErrorCode::kUnavailable, "the generation was cancelled by the server", ""}, Duration(0));
    case wire::FinishReason::kError: {
      const Error error = end.error.value_or(Error{ErrorCode::kInternal, "the generation failed", ""});
      return Fail(error, RetryAfter(services_.dispatcher, error, model_->name));
    }
  }
}

void Generation::OnClientGone() {
  if (ended_) return;
  Cancel();
  Conclude(Outcome::kClientGone, TraitsOf(ErrorCode::kCancelled).http_status);
}

// ---- tokens to text ----

void Generation::TellTimes(Choice& choice, std::uint32_t token_count) {
  const Instant now = services_.clock.Now();
  if (choice.last_tokens_at) {
    services_.observer.OnLaterTokens(model_->name, token_count, ToSeconds(now - *choice.last_tokens_at));
  } else if (!std::exchange(first_token_told_, true)) {
    services_.observer.OnFirstToken(model_->name, ToSeconds(now - options_.started_at));
  }
  choice.last_tokens_at = now;
}

void Generation::SendText(std::uint32_t index, std::string_view text) {
  if (options_.delivery == Delivery::kWhole) {
    choices_[index].text += text;
  } else if (!text.empty()) {
    responder_->Send(Frame(TextChunk(options_.identity, index, text, ChunkUsage())));
  }
}

// ---- the end ----

void Generation::CompleteChoice(ChoiceEnd end) {
  Choice& choice = choices_.at(end.choice);
  if (choice.outcome) return;
  SendText(end.choice, choice.stream.Flush());
  const bool stopped = end.reason == wire::FinishReason::kStop || choice.stream.stopped();
  EndChoice(end.choice, stopped ? Outcome::kStop : Outcome::kLength);
}

void Generation::EndChoice(std::uint32_t index, Outcome outcome) {
  choices_[index].outcome = outcome;
  last_outcome_ = outcome;
  if (options_.delivery == Delivery::kStream) {
    responder_->Send(Frame(FinishChunk(options_.identity, index, NameOf(outcome), ChunkUsage())));
  }
}

void Generation::FinishIfDone() {
  const auto is_open = [](const Choice& choice) { return !choice.outcome; };
  if (std::any_of(choices_.begin(), choices_.end(), is_open)) return;
  Cancel();
  Finish();
}

void Generation::Finish() {
  options_.delivery == Delivery::kStream ? FinishStream() : FinishWhole();
  Conclude(last_outcome_, kStatusOk);
}

void Generation::FinishStream() {
  std::string frames;
  if (options_.usage_report != UsageReport::kNever) frames += Frame(UsageChunk(options_.identity, CurrentUsage()));
  frames += kDoneFrame;
  responder_->Send(std::move(frames));
  responder_->End();
}

void Generation::FinishWhole() {
  std::vector<WholeChoice> choices;
  for (const Choice& choice : choices_) choices.push_back({choice.text, NameOf(*choice.outcome)});
  HttpResponse response;
  response.headers = RoutingHeaders(cached_tokens_.value_or(0));
  response.body = WholeAnswer(options_.identity, choices, CurrentUsage());
  responder_->Respond(std::move(response));
}

void Generation::Fail(const Error& error, Duration retry_after) {
  const FailureShape shape =
      responder_->Fail(ErrorResponse(error, retry_after), Frame(ErrorBody(error)) + std::string(kDoneFrame));
  Conclude(Outcome::kError, shape == FailureShape::kFrames ? kStatusOk : TraitsOf(error.code).http_status);
}

void Generation::Conclude(Outcome outcome, int status) {
  ended_ = true;
  const double seconds = ToSeconds(services_.clock.Now() - options_.started_at);
  services_.observer.OnGenerationEnd({.route = options_.route,
                                      .model = model_->name,
                                      .worker_id = worker_id_,
                                      .outcome = outcome,
                                      .prompt_tokens = prompt_token_count_,
                                      .completion_tokens = completion_token_count(),
                                      .predicted_cached_tokens = predicted_cached_tokens_,
                                      .cached_tokens = cached_tokens_,
                                      .seconds = seconds});
  services_.observer.OnAnswer(options_.route, status);
  LogInfo("generation ended", {{"request_id", options_.request_id},
                               {"model", model_->name},
                               {"worker", worker_id_},
                               {"outcome", std::string(NameOf(outcome))},
                               {"status", fmt::to_string(status)},
                               {"prompt_tokens", fmt::to_string(prompt_token_count_)},
                               {"cached_tokens", fmt::to_string(cached_tokens_.value_or(0))},
                               {"completion_tokens", fmt::to_string(completion_token_count())},
                               {"seconds", fmt::format("{:.6f}", seconds)}});
}

std::uint32_t Generation::completion_token_count() const {
  std::uint32_t count = 0;
  for (const Choice& choice : choices_) count += choice.stream.token_count();
  return count;
}

Usage Generation::CurrentUsage() const {
  return {prompt_token_count_, completion_token_count(), cached_tokens_.value_or(0)};
}

std::optional<Usage> Generation::ChunkUsage() const {
  if (options_.usage_report != UsageReport::kEveryChunk) return std::nullopt;
  return CurrentUsage();
}

std::vector<HttpHeader> Generation::RoutingHeaders(std::uint32_t cached_tokens) const {
  return {{"x-roost-worker", worker_id_}, {"x-roost-cached-tokens", fmt::to_string(cached_tokens)}};
}

Duration RetryAfter(const Dispatcher& dispatcher, const Error& error, std::string_view model) {
  if (error.code != ErrorCode::kOverloaded) return Duration(0);
  for (const QueueStatus& queue : dispatcher.Queues()) {
    if (queue.model == model) return FromSeconds(queue.drain_seconds);
  }
  return Duration(0);
}

}  // namespace roost::router
