// `roostctl simulate`: runs a trace on a simulated cluster, under one routing policy after the other.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/simulate/cost_profiles.h"
#include "deploy/roostctl/simulate/simulation.h"
#include "deploy/roostctl/workload/source.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/disk/write_queue.h"

namespace roost::roostctl {

struct SimulateOptions {
  // Load
  std::string trace;
  std::string format = "mooncake";
  std::string generator;
  std::uint32_t session_count = 0;  // 0: all, or the generator's default
  double utilisation = 0.8;         // 0: the trace's own times
  double rate = 0;                  // requests per second, instead of the utilisation; 0: that
  double seconds = 0;               // of a generated load at that rate; 0: its own number of requests
  double speed = 1;                 // then times are divided by it
  bool recorded_ticks = false;
  std::uint64_t seed = 1;

  // Routing
  std::vector<std::string> policies{"cache-aware"};  // see SimulatedPolicies; "all": all of them
  std::uint32_t router_count = 1;
  double event_delay_ms = 1;

  // Workers
  std::uint32_t worker_count = 8;
  std::uint32_t prefill_worker_count = 0;  // of them: the first ones; the others then decode
  std::vector<std::string> worker_speeds;  // of worker 0, 1, …, repeated; empty: all 1
  std::uint64_t cache_tokens = simulate::WorkerOptions().cache_tokens;
  std::string eviction{worker::kDefaultEvictionPolicy};
  std::string schedule{worker::kDefaultSchedulePolicy};
  std::uint64_t first_token_target_ms = worker::kDefaultFirstTokenTargetMs;  // 0: none
  std::uint32_t max_batch_tokens = simulate::WorkerOptions().max_batch_tokens;
  std::uint32_t short_step_tokens = worker::kDefaultShortStepTokens;
  std::uint32_t max_running_requests = simulate::WorkerOptions().max_running_requests;
  std::uint32_t max_waiting_requests = simulate::WorkerOptions().max_waiting_requests;
  double load_interval_ms = 1000 * ToSeconds(simulate::WorkerOptions().load_interval);
  std::uint64_t kv_tokens = 0;                                                   // 0: cache_tokens
  std::vector<std::string> costs{std::string(simulate::kCostProfiles[0].name)};  // see ParseCosts
  bool weigh_slo = false;        // routers know the limits of good requests
  std::uint32_t min_copies = 1;  // roost-router's
  double link_gbps = 0;          // of each worker's link, in each direction; 0: no links
  std::uint64_t kv_bytes_per_token = simulate::LinkOptions().kv_bytes_per_token;
  std::uint64_t disk_tokens = 0;                                  // on each worker's disk; 0: no disk
  double disk_gbps = 0;                                           // of each disk
  std::uint64_t disk_write_rate = worker::kDefaultDiskWriteRate;  // bytes/s; 0: as fast as the disk
  double restart_at = 0;                                          // share of the trace's time; 0: no worker restarts

  // Limits of good requests
  double slo_ttft_ms = 1000 * simulate::ServiceLimits().ttft_seconds;
  double slo_itl_ms = 1000 * simulate::ServiceLimits().itl_seconds;
  bool capacity = false;

  // Output
  bool json = false;
  std::string plot;            // file for a plot; empty: none
  bool show_progress = false;  // on `err`
};

// The routers' policies and the two reference lines, "pooled" and "infinite".
[[nodiscard]] const std::vector<std::string>& SimulatedPolicies();

// Writes a table to `out`, or with `json` an object per policy as each one ends. Errors go to `err`. Returns the exit
// code: 0, 64 for an invalid value, 65 for a damaged trace, 66 for a missing one, 73 for a plot that can not be
// written.
[[nodiscard]] int RunSimulate(const SimulateOptions& options, std::ostream& out, std::ostream& err);

// The same without a word, for other commands: an outcome for each policy, in their order. Plots and progress are left
// out.
[[nodiscard]] Result<std::vector<simulate::Outcome>> SimulateQuietly(const SimulateOptions& options);

extern const Command kSimulateCommand;

}  // namespace roost::roostctl
