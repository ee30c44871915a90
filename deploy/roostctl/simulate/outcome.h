// The result of a run, as figures to compare.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/roostctl/simulate/request_log.h"
#include "router/route/cache_worth.h"
#include "router/route/policy.h"

namespace roost::simulate {

// The limits that a request must keep to count in the goodput.
struct ServiceLimits {
  double ttft_seconds = 2;
  double itl_seconds = 0.05;  // mean time between the tokens of its answer
};

// Seconds of the requests that were not refused.
struct Figures {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

// The times of the worker that restarts. It gets no request in between.
struct RestartTimes {
  std::uint32_t worker = 0;
  Instant left{};
  std::optional<Instant> returned = {};
};
inline constexpr Duration kRestartSettling = std::chrono::seconds(30);

// `share` is 1 for an equal share of the requests that arrive kRestartSettling after the return or later; hits are of
// those that arrive from the leave until then.
struct RestartFigures {
  double share = 0;
  double hit_ratio = 0;
};

struct Outcome {
  std::string policy;
  std::uint32_t worker_count = 0;
  std::uint64_t cache_tokens = 0;  // per worker; 0: unlimited
  double hit_ratio = 0;            // cached prompt tokens / prompt tokens, of requests that were not refused
  double time_hit_ratio = 0;       // the same of the prompts' prefill time
  Figures ttft;                    // time to the first token, from arrival at the router
  Figures itl;                     // mean time between the tokens of each answer, where it has two or more
  Figures whole;                   // time until the answer's end
  double good_per_second = 0;      // requests that kept the limits, from the first arrival to the last end
  double good_share = 0;           // of all requests
  double requests_per_second = 0;  // that arrived
  std::optional<double> capacity = std::nullopt;  // requests per second, see HighestGoodSpeed
  double imbalance = 0;                           // most prompt tokens computed by one worker / mean over the workers
  std::uint64_t refused_count = 0;
  std::optional<RestartFigures> restart = std::nullopt;
  std::optional<PullCounts> pulls = std::nullopt;        // with links
  std::optional<RestoreCounts> restores = std::nullopt;  // with disks

  std::uint64_t prompt_token_count = 0;    // of requests that were not refused
  std::uint64_t cached_token_count = 0;    // part of prompt_token_count
  std::uint64_t computed_token_count = 0;  // on all workers; tokens computed twice count twice
  std::uint64_t copied_token_count =
      0;  // those of them for copies of prefixes; they count in the imbalance, not in the hit ratio
  router::CacheSavings savings;      // as a router's ledger counts them, by its own estimates
  std::vector<double> ttft_seconds;  // ascending

  std::vector<RequestRecord> requests;                        // by number in the trace
  std::vector<std::uint64_t> computed_tokens_by_worker;       // prompt tokens; a pool has one sum
  std::map<router::DecisionReason, std::uint64_t> decisions;  // of all routers

  // A share of all prompt tokens; 0 without links.
  [[nodiscard]] double pulled_share() const;
  // A share of all prompt tokens, that a round robin over the same caches would have found.
  [[nodiscard]] double round_robin_hit_ratio() const;
  // The same without disks.
  [[nodiscard]] double restored_share() const;

  // Fills all fields but the first three, the capacity, the pulls, the restores and the decisions.
  void Fill(std::vector<RequestRecord> records, std::vector<std::uint64_t> computed_tokens,
            const ServiceLimits& limits);
  void FillRestart(const RestartTimes& times, std::size_t workers);
};

[[nodiscard]] bool IsGood(const RequestRecord& record, const ServiceLimits& limits);

// {"policy": …, "workers": …, "cache_tokens": …, "hit_ratio": …, "time_hit_ratio": …, "ttft_mean_s": …, "ttft_p50_s":
// …, "ttft_p99_s": …, "ttft_max_s": …, "itl_mean_s": …, "itl_p99_s": …, "whole_mean_s": …, "whole_p99_s": …,
// "goodput_rps": …, "good_share": …, "requests_per_s": …, "capacity_rps": …, "imbalance": …, "refused": …,
// "saved_prefill_s": …, "round_robin_saved_s": …, "round_robin_hit_ratio": …}; the last two are of a round robin over
// the same caches. cache_tokens is null when unlimited, capacity_rps when it was not searched. After a restart also
// "restarted_share": …, "restart_hit_ratio": …; with links "pulls": …, "pulled_tokens": …, "pulled_share": …; with
// disks "restores": …, "restored_tokens": …, "restored_share": …, "written_tokens": ….
[[nodiscard]] std::string ToJson(const Outcome& outcome);

// A table's header, and its row for an outcome; both end with a line feed. A capacity, a restart, links and disks make
// the row longer.
[[nodiscard]] std::string TableHead();
[[nodiscard]] std::string TableRow(const Outcome& outcome);

// An SVG plot: for each outcome, the share of requests (vertical) whose first token came within a time (horizontal,
// logarithmic).
[[nodiscard]] std::string PlotTtft(std::span<const Outcome> outcomes);

}  // namespace roost::simulate
