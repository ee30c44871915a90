#include "router/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
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
  void OnTokens(std::vector<TokenId> tokens, std::optional<std::uint32_t> cached_token_count) override {
    generation_->responder_->Post([generation = generation_, tokens = std::move(tokens), cached_token_count] {
      generation->OnTokens(tokens, cached_token_count);
    });
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
      stop_tokens_(spec.stop_tokens),
      // The text goes on after the prompt, so a space in front of its first word is its own.
      stream_(spec.model->tokenizer, SpecialTokenOutput::kSkip, StreamStart::kContinuation),
      stop_filter_(options_.stop) {}

void Generation::Start(const GenerationServices& services, std::shared_ptr<Responder> responder, GenerateSpec spec,
                       GenerationOptions options) {
  const std::shared_ptr<Generation> generation(
      new Generation(services, std::move(responder), spec, std::move(options)));
  generation->Submit(std::move(spec));
}

void Generation::Submit(GenerateSpec spec) {
  services_.observer.OnGenerationStart(model_->name);
  responder_->OnClosed([self = shared_from_this()] { self->OnClientGone(); });
  if (ended_) return;
  Result<RequestId> request = services_.dispatcher.Submit(std::move(spec), std::make_shared<Relay>(shared_from_this()));
  if (!request.ok()) return Fail(request.error());
  request_ = *request;
}

void Generation::OnDispatched(const Dispatched& dispatched) {
  if (ended_) return;
  worker_id_ = dispatched.worker_id;
  predicted_cached_tokens_ = dispatched.decision.matched_tokens;
  if (options_.delivery == Delivery::kStream) responder_->PrepareStream(RoutingHeaders(predicted_cached_tokens_));
}

void Generation::OnTokens(const std::vector<TokenId>& tokens, std::optional<std::uint32_t> cached_token_count) {
  if (ended_) return;
  if (cached_token_count) cached_tokens_ = cached_token_count;
  if (tokens.empty()) return;
  if (completion_token_count_ == 0 && options_.delivery == Delivery::kStream &&
      options_.identity.kind == AnswerKind::kChat) {
    responder_->Send(Frame(RoleChunk(options_.identity, ChunkUsage())));
  }
  TellTimes(static_cast<std::uint32_t>(tokens.size()));
  SendText(Decode(tokens));
  if (!stop_filter_.stopped()) return;
  services_.dispatcher.Cancel(*request_);
  Finish(Outcome::kStop);
}

void Generation::OnEnd(const GenerationEnd& end) {
  if (ended_) return;
  switch (end.reason) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength: {
      std::string rest = stop_filter_.Push(stream_.Finish());
      rest += stop_filter_.Flush();
      SendText(rest);
      const bool stopped = end.reason == wire::FinishReason::kStop || stop_filter_.stopped();
      return Finish(stopped ? Outcome::kStop : Outcome::kLength);
    }
    case wire::FinishReason::kCancelled:
      // Nobody here asked for it, so the answer is cut for a reason of the cluster's.
      return Fail({ErrorCode::kUnavailable, "the generation was cancelled by the server", ""});
    case wire::FinishReason::kError:
      return Fail(end.error.value_or(Error{ErrorCode::kInternal, "the generation failed", ""}));
  }
}

void Generation::OnClientGone() {
  if (ended_) return;
  if (request_) services_.dispatcher.Cancel(*request_);
  Conclude(Outcome::kClientGone, TraitsOf(ErrorCode::kCancelled).http_status);
}

// ---- tokens to text ----

void Generation::TellTimes(std::uint32_t token_count) {
  const Instant now = services_.clock.Now();
  if (last_tokens_at_) {
    services_.observer.OnLaterTokens(model_->name, token_count, ToSeconds(now - *last_tokens_at_));
  } else {
    services_.observer.OnFirstToken(model_->name, ToSeconds(now - options_.started_at));
  }
  last_tokens_at_ = now;
}

bool Generation::IsStopToken(TokenId id) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end();
}

std::string Generation::Decode(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId id : tokens) {
    if (stop_filter_.stopped()) break;
    ++completion_token_count_;
    // A stop token ends the text and is no part of it.
    if (!IsStopToken(id)) text += stop_filter_.Push(stream_.Push(id));
  }
  return text;
}

void Generation::SendText(std::string_view text) {
  if (options_.delivery == Delivery::kWhole) {
    text_ += text;
  } else if (!text.empty()) {
    responder_->Send(Frame(TextChunk(options_.identity, text, ChunkUsage())));
  }
}

// ---- the end ----

void Generation::Finish(Outcome outcome) {
  const std::string_view finish_reason = NameOf(outcome);
  options_.delivery == Delivery::kStream ? FinishStream(finish_reason) : FinishWhole(finish_reason);
  Conclude(outcome, kStatusOk);
}

void Generation::FinishStream(std::string_view finish_reason) {
  std::string frames = Frame(FinishChunk(options_.identity, finish_reason, ChunkUsage()));
  if (options_.usage_report != UsageReport::kNever) frames += Frame(UsageChunk(options_.identity, CurrentUsage()));
  frames += kDoneFrame;
  responder_->Send(std::move(frames));
  responder_->End();
}

void Generation::FinishWhole(std::string_view finish_reason) {
  HttpResponse response;
  response.headers = RoutingHeaders(cached_tokens_.value_or(0));
  response.body = WholeAnswer(options_.identity, text_, finish_reason, CurrentUsage());
  responder_->Respond(std::move(response));
}

void Generation::Fail(const Error& error) {
  responder_->Fail(ErrorResponse(error), Frame(ErrorBody(error)) + std::string(kDoneFrame));
  const bool is_streaming = options_.delivery == Delivery::kStream && completion_token_count_ > 0;
  Conclude(Outcome::kError, is_streaming ? kStatusOk : TraitsOf(error.code).http_status);
}

void Generation::Conclude(Outcome outcome, int status) {
  ended_ = true;
  const double seconds = ToSeconds(services_.clock.Now() - options_.started_at);
  services_.observer.OnGenerationEnd({.route = options_.route,
                                      .model = model_->name,
                                      .worker_id = worker_id_,
                                      .outcome = outcome,
                                      .prompt_tokens = prompt_token_count_,
                                      .completion_tokens = completion_token_count_,
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
                               {"completion_tokens", fmt::to_string(completion_token_count_)},
                               {"seconds", fmt::format("{:.6f}", seconds)}});
}

Usage Generation::CurrentUsage() const {
  return {prompt_token_count_, completion_token_count_, cached_tokens_.value_or(0)};
}

std::optional<Usage> Generation::ChunkUsage() const {
  if (options_.usage_report != UsageReport::kEveryChunk) return std::nullopt;
  return CurrentUsage();
}

std::vector<HttpHeader> Generation::RoutingHeaders(std::uint32_t cached_tokens) const {
  return {{"x-roost-worker", worker_id_}, {"x-roost-cached-tokens", fmt::to_string(cached_tokens)}};
}

}  // namespace roost::router
