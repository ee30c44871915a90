// Reports a generation: usage, metrics, the log's line and the spans of its trace.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/trace_context.h"
#include "router/api/answers/generation.h"
#include "router/route/policy.h"

namespace roost::router {

void Generation::Conclude(Outcome outcome, int status, std::optional<ErrorCode> error) {
  ended_ = true;
  FreeAnswer();
  const double seconds = ToSeconds(services_.clock.Now() - options_.started_at);
  const Usage usage = CurrentUsage();
  const bool has_cached = std::any_of(prompts_.begin(), prompts_.end(),
                                      [](const Prompt& prompt) { return prompt.cached_tokens.has_value(); });
  // A generation that failed before its first token used nothing.
  if (options_.admission != nullptr && has_cached) {
    options_.admission->account().CountGeneration(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
  }
  CacheSavings savings;
  for (const Prompt& prompt : prompts_) {
    if (prompt.cached_tokens) savings += SavingsOf(prompt.worth, *prompt.cached_tokens);
  }
  services_.observer.OnGenerationEnd({.route = options_.route,
                                      .model = model_->model_name(),
                                      .worker_id = worker_id_,
                                      .outcome = outcome,
                                      .error = error,
                                      .prompt_tokens = usage.prompt_tokens,
                                      .completion_tokens = usage.completion_tokens,
                                      .predicted_cached_tokens = predicted_cached_tokens(),
                                      .cached_tokens = has_cached ? std::optional(usage.cached_tokens) : std::nullopt,
                                      .seconds = seconds,
                                      .key = key_name(),
                                      .tenant = tenant_name(),
                                      .written_tokens = usage.written_tokens,
                                      .savings = savings});
  services_.observer.OnAnswer(options_.route, status);
  LogEnd(outcome, status, seconds);
  if (options_.trace.is_recorded()) services_.tracing.spans.sink->Add(SpanOf(outcome, status));
}

std::string_view Generation::key_name() const {
  return options_.admission == nullptr ? std::string_view() : options_.admission->key().name;
}

std::string_view Generation::tenant_name() const {
  return options_.admission == nullptr ? std::string_view() : options_.admission->key().tenant;
}

void Generation::LogEnd(Outcome outcome, int status, double seconds) const {
  const Usage usage = CurrentUsage();
  LogInfo("generation ended", {{"request_id", options_.request_id},
                               {"trace_id", std::string(TraceIdOf(options_.trace.trace_parent))},
                               {"client", options_.client},
                               {"key", std::string(key_name())},
                               {"route", std::string(options_.route)},
                               {"model", model_->name},
                               {"worker", worker_id_},
                               {"reason", std::string(reason_)},
                               {"outcome", std::string(NameOf(outcome))},
                               {"status", status},
                               {"prompt_tokens", usage.prompt_tokens},
                               {"cached_tokens", usage.cached_tokens},
                               {"completion_tokens", usage.completion_tokens},
                               {"ttft_seconds", ttft_seconds_},
                               {"seconds", seconds}});
}

trace::Span Generation::SpanOf(Outcome outcome, int status) const {
  const Usage usage = CurrentUsage();
  const bool is_chat = options_.route != "completions";
  trace::Span span = options_.trace.Own(fmt::format("{} {}", is_chat ? "chat" : "text_completion", model_->name),
                                        options_.started_at, services_.clock.Now());
  span.attributes = {{"gen_ai.operation.name", is_chat ? "chat" : "text_completion"},
                     {"gen_ai.request.model", model_->name},
                     {"gen_ai.usage.input_tokens", std::int64_t{usage.prompt_tokens}},
                     {"gen_ai.usage.output_tokens", std::int64_t{usage.completion_tokens}},
                     {"http.response.status_code", std::int64_t{status}},
                     {"roost.cached_tokens", std::int64_t{usage.cached_tokens}},
                     {"roost.predicted_cached_tokens", std::int64_t{predicted_cached_tokens()}},
                     {"roost.request_id", options_.request_id},
                     {"roost.worker", worker_id_},
                     {"roost.outcome", std::string(NameOf(outcome))},
                     {"roost.key", std::string(key_name())}};
  if (ttft_seconds_) span.attributes.push_back({"roost.ttft_seconds", *ttft_seconds_});
  if (outcome == Outcome::kError) {
    span.status = trace::SpanStatus::kError;
    span.status_message = fmt::format("status {}", status);
  }
  return span;
}

void Generation::TraceDispatch(const Dispatched& dispatched) {
  const Instant now = services_.clock.Now();
  const Instant begin = std::exchange(routed_since_, now);
  if (!options_.trace.is_recorded()) return;
  trace::Span span = options_.trace.Child("route", begin, now, services_.tracing.spans);
  const Decision& decision = dispatched.decision;
  span.attributes = {{"roost.worker", dispatched.worker_id},
                     {"roost.reason", std::string(NameOf(decision.reason))},
                     {"roost.predicted_cached_tokens", std::int64_t{decision.matched_tokens}},
                     {"roost.candidates", static_cast<std::int64_t>(decision.candidates.size())}};
  if (decision.in_seconds) span.attributes.push_back({"roost.predicted_ttft_seconds", decision.predicted_ttft_seconds});
  services_.tracing.spans.sink->Add(std::move(span));
}

Usage Generation::CurrentUsage() const {
  Usage usage;
  for (const Prompt& prompt : prompts_) {
    usage.prompt_tokens += prompt.token_count;
    const std::uint32_t cached = prompt.cached_tokens.value_or(0);
    usage.cached_tokens += cached;
    usage.written_tokens += prompt.written_tokens;
    usage.written_hour_tokens += std::min(prompt.written_tokens, prompt.hour_end - std::min(prompt.hour_end, cached));
  }
  usage.comparison = comparison_;
  usage.verdict = VerdictWith(usage.cached_tokens);
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.stream.token_count();
    usage.reasoning_tokens += choice.reasoning_token_count;
  }
  return usage;
}

std::uint32_t Generation::predicted_cached_tokens() const {
  std::uint32_t tokens = 0;
  for (const Prompt& prompt : prompts_) tokens += prompt.predicted_cached_tokens;
  return tokens;
}

}  // namespace roost::router
