#include "router/api/answers/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/trace_context.h"
#include "common/prefix/worker_match.h"
#include "router/api/answers/text_memory.h"
#include "router/api/key_file.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/index/prefix_index.h"

namespace roost::router {
namespace {

bool Draw(double ratio, std::uint64_t random) {
  return std::ldexp(static_cast<double>(random >> 11U), -53) < ratio;  // 53 bits: as many as a double has
}

}  // namespace

trace::Span RequestTrace::Own(std::string name, Instant begin, Instant end) const {
  return {.trace_id = trace_id,
          .span_id = span_id,
          .parent_span_id = parent_span_id,
          .name = std::move(name),
          .kind = trace::SpanKind::kServer,
          .begin = begin,
          .end = end};
}

trace::Span RequestTrace::Child(std::string name, Instant begin, Instant end, const trace::SpanOutlet& spans) const {
  return {.trace_id = trace_id,
          .span_id = SpanIdOf(spans.random()),
          .parent_span_id = span_id,
          .name = std::move(name),
          .begin = begin,
          .end = end};
}

RequestTrace BeginTrace(const Tracing& tracing, std::string_view client) {
  RequestTrace trace;
  std::optional<TraceContext> context = ParseTraceParent(client);
  if (context) trace.trace_parent = client;
  if (!tracing.spans.is_open()) return trace;
  const auto& random = tracing.spans.random;
  if (!context)
    context = {.trace_id = SpanIdOf(random()) + SpanIdOf(random()), .is_sampled = Draw(tracing.sample_ratio, random())};
  if (!context->is_sampled) return trace;
  trace.trace_id = context->trace_id;
  trace.parent_span_id = std::exchange(context->parent_id, SpanIdOf(random()));
  trace.span_id = context->parent_id;
  trace.trace_parent = MakeTraceParent(*context);
  return trace;
}

namespace {

constexpr int kStatusOk = 200;
constexpr std::uint64_t kLongLifetimeMs = 3'600'000;

// Applies to answers as values. Below it the JSON takes well under a millisecond.
constexpr std::size_t kLargeAnswerBytes = std::size_t{64} << 10U;

std::size_t SizeOf(std::span<const wire::TokenLogprobs> logprobs) {
  std::size_t bytes = 0;
  for (const wire::TokenLogprobs& each : logprobs) bytes += sizeof(each) + each.top.size() * sizeof(wire::TokenLogprob);
  return bytes;
}

std::size_t SizeOf(std::span<const ChoiceAnswer> answers) {
  std::size_t bytes = 0;
  for (const ChoiceAnswer& answer : answers) {
    bytes += answer.content.size() + answer.reasoning.size();
    for (const ToolCall& call : answer.tool_calls) bytes += call.arguments.size();
    bytes += (answer.tokens.size() + answer.prompt_tokens.size()) * sizeof(TokenId);
    bytes += SizeOf(answer.logprobs) + SizeOf(answer.prompt_logprobs);
  }
  return bytes;
}

AnswerFinish FinishOf(GenerationSummary::Outcome outcome) {
  switch (outcome) {
    case GenerationSummary::Outcome::kLength: return AnswerFinish::kLength;
    case GenerationSummary::Outcome::kToolCalls: return AnswerFinish::kToolCalls;
    default: return AnswerFinish::kStop;
  }
}

}  // namespace

class Generation::Relay final : public GenerationObserver {
 public:
  Relay(std::shared_ptr<Generation> generation, std::size_t prompt)
      : generation_(std::move(generation)), prompt_(prompt) {}

  void OnDispatched(const Dispatched& dispatched) override {
    generation_->responder_->Post(
        [generation = generation_, prompt = prompt_, dispatched] { generation->OnDispatched(prompt, dispatched); });
  }
  void OnPromptLogprobs(std::vector<wire::TokenLogprobs> logprobs) override {
    generation_->responder_->Post(
        [generation = generation_, prompt = prompt_, logprobs = std::move(logprobs)]() mutable {
          generation->OnPromptLogprobs(prompt, std::move(logprobs));
        });
  }
  void OnTokens(ChoiceTokens tokens) override {
    generation_->responder_->Post([generation = generation_, prompt = prompt_, tokens = std::move(tokens)]() mutable {
      generation->OnTokens(prompt, std::move(tokens));
    });
  }
  void OnChoiceEnd(ChoiceEnd end) override {
    generation_->responder_->Post(
        [generation = generation_, prompt = prompt_, end] { generation->OnChoiceEnd(prompt, end); });
  }
  void OnEnd(GenerationEnd end) override {
    generation_->responder_->Post(
        [generation = generation_, prompt = prompt_, end = std::move(end)] { generation->OnEnd(prompt, end); });
  }

 private:
  const std::shared_ptr<Generation> generation_;
  const std::size_t prompt_;
};

// ---- the life of a request ----

Generation::Generation(const GenerationServices& services, std::shared_ptr<Responder> responder,
                       const std::vector<GenerateSpec>& specs, GenerationOptions options)
    : memory_(std::move(options.memory)),
      services_(services),
      responder_(std::move(responder)),
      options_(std::move(options)),
      model_(specs.front().model),
      stop_tokens_(specs.front().generate.stop_tokens),
      comparison_(specs.front().comparison),
      min_tokens_(specs.front().generate.min_output_tokens),
      choices_per_prompt_(specs.front().generate.sample_count),
      routed_since_(services_.clock.Now()),
      requests_(specs.size()) {
  TextOptions text = options_.text;
  text.stop.clear();
  for (const GenerateSpec& spec : specs) {
    Prompt& prompt = prompts_.emplace_back();
    request_bytes_ += SpecBytes(spec);
    prompt.token_count = static_cast<std::uint32_t>(spec.generate.prompt.size());
    for (const wire::Lifetime& lifetime : spec.generate.lifetimes) {
      if (lifetime.duration_ms >= kLongLifetimeMs) prompt.hour_end = std::max(prompt.hour_end, lifetime.end_token);
    }
    if (options_.token_ids == TokenIdReport::kTell || spec.generate.prompt_logprobs)
      prompt.tokens = spec.generate.prompt;
    for (std::uint32_t i = 0; i < choices_per_prompt_; ++i) {
      choices_.push_back({.stream = ChoiceText(model_->tokenizer, text),
                          .parser = options_.make_parser(static_cast<std::uint32_t>(choices_.size())),
                          .stop = std::make_unique<StopFilter>(options_.text.stop, options_.text.stop_text),
                          .answer = {},
                          .outcome = {},
                          .last_tokens_at = {}});
    }
  }
}

void Generation::Start(const GenerationServices& services, std::shared_ptr<Responder> responder, ClientWatch& client,
                       std::vector<GenerateSpec> specs, GenerationOptions options) {
  const std::shared_ptr<Generation> generation(
      new Generation(services, std::move(responder), specs, std::move(options)));
  generation->Submit(client, std::move(specs));
}

void Generation::Submit(ClientWatch& client, std::vector<GenerateSpec> specs) {
  services_.observer.OnGenerationStart(model_->model_name());
  for (std::size_t i = 0; i < specs.size(); ++i) Charge(prompts_[i], ExpectedCachedTokens(specs[i]));
  if (!client.Watch([self = shared_from_this()] { self->OnClientGone(); })) {
    return responder_->Post([self = shared_from_this()] { self->OnClientGone(); });
  }
  for (std::size_t prompt = 0; prompt < specs.size(); ++prompt) {
    Result<RequestId> request = TrySubmit(std::move(specs[prompt]), prompt);
    if (!request.ok()) {
      const Duration retry_after = RetryAfter(services_.dispatcher, request.error(), model_->model_name());
      return responder_->Post([self = shared_from_this(), error = std::move(request).error(), retry_after] {
        if (!self->ended_) self->Fail(error, retry_after);
      });
    }
    if (!OnSubmitted(prompt, *request)) return;
  }
}

std::uint64_t Generation::ExpectedCachedTokens(const GenerateSpec& spec) const {
  if (options_.admission == nullptr || options_.admission->key().limits.cached_token_weight == 1) return 0;
  if (spec.generate.cache_mode == wire::CacheMode::kOff || model_->index == nullptr) return 0;
  const std::vector<WorkerMatch> matches = model_->index->Match(spec.generate.block_hashes);
  return matches.empty() ? 0 : std::uint64_t{matches.front().block_count} * model_->block_tokens;
}

void Generation::Charge(Prompt& prompt, std::uint64_t cached_tokens) const {
  if (options_.admission == nullptr) return;
  const std::uint64_t owed = options_.admission->key().limits.ChargeOf(prompt.token_count, cached_tokens);
  const std::uint64_t charged = std::exchange(prompt.charge, owed);
  if (owed > charged) options_.admission->TakeTokens(owed - charged, services_.clock.Now());
  if (owed < charged) options_.admission->GiveTokensBack(charged - owed, services_.clock.Now());
}

Result<RequestId> Generation::TrySubmit(GenerateSpec spec, std::size_t prompt) {
  try {
    return services_.dispatcher.Submit(std::move(spec), std::make_shared<Relay>(shared_from_this(), prompt));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kUnavailable, "the server is out of memory", ""};
  }
}

bool Generation::OnSubmitted(std::size_t prompt, RequestId request) {
  {
    const std::lock_guard lock(submit_mutex_);
    requests_[prompt] = request;
    if (!cancelled_) return true;
  }
  services_.dispatcher.Cancel(request);
  return false;
}

void Generation::Cancel() {
  std::vector<std::optional<RequestId>> requests;
  {
    const std::lock_guard lock(submit_mutex_);
    cancelled_ = true;
    requests = requests_;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] && !prompts_[i].ended) services_.dispatcher.Cancel(*requests[i]);
  }
}

// Does nothing if the request has no id yet: OnSubmitted cancels it then, once Cancel has been called.
void Generation::CancelPrompt(std::size_t prompt) {
  std::optional<RequestId> request;
  {
    const std::lock_guard lock(submit_mutex_);
    request = requests_[prompt];
  }
  if (!request) return;
  prompts_[prompt].ended = true;
  services_.dispatcher.Cancel(*request);
}

void Generation::OnDispatched(std::size_t prompt, const Dispatched& dispatched) {
  if (!TakesEvents()) return;
  worker_id_ = dispatched.worker_id;
  reason_ = NameOf(dispatched.decision.reason);
  TraceDispatch(dispatched);
  prompts_[prompt].predicted_cached_tokens = dispatched.decision.matched_tokens;
  prompts_[prompt].elsewhere_tokens = dispatched.decision.elsewhere_tokens;
  prompts_[prompt].before = dispatched.decision.loss.worker;
  if (!prompts_[prompt].cached_tokens) prompts_[prompt].worth = dispatched.decision.worth;
  if (is_streamed()) responder_->PrepareStream(RoutingHeaders(predicted_cached_tokens()));
}

void Generation::OnPromptLogprobs(std::size_t prompt, std::vector<wire::TokenLogprobs> logprobs) {
  if (TakesEvents()) prompts_[prompt].logprobs = std::move(logprobs);
}

void Generation::OnTokens(std::size_t prompt, ChoiceTokens tokens) {
  if (!TakesEvents()) return;
  if (tokens.cached_token_count) {
    prompts_[prompt].cached_tokens = tokens.cached_token_count;
    prompts_[prompt].written_tokens = tokens.written_token_count;
    prompts_[prompt].miss = tokens.miss;
    Charge(prompts_[prompt], *tokens.cached_token_count);
  }
  const std::uint32_t index = ChoiceOf(prompt, tokens.choice);
  Choice& choice = choices_.at(index);
  if (choice.outcome || tokens.tokens.empty() || options_.output != GenerationOptions::Output::kTell) return;
  TellTimes(choice, static_cast<std::uint32_t>(tokens.tokens.size()));
  if (options_.admission != nullptr) options_.admission->TakeTokens(tokens.tokens.size(), services_.clock.Now());
  if (!choice.began) BeginChoice(index);
  Say(index, Parse(choice, std::move(tokens)));
  if (ended_ || !choice.is_stopped()) return;
  CompleteChoice(index, wire::FinishReason::kStop, std::nullopt);
  FinishIfDone(prompt);
}

void Generation::OnChoiceEnd(std::size_t prompt, ChoiceEnd end) {
  if (!TakesEvents()) return;
  CompleteChoice(ChoiceOf(prompt, end.choice), end.reason, end.stop_token);
  FinishIfDone(prompt);
}

void Generation::OnEnd(std::size_t prompt, const GenerationEnd& end) {
  if (!TakesEvents()) return;
  prompts_[prompt].ended = true;
  switch (end.reason) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength:
      for (std::uint32_t i = 0; i < choices_per_prompt_; ++i)
        CompleteChoice(ChoiceOf(prompt, i), end.reason, end.stop_token);
      return FinishIfDone(prompt);
    case wire::FinishReason::kCancelled:
      // This generation did not ask for the cancellation, so the cluster cut the answer.
      return Fail({ErrorCode::kUnavailable, "the generation was cancelled by the server", ""}, Duration(0));
    case wire::FinishReason::kError: {
      const Error error = end.error.value_or(Error{ErrorCode::kInternal, "the generation failed", ""});
      return Fail(error, RetryAfter(services_.dispatcher, error, model_->model_name()));
    }
  }
}

void Generation::OnClientGone() {
  if (ended_) return;
  Cancel();
  Conclude(Outcome::kClientGone, TraitsOf(ErrorCode::kCancelled).http_status);
}

// ---- tokens to text ----

std::uint32_t Generation::ChoiceOf(std::size_t prompt, std::uint32_t choice) const {
  return static_cast<std::uint32_t>(prompt) * choices_per_prompt_ + choice;
}

void Generation::TellTimes(Choice& choice, std::uint32_t token_count) {
  const Instant now = services_.clock.Now();
  if (choice.last_tokens_at) {
    services_.observer.OnLaterTokens(model_->model_name(), token_count, ToSeconds(now - *choice.last_tokens_at));
  } else if (!ttft_seconds_) {
    ttft_seconds_ = ToSeconds(now - options_.started_at);
    services_.observer.OnFirstToken(model_->model_name(), *ttft_seconds_);
  }
  choice.last_tokens_at = now;
}

AnswerDelta Generation::Parse(Choice& choice, ChoiceTokens tokens) {
  AnswerDelta delta;
  for (const TokenId& token : tokens.tokens) {
    if (choice.is_stopped()) break;
    if (choice.parser->is_reasoning()) ++choice.reasoning_token_count;
    AnswerDelta piece;
    choice.parser->Push(choice.stream.Push(token, stop_tokens_), piece);
    AppendVisible(choice, std::move(piece), delta);
  }
  delta.tokens = std::move(tokens.tokens);
  delta.logprobs = std::move(tokens.logprobs);
  return delta;
}

void Generation::AppendVisible(Choice& choice, AnswerDelta piece, AnswerDelta& delta) const {
  if (choice.has_all_calls) return;
  delta.reasoning += piece.reasoning;
  const bool is_early = choice.stream.token_count() <= min_tokens_ && min_tokens_ > 0;
  delta.content += is_early ? choice.stop->Pass(piece.content) : choice.stop->Push(piece.content);
  if (choice.stop->stopped() || piece.tool_calls.empty()) return;
  // A stop string does not reach over a call.
  delta.content += choice.stop->Flush();
  for (ToolCallDelta& call : piece.tool_calls) {
    choice.has_all_calls = options_.calls == ToolCallCount::kOne && call.index > 0;
    if (choice.has_all_calls) return;
    const bool goes_on = call.id.empty() && !delta.tool_calls.empty();
    goes_on ? void(delta.tool_calls.back().arguments += call.arguments) : delta.tool_calls.push_back(std::move(call));
  }
}

// Runs before the choice's first tokens are counted.
void Generation::BeginChoice(std::uint32_t index) {
  choices_[index].began = true;
  const std::size_t prompt = index / choices_per_prompt_;
  AnswerDelta delta;
  if (!options_.echoes.empty()) delta.content = options_.echoes[prompt];
  delta.prompt_tokens = prompts_[prompt].tokens;
  delta.prompt_logprobs = prompts_[prompt].logprobs;
  Say(index, std::move(delta));
}

void Generation::Say(std::uint32_t index, AnswerDelta delta) {
  if (ended_) return;
  Choice& choice = choices_[index];
  for (const ToolCallDelta& call : delta.tool_calls) {
    choice.tool_call_count = std::max(choice.tool_call_count, call.index + 1);
  }
  if (!is_streamed()) return Gather(choice, std::move(delta));
  const Usage usage = CurrentUsage();
  std::string begin;
  if (!std::exchange(began_, true)) begin = options_.format->Begin(usage);
  std::string frames = options_.format->Continue(index, delta, usage);
  SendFrames(begin.empty() ? std::move(frames) : begin + frames);
}

void Generation::Gather(Choice& choice, AnswerDelta delta) {
  if (memory_ != nullptr) {
    const Result<void> held = HoldMore(*memory_, DeltaBytes(delta), request_bytes_);
    if (!held.ok()) {
      return Fail(held.error(), RetryAfter(services_.dispatcher, held.error(), model_->model_name()));
    }
  }
  choice.answer.Append(std::move(delta));
}

void Generation::SendFrames(std::string frames) {
  if (!frames.empty()) responder_->Send(std::move(frames));
}

// ---- the end ----

void Generation::CompleteChoice(std::uint32_t index, wire::FinishReason reason, std::optional<TokenId> stop_token) {
  Choice& choice = choices_.at(index);
  if (choice.outcome) return;
  if (options_.output != GenerationOptions::Output::kTell) {
    const bool is_prewarm = options_.output == GenerationOptions::Output::kPrewarm;
    reason = is_prewarm ? wire::FinishReason::kStop : wire::FinishReason::kLength;
    stop_token.reset();
  }
  // Only a stop token from the request is reported; the model's own are of no interest to the client.
  const bool is_requests_own =
      stop_token && std::find(stop_tokens_.begin(), stop_tokens_.end(), *stop_token) != stop_tokens_.end();
  if (is_requests_own) choice.answer.finish.stopped_by = *stop_token;
  if (!choice.began) BeginChoice(index);
  AnswerDelta last;
  choice.parser->Push(choice.stream.Flush(), last);
  const bool stopped_itself = reason == wire::FinishReason::kStop || choice.is_stopped();
  choice.parser->Finish(last, stopped_itself ? TextEnd::kStopped : TextEnd::kCut);
  AnswerDelta rest;
  AppendVisible(choice, std::move(last), rest);
  if (!choice.has_all_calls) rest.content += choice.stop->Flush();
  if (rest.has_text()) Say(index, std::move(rest));
  const bool stopped = stopped_itself || choice.is_stopped();
  if (!stopped) return EndChoice(index, Outcome::kLength);
  EndChoice(index, choice.tool_call_count > 0 ? Outcome::kToolCalls : Outcome::kStop);
}

void Generation::EndChoice(std::uint32_t index, Outcome outcome) {
  Choice& choice = choices_[index];
  choice.outcome = outcome;
  last_outcome_ = outcome;
  choice.answer.finish.reason = FinishOf(outcome);
  if (const std::string* stop = choice.stop->stopped_by()) choice.answer.finish.stopped_by = *stop;
  if (!is_streamed()) return;
  std::string frames;
  if (!std::exchange(began_, true)) frames = options_.format->Begin(CurrentUsage());
  frames += options_.format->EndChoice(index, choice.answer.finish, CurrentUsage());
  SendFrames(std::move(frames));
}

bool Generation::IsOpen(std::size_t prompt) const {
  const auto first = choices_.begin() + static_cast<std::ptrdiff_t>(ChoiceOf(prompt, 0));
  return std::any_of(first, first + choices_per_prompt_, [](const Choice& choice) { return !choice.outcome; });
}

void Generation::FinishIfDone(std::size_t prompt) {
  if (!TakesEvents() || IsOpen(prompt)) return;
  if (!prompts_[prompt].ended) CancelPrompt(prompt);
  if (std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.outcome.has_value(); })) {
    Finish();
  }
}

void Generation::Finish() {
  if (!is_streamed()) return FinishWhole();
  SendFrames(options_.format->End(CurrentUsage()));
  responder_->End();
  Conclude(last_outcome_, kStatusOk);
}

void Generation::FinishWhole() {
  const auto answers = std::make_shared<std::vector<ChoiceAnswer>>(TakeAnswers());
  if (!WriteElsewhere(answers)) RespondWhole(options_.format->Whole(*answers, CurrentUsage()));
}

bool Generation::WriteElsewhere(std::shared_ptr<std::vector<ChoiceAnswer>> answers) {
  const std::size_t bytes = SizeOf(*answers);
  if (services_.text == nullptr || bytes < kLargeAnswerBytes) return false;
  // The charge is held also when the client leaves, until the answers are freed.
  const auto write = [self = shared_from_this(), answers = std::move(answers), usage = CurrentUsage(),
                      charge = memory_] {
    std::shared_ptr<std::string> body;
    try {
      body = std::make_shared<std::string>(self->options_.format->Whole(*answers, usage));
    } catch (const std::bad_alloc&) {
      body = nullptr;
    }
    answers->clear();
    answers->shrink_to_fit();
    self->responder_->Post([self, body] {
      if (self->ended_) return;
      if (body != nullptr) return self->RespondWhole(std::move(*body));
      self->Fail({ErrorCode::kUnavailable, "the server is out of memory", ""}, Duration(0));
    });
  };
  is_being_written_ = services_.text->TryPost(tenant_name(), bytes, write);
  return is_being_written_;
}

void Generation::RespondWhole(std::string body) {
  HttpResponse response;
  response.headers = RoutingHeaders(CurrentUsage().cached_tokens);
  response.body = std::move(body);
  response.memory = std::move(memory_);
  // The body is a part of what was charged. More than that, for tokens of unusual length, is let pass: it is there.
  if (response.memory != nullptr) static_cast<void>(response.memory->TryResize(response.body.capacity()));
  responder_->Respond(std::move(response));
  Conclude(last_outcome_, kStatusOk);
}

std::vector<ChoiceAnswer> Generation::TakeAnswers() {
  std::vector<ChoiceAnswer> answers;
  for (Choice& choice : choices_) answers.push_back(std::exchange(choice.answer, {}));
  for (Prompt& prompt : prompts_) prompt.logprobs = {};
  return answers;
}

void Generation::FreeAnswer() {
  for (Choice& choice : choices_) choice.answer = {};
  for (Prompt& prompt : prompts_) prompt.logprobs = {};
  memory_.reset();
}

// Also cancels the answer's other prompts.
void Generation::Fail(const Error& error, Duration retry_after) {
  Cancel();
  // Before the answer, which tells the client what is left.
  if (options_.admission != nullptr && !ttft_seconds_) {
    for (const Prompt& prompt : prompts_) options_.admission->GiveTokensBack(prompt.charge, services_.clock.Now());
  }
  const FailureShape shape =
      responder_->Fail(options_.format->FailureResponse(error, retry_after), options_.format->Fail(error));
  Conclude(Outcome::kError, shape == FailureShape::kFrames ? kStatusOk : TraitsOf(error.code).http_status, error.code);
}

std::vector<HttpHeader> Generation::RoutingHeaders(std::uint32_t cached_tokens) const {
  std::vector<HttpHeader> headers{{"x-roost-worker", worker_id_},
                                  {"x-roost-cached-tokens", fmt::to_string(cached_tokens)}};
  const CacheVerdict verdict = VerdictWith(cached_tokens);
  if (verdict.cause != MissCause::kNone) {
    headers.push_back({"x-roost-miss", fmt::format("{}; tokens={}", NameOf(verdict.cause), verdict.tokens)});
  }
  if (options_.admission != nullptr) AddLimitHeaders(*options_.admission, services_.clock.Now(), headers);
  return headers;
}

// An answer to several prompts says nothing: each has its own.
CacheVerdict Generation::VerdictWith(std::uint32_t cached_tokens) const {
  if (prompts_.size() != 1) return {};
  const Prompt& prompt = prompts_.front();
  return VerdictOf(comparison_, {.prompt_tokens = prompt.token_count,
                                 .block_tokens = model_->block_tokens,
                                 .cached_tokens = cached_tokens,
                                 .miss = prompt.miss,
                                 .elsewhere_tokens = prompt.elsewhere_tokens,
                                 .before = prompt.before});
}

Duration RetryAfter(const Dispatcher& dispatcher, const Error& error, std::string_view model) {
  if (error.code != ErrorCode::kOverloaded) return Duration(0);
  const std::shared_ptr<const FleetSnapshot> view = dispatcher.View();
  for (const QueueStatus& queue : view->queues) {
    if (queue.model == model) return FromSeconds(queue.drain_seconds);
  }
  return Duration(0);
}

}  // namespace roost::router
