// Turns the API's reports into metrics, under the names of common/metrics/catalog.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/http/tls_context.h"
#include "common/metrics/registry.h"
#include "router/access/key_account.h"
#include "router/access/key_ring.h"
#include "router/api/answers/api_observer.h"
#include "router/fleet/dispatcher.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

// Thread-safe: the server's threads share it.
class ApiMetrics final : public ApiObserver {
 public:
  // `registry` outlives it.
  explicit ApiMetrics(metrics::Registry& registry);

  void OnHandshakeFailed(HandshakeFailure failure);
  void OnCertificate(const TlsValidity& validity);

  // Updates the memo's metrics. Call it before the metrics are read.
  void OnPromptMemo(const PromptMemo::Counts& counts);

  // Likewise: the models' series are there before their first request.
  void OnModels(std::span<const std::shared_ptr<const ServedModel>> models);

  // Likewise what the keys have used.
  void OnKeys(std::span<const NamedAccount> accounts);

  void OnAnswer(std::string_view route, int status) override;
  void OnUnknownFields(std::uint32_t count) override;
  void OnDroppedReasoning(std::uint32_t count) override;
  void OnGenerationStart(std::string_view model) override;
  void OnGenerationEnd(const GenerationSummary& summary) override;
  // A name that no worker has served is a client's text and counts as `other`.
  void OnUnserved(const UnservedGeneration& unserved) override;
  void OnFirstToken(std::string_view model, double seconds) override;
  void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) override;

 private:
  // One model's metrics, resolved once.
  struct ModelMetrics {
    prometheus::Counter& output_tokens;
    prometheus::Counter& saved_seconds;
    prometheus::Counter& rotation_saved_seconds;
    prometheus::Histogram& ttft;
    prometheus::Histogram& inter_token;
    prometheus::Histogram& request_seconds;
    prometheus::Histogram& prompt_token_counts;
    prometheus::Histogram& output_token_counts;
    std::map<std::string_view, prometheus::Counter*> ended;  // by outcome
  };
  ModelMetrics& OfModel(std::string_view model);
  // One key's, as long as it has this tenant.
  struct KeyMetrics {
    KeyMetrics(metrics::Registry& registry, const NamedAccount& key);

    std::string tenant;
    prometheus::Counter* requests;
    prometheus::Counter* refused;
    prometheus::Counter* prompt_tokens;
    prometheus::Counter* cached_tokens;
    prometheus::Counter* output_tokens;
  };
  void AddAnswerSeries();

  metrics::Registry& registry_;
  prometheus::Gauge& active_;
  prometheus::Counter& unknown_fields_;
  prometheus::Counter& dropped_reasoning_;
  prometheus::Counter& prompt_bytes_;
  prometheus::Counter& memo_hit_bytes_;
  prometheus::Counter& memo_evictions_;
  prometheus::Gauge& memo_bytes_;
  prometheus::Gauge& certificate_expiry_;
  std::array<prometheus::Counter*, kHandshakeFailureCount> failed_handshakes_{};

  std::mutex mutex_;
  PromptMemo::Counts memo_counts_;                                 // guarded by mutex_
  std::map<std::string, std::pair<KeyMetrics, KeyUsage>> by_key_;  // with what was counted; guarded by mutex_
  std::map<std::string, ModelMetrics, std::less<>> by_model_;      // guarded by mutex_
  // By route and status. Routes that are not here are not counted. Guarded by mutex_.
  std::map<std::string, std::map<int, prometheus::Counter*>, std::less<>> answers_;
};

}  // namespace roost::router
