// The result of a run, as figures to compare.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "deploy/roostctl/simulate/request_log.h"
#include "router/route/policy.h"

namespace roost::simulate {

struct Outcome {
  std::string policy;
  std::uint32_t worker_count = 0;
  std::uint64_t cache_tokens = 0;  // per worker; 0: unlimited
  double hit_ratio = 0;            // cached prompt tokens / prompt tokens, of requests that were not refused
  double ttft_mean_seconds = 0;    // from arrival at the router; of requests that were not refused
  double ttft_p50_seconds = 0;
  double ttft_p99_seconds = 0;
  double ttft_max_seconds = 0;
  double imbalance = 0;  // most prompt tokens computed by one worker / mean over the workers
  std::uint64_t refused_count = 0;

  std::uint64_t prompt_token_count = 0;    // of requests that were not refused
  std::uint64_t cached_token_count = 0;    // part of prompt_token_count
  std::uint64_t computed_token_count = 0;  // on all workers; tokens computed twice count twice
  std::uint64_t copied_token_count =
      0;  // those of them for copies of prefixes; they count in the imbalance, not in the hit ratio
  std::vector<double> ttft_seconds;  // ascending

  std::vector<RequestRecord> requests;                        // by number in the trace
  std::vector<std::uint64_t> computed_tokens_by_worker;       // prompt tokens; a pool has one sum
  std::map<router::DecisionReason, std::uint64_t> decisions;  // of all routers

  // Fills all fields but the first three and the decisions.
  void Fill(std::vector<RequestRecord> records, std::vector<std::uint64_t> computed_tokens);
};

// {"policy": …, "workers": …, "cache_tokens": …, "hit_ratio": …, "ttft_mean_s": …, "ttft_p50_s": …, "ttft_p99_s": …,
// "ttft_max_s": …, "imbalance": …, "refused": …}; cache_tokens is null when unlimited.
[[nodiscard]] std::string ToJson(const Outcome& outcome);

// A table's header, and its row for an outcome; both end with a line feed.
[[nodiscard]] std::string TableHead();
[[nodiscard]] std::string TableRow(const Outcome& outcome);

// An SVG plot: for each outcome, the share of requests (vertical) whose first token came within a time (horizontal,
// logarithmic).
[[nodiscard]] std::string PlotTtft(std::span<const Outcome> outcomes);

}  // namespace roost::simulate
