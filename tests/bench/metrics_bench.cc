// One scrape of a large router: 1,000 workers of 30 models, 10,000 series.
#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "router/fleet/registry_fleet_metrics.h"
#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

constexpr std::size_t kSeries = 10'000;
constexpr double kMilliseconds = 1e3;

std::size_t SeriesIn(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) count += text[line] == '#' ? 0 : 1;
  return count;
}

}  // namespace

void BenchMetrics(Effort effort) {
  constexpr std::size_t kWorkers = 1000;
  constexpr std::size_t kModels = 30;
  metrics::Registry registry;
  metrics::ExportProcess(registry, {.version = "1", .revision = ""});
  const auto fleet = router::MakeFleetMetrics(registry, "cache-aware");
  for (std::size_t worker = 0; worker < kWorkers; ++worker) {
    const std::string model = "model-" + std::to_string(worker % kModels);
    const std::string name = "roost-worker-" + std::to_string(worker);
    fleet->SetInFlight(model, name, 3);
    fleet->SetMode(model, name, router::WorkerMode::kExact);
  }
  // A model more until there are enough.
  std::size_t series = SeriesIn(registry.Text());
  for (std::size_t model = kModels; series < kSeries; ++model, series = SeriesIn(registry.Text())) {
    fleet->SetInFlight("model-" + std::to_string(model), "roost-worker-0", 0);
  }
  std::size_t bytes = 0;
  const double seconds = MedianSeconds(effort, [&] { bytes = registry.Text().size(); });
  ROOST_CHECK(bytes > series, "{} bytes", bytes);
  Figure("metrics_series_scraped", static_cast<double>(series), "series");
  Figure("metrics_scrape_ms_10k", seconds * kMilliseconds, "ms");
  Figure("metrics_scrape_kib_10k", static_cast<double>(bytes) / 1024, "KiB");
}

}  // namespace roost::bench
