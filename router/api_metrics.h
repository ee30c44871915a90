// Turns the API's reports into metrics, under the names of common/metrics/catalog.h.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/metrics/registry.h"
#include "router/api/api_observer.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

// Thread-safe: the server's threads share it.
class ApiMetrics final : public ApiObserver {
 public:
  // `registry` outlives it.
  explicit ApiMetrics(metrics::Registry& registry);

  // Updates the memo's metrics. Call it before the metrics are read.
  void OnPromptMemo(const PromptMemo::Counts& counts);

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

  metrics::Registry& registry_;
  prometheus::Gauge& active_;
  prometheus::Counter& unknown_fields_;
  prometheus::Counter& prompt_bytes_;
  prometheus::Counter& memo_hit_bytes_;
  prometheus::Counter& memo_evictions_;
  prometheus::Gauge& memo_bytes_;

  std::mutex mutex_;
  PromptMemo::Counts memo_counts_;                                                    // guarded by mutex_
  std::map<std::string, ModelMetrics, std::less<>> by_model_;                         // guarded by mutex_
  std::map<std::pair<std::string, int>, prometheus::Counter*, std::less<>> answers_;  // guarded by mutex_
};

}  // namespace roost::router
