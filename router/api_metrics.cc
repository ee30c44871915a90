#include "router/api_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace roost::router {
namespace {

// Brings a counter to `now`; `told` is where it stands.
void CountUp(prometheus::Counter& counter, std::uint64_t& told, std::uint64_t now) {
  if (now <= told) return;  // somebody else has told a later count
  counter.Increment(static_cast<double>(now - told));
  told = now;
}

}  // namespace

ApiMetrics::ApiMetrics(metrics::Registry& registry)
    : registry_(registry),
      active_(registry.Gauge(metrics::kRouterActiveRequests)),
      unknown_fields_(registry.Counter(metrics::kRouterUnknownFields)),
      prompt_bytes_(registry.Counter(metrics::kRouterPromptBytes)),
      memo_hit_bytes_(registry.Counter(metrics::kRouterPromptMemoHitBytes)),
      memo_evictions_(registry.Counter(metrics::kRouterPromptMemoEvictions)),
      memo_bytes_(registry.Gauge(metrics::kRouterPromptMemoBytes)),
      certificate_expiry_(registry.Gauge(metrics::kRouterTlsCertificateExpiry)) {
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

void ApiMetrics::OnKeys(std::span<const std::pair<std::string, std::shared_ptr<KeyAccount>>> accounts) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, account] : accounts) {
    const KeyUsage now = account->usage();
    KeyMetrics& key = by_key_
                          .try_emplace(name, KeyMetrics{registry_.Counter(metrics::kRouterKeyRequests, {name}),
                                                        registry_.Counter(metrics::kRouterKeyRefusedRequests, {name}),
                                                        registry_.Counter(metrics::kRouterKeyPromptTokens, {name}),
                                                        registry_.Counter(metrics::kRouterKeyCachedTokens, {name}),
                                                        registry_.Counter(metrics::kRouterKeyOutputTokens, {name}),
                                                        {}})
                          .first->second;
    CountUp(key.requests, key.told.requests, now.requests);
    CountUp(key.refused, key.told.refused, now.refused);
    CountUp(key.prompt_tokens, key.told.prompt_tokens, now.prompt_tokens);
    CountUp(key.cached_tokens, key.told.cached_tokens, now.cached_tokens);
    CountUp(key.output_tokens, key.told.output_tokens, now.output_tokens);
  }
}

void ApiMetrics::OnUnknownFields(std::uint32_t count) { unknown_fields_.Increment(count); }

void ApiMetrics::OnAnswer(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  auto [entry, is_new] = answers_.try_emplace({std::string(route), status}, nullptr);
  if (is_new) {
    entry->second = &registry_.Counter(metrics::kRouterRequests, {std::string(route), fmt::to_string(status)});
  }
  entry->second->Increment();
}

void ApiMetrics::OnGenerationStart(std::string_view) { active_.Increment(); }

void ApiMetrics::OnGenerationEnd(const GenerationSummary& summary) {
  active_.Decrement();
  ModelMetrics& model = OfModel(summary.model);
  model.output_tokens.Increment(summary.completion_tokens);
  model.request_seconds.Observe(summary.seconds);
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
  return by_model_
      .emplace(name, ModelMetrics{registry_.Counter(metrics::kRouterOutputTokens, {name}),
                                  registry_.Histogram(metrics::kRouterTtft, {name}),
                                  registry_.Histogram(metrics::kRouterInterToken, {name}),
                                  registry_.Histogram(metrics::kRouterRequestSeconds, {name})})
      .first->second;
}

}  // namespace roost::router
