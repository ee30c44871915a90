// A benchmark's verdicts, and its results as text for people and as the lines that scripts read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/roostctl/bench/load_run.h"
#include "deploy/roostctl/bench/summary.h"

namespace roost::roostctl {

// Decides which differences between two endpoints are more than noise.
//
// Both get the same load in blocks, the one or the other first by chance. Requests of one block wait for each other and
// share the state of the machine, so they do not count as independent; blocks do. For each figure, each block gives the
// logarithm of B's value divided by A's. Over the blocks, Student's t gives an interval of their mean: a paired
// interval, because a block's own peculiarities are in both values. Each of the eight intervals has a confidence of
// 99.4 %, so that any of them is wrong in at most 5 % of comparisons (Bonferroni). A figure differs if its interval
// does not include "equal".
//
// Source: R. Jain, The Art of Computer Systems Performance Analysis, 1991, chapters 13 and 25 (paired observations,
// batch means).

// Student's t distribution, for intervals of the mean of few values.

// The share of the distribution with `freedom` degrees of freedom (above 0) that lies below `t`.
[[nodiscard]] double StudentShareBelow(double t, double freedom);

// The t that `share` (inside (0, 1)) of the distribution lies below. By bisection; exact to about 1e-9.
[[nodiscard]] double StudentQuantile(double share, double freedom);

// With fewer, the interval says nothing.
inline constexpr std::size_t kFewestBlocks = 5;

enum class Verdict : std::uint8_t {
  kNoise,   // the interval includes "equal"
  kBetter,  // B is better than A
  kWorse,
  kUnknown,  // fewer than kFewestBlocks blocks have the figure on both sides
};
[[nodiscard]] std::string_view NameOf(Verdict verdict);

struct Difference {
  std::string_view figure;
  std::string_view unit;
  double a = 0;  // of all blocks together
  double b = 0;
  double ratio = 0;  // geometric mean over the blocks of B / A; 0 if unknown
  double low = 0;    // of its interval
  double high = 0;
  std::size_t block_count = 0;  // that have the figure on both sides
  Verdict verdict = Verdict::kUnknown;
};

// A block's two sides.
struct BlockPair {
  BenchSummary a;
  BenchSummary b;
};
[[nodiscard]] std::vector<Difference> Compare(const BenchSummary& a, const BenchSummary& b,
                                              std::span<const BlockPair> blocks);

// An interval of the mean that covers it with this probability.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
[[nodiscard]] std::optional<Interval> MeanInterval(std::span<const double> values, double confidence);

// A benchmark's results as text for people, and as the lines that scripts read.

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
