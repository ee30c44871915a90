// A benchmark's results as text for people, and as the lines that scripts read.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/roostctl/bench/compare.h"
#include "deploy/roostctl/bench/load_run.h"
#include "deploy/roostctl/bench/summary.h"

namespace roost::roostctl {

// One side of a benchmark, with the medians of its probes for the first (cold) and the second (warm) request.
struct BenchRun {
  LoadTarget target;
  std::vector<BenchSample> samples = {};
  BenchSummary summary;
  std::optional<double> ttft_cold_seconds = {};  // empty: not probed
  std::optional<double> ttft_warm_seconds = {};
  std::string probe_error = {};         // empty when all probes succeeded
  std::optional<double> capacity = {};  // requests per second, where it was searched
};

// Several lines: requests, errors by kind, times with percentiles, tokens, goodput, workers.
[[nodiscard]] std::string FormatRun(const BenchRun& run, const ServiceLimits& limits);

// The distribution of the times to the first token, as bars.
[[nodiscard]] std::string FormatHistogram(const BenchRun& run);

// A table of both sides with a verdict per figure, and how it was found. `sessions_needed` are enough for a verdict.
[[nodiscard]] std::string FormatComparison(const LoadTarget& a, const LoadTarget& b,
                                           std::span<const Difference> differences, std::size_t sessions_needed);

// One row per run: all end with a line feed.
[[nodiscard]] std::string TableHead();
[[nodiscard]] std::string TableRow(const BenchRun& run);
// "bench: label=… requests=… …", without the figures that were not measured.
[[nodiscard]] std::string KeyLine(const BenchRun& run);
// "cache gain: ttft_p50=…x …"
[[nodiscard]] std::string GainLine(const CacheGain& gain);

// A benchmark's results for programs: JSON of the figures, CSV of the requests, SVG of the distributions.

// {"runs": [{"label", "url", "model", "requests", "failed", "failed_by_kind", …, "ttft_seconds": {"mean", "p50", "p90",
// "p99", "max"}, …}], "comparison": [{"figure", "unit", "a", "b", "ratio", "low", "high", "blocks", "verdict"}]}.
// The comparison is absent unless there is one.
[[nodiscard]] std::string ResultJson(std::span<const BenchRun> runs, std::span<const Difference> differences,
                                     double ran_seconds);

// A row for each request, in the order in which they ended. Errors are quoted.
[[nodiscard]] std::string RequestsCsv(std::span<const BenchRun> runs);

// Times to the first token, and between tokens; a curve for each run.
[[nodiscard]] std::string PlotRuns(std::span<const BenchRun> runs);

}  // namespace roost::roostctl
