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
#include "router/api/api_observer.h"
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

  // Likewise what the keys have used.
  void OnKeys(std::span<const std::pair<std::string, std::shared_ptr<KeyAccount>>> accounts);

  void OnAnswer(std::string_view route, int status) override;
  void OnUnknownFields(std::uint32_t count) override;
  void OnGenerationStart(std::string_view model) override;
  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnFirstToken(std::string_view model, double seconds) override;
  void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) override;

 private:
  // One model's metrics, resolved once.
  struct ModelMetrics {
    prometheus::Counter& output_tokens;
    prometheus::Histogram& ttft;
    prometheus::Histogram& inter_token;
    prometheus::Histogram& request_seconds;
  };
  ModelMetrics& OfModel(std::string_view model);
  // One key's, and what they have been told.
  struct KeyMetrics {
    prometheus::Counter& requests;
    prometheus::Counter& refused;
    prometheus::Counter& prompt_tokens;
    prometheus::Counter& cached_tokens;
    prometheus::Counter& output_tokens;
    KeyUsage told;
  };

  metrics::Registry& registry_;
  prometheus::Gauge& active_;
  prometheus::Counter& unknown_fields_;
  prometheus::Counter& prompt_bytes_;
  prometheus::Counter& memo_hit_bytes_;
  prometheus::Counter& memo_evictions_;
  prometheus::Gauge& memo_bytes_;
  prometheus::Gauge& certificate_expiry_;
  std::array<prometheus::Counter*, kHandshakeFailureCount> failed_handshakes_{};

  std::mutex mutex_;
  PromptMemo::Counts memo_counts_;                                                    // guarded by mutex_
  std::map<std::string, KeyMetrics> by_key_;                                          // guarded by mutex_
  std::map<std::string, ModelMetrics, std::less<>> by_model_;                         // guarded by mutex_
  std::map<std::pair<std::string, int>, prometheus::Counter*, std::less<>> answers_;  // guarded by mutex_
};

}  // namespace roost::router
