#include "router/api_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <set>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "router/api/routes/api.h"

namespace roost::router {
namespace {

// Brings a counter to `now`; `told` is where it stands.
void CountUp(prometheus::Counter& counter, std::uint64_t& told, std::uint64_t now) {
  if (now <= told) return;  // another thread has told a later count
  counter.Increment(static_cast<double>(now - told));
  told = now;
}

// Values of the label `outcome`: how generations end that clients see through, and all errors.
std::vector<std::string_view> GenerationOutcomes() {
  using Outcome = GenerationSummary::Outcome;
  std::vector<std::string_view> names;
  for (const Outcome outcome : {Outcome::kStop, Outcome::kLength, Outcome::kToolCalls, Outcome::kClientGone}) {
    names.push_back(NameOf(outcome));
  }
  for (int code = 0; code < kErrorCodeCount; ++code) names.push_back(TraitsOf(static_cast<ErrorCode>(code)).name);
  return names;
}

}  // namespace

ApiMetrics::ApiMetrics(metrics::Registry& registry)
    : registry_(registry),
      active_(registry.Gauge(metrics::kRouterActiveRequests)),
      unknown_fields_(registry.Counter(metrics::kRouterUnknownFields)),
      dropped_reasoning_(registry.Counter(metrics::kRouterDroppedReasoning)),
      prompt_bytes_(registry.Counter(metrics::kRouterPromptBytes)),
      memo_hit_bytes_(registry.Counter(metrics::kRouterPromptMemoHitBytes)),
      memo_evictions_(registry.Counter(metrics::kRouterPromptMemoEvictions)),
      memo_bytes_(registry.Gauge(metrics::kRouterPromptMemoBytes)),
      certificate_expiry_(registry.Gauge(metrics::kRouterTlsCertificateExpiry)) {
  AddAnswerSeries();
  for (std::size_t i = 0; i < failed_handshakes_.size(); ++i) {
    const std::string reason(NameOf(static_cast<HandshakeFailure>(i)));
    failed_handshakes_[i] = &registry.Counter(metrics::kRouterTlsHandshakeFailures, {reason});
  }
}

void ApiMetrics::OnHandshakeFailed(HandshakeFailure failure) {
  failed_handshakes_.at(static_cast<std::size_t>(failure))->Increment();
}

void ApiMetrics::OnCertificate(const TlsValidity& validity) {
  certificate_expiry_.Set(static_cast<double>(validity.until_seconds));
}

void ApiMetrics::OnPromptMemo(const PromptMemo::Counts& counts) {
  const std::lock_guard lock(mutex_);
  CountUp(prompt_bytes_, memo_counts_.read_bytes, counts.read_bytes);
  CountUp(memo_hit_bytes_, memo_counts_.known_bytes, counts.known_bytes);
  CountUp(memo_evictions_, memo_counts_.evicted_count, counts.evicted_count);
  memo_bytes_.Set(static_cast<double>(counts.held_bytes));
}

ApiMetrics::KeyMetrics::KeyMetrics(metrics::Registry& registry, const NamedAccount& key)
    : tenant(key.tenant),
      requests(&registry.Counter(metrics::kRouterKeyRequests, {key.name, tenant})),
      refused(&registry.Counter(metrics::kRouterKeyRefusedRequests, {key.name, tenant})),
      prompt_tokens(&registry.Counter(metrics::kRouterKeyPromptTokens, {key.name, tenant})),
      cached_tokens(&registry.Counter(metrics::kRouterKeyCachedTokens, {key.name, tenant})),
      output_tokens(&registry.Counter(metrics::kRouterKeyOutputTokens, {key.name, tenant})) {}

void ApiMetrics::OnKeys(std::span<const NamedAccount> accounts) {
  const std::lock_guard lock(mutex_);
  for (const NamedAccount& named : accounts) {
    const KeyUsage now = named.account->usage();
    auto& [key, told] = by_key_.try_emplace(named.name, KeyMetrics(registry_, named), KeyUsage()).first->second;
    if (key.tenant != named.tenant) key = KeyMetrics(registry_, named);
    CountUp(*key.requests, told.requests, now.requests);
    CountUp(*key.refused, told.refused, now.refused);
    CountUp(*key.prompt_tokens, told.prompt_tokens, now.prompt_tokens);
    CountUp(*key.cached_tokens, told.cached_tokens, now.cached_tokens);
    CountUp(*key.output_tokens, told.output_tokens, now.output_tokens);
  }
}

void ApiMetrics::OnModels(std::span<const std::shared_ptr<const ServedModel>> models) {
  for (const auto& model : models) OfModel(model->model_name());
}

void ApiMetrics::OnUnknownFields(std::uint32_t count) { unknown_fields_.Increment(count); }

void ApiMetrics::OnDroppedReasoning(std::uint32_t count) { dropped_reasoning_.Increment(count); }

// Every route with every status: alerts need a zero before the first failure.
void ApiMetrics::AddAnswerSeries() {
  constexpr int kOk = 200;
  constexpr int kNoContent = 204;
  std::set<int> statuses{kOk, kNoContent};
  for (int code = 0; code < kErrorCodeCount; ++code) {
    statuses.insert(TraitsOf(static_cast<ErrorCode>(code)).http_status);
  }
  for (const std::string_view route : Api::ClientRoutes()) {
    auto& by_status = answers_[std::string(route)];
    for (const int status : statuses) {
      by_status[status] = &registry_.Counter(metrics::kRouterRequests, {std::string(route), fmt::to_string(status)});
    }
  }
}

void ApiMetrics::OnAnswer(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(route);
  if (found == answers_.end()) return;
  prometheus::Counter*& counter = found->second[status];
  if (counter == nullptr) {
    counter = &registry_.Counter(metrics::kRouterRequests, {std::string(route), fmt::to_string(status)});
  }
  counter->Increment();
}

void ApiMetrics::OnGenerationStart(std::string_view) { active_.Increment(); }

void ApiMetrics::OnGenerationEnd(const GenerationSummary& summary) {
  active_.Decrement();
  ModelMetrics& model = OfModel(summary.model);
  model.output_tokens.Increment(summary.completion_tokens);
  model.request_seconds.Observe(summary.seconds);
  if (summary.cached_tokens) {
    model.prompt_token_counts.Observe(summary.prompt_tokens);
    model.output_token_counts.Observe(summary.completion_tokens);
    model.saved_seconds.Increment(summary.savings.seconds);
    model.rotation_saved_seconds.Increment(summary.savings.rotation_seconds);
  }
  const bool failed = summary.outcome == GenerationSummary::Outcome::kError;
  const ErrorCode error = summary.error.value_or(ErrorCode::kInternal);
  model.ended.at(failed ? TraitsOf(error).name : NameOf(summary.outcome))->Increment();
}

void ApiMetrics::OnUnserved(const UnservedGeneration& unserved) {
  OfModel(unserved.is_known ? unserved.model : metrics::kOtherValue)
      .ended.at(TraitsOf(unserved.error).name)
      ->Increment();
}

void ApiMetrics::OnFirstToken(std::string_view model, double seconds) { OfModel(model).ttft.Observe(seconds); }

void ApiMetrics::OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) {
  // Tokens that arrived together share the time since the last arrival equally.
  ModelMetrics& metrics = OfModel(model);
  for (std::uint32_t i = 0; i < token_count; ++i) metrics.inter_token.Observe(seconds / token_count);
}

ApiMetrics::ModelMetrics& ApiMetrics::OfModel(std::string_view model) {
  const std::lock_guard lock(mutex_);
  const auto found = by_model_.find(model);
  if (found != by_model_.end()) return found->second;
  const std::string name(model);
  ModelMetrics metrics{.output_tokens = registry_.Counter(metrics::kRouterOutputTokens, {name}),
                       .saved_seconds = registry_.Counter(metrics::kRouterSavedPrefill, {name, "chosen"}),
                       .rotation_saved_seconds = registry_.Counter(metrics::kRouterSavedPrefill, {name, "round_robin"}),
                       .ttft = registry_.Histogram(metrics::kRouterTtft, {name}),
                       .inter_token = registry_.Histogram(metrics::kRouterInterToken, {name}),
                       .request_seconds = registry_.Histogram(metrics::kRouterRequestSeconds, {name}),
                       .prompt_token_counts = registry_.Histogram(metrics::kRouterGenerationPromptTokens, {name}),
                       .output_token_counts = registry_.Histogram(metrics::kRouterGenerationOutputTokens, {name}),
                       .ended = {}};
  for (const std::string_view outcome : GenerationOutcomes()) {
    metrics.ended[outcome] = &registry_.Counter(metrics::kRouterGenerations, {name, std::string(outcome)});
  }
  return by_model_.emplace(name, std::move(metrics)).first->second;
}

}  // namespace roost::router
