// A benchmark's results for programs: JSON of the figures, CSV of the requests, SVG of the distributions.
#pragma once

#include <span>
#include <string>

#include "deploy/roostctl/bench/compare.h"
#include "deploy/roostctl/bench/report.h"

namespace roost::roostctl {

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
