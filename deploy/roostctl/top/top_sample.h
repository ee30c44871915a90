// The data of `roostctl top` at one moment, from a router's answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/remote/metrics_text.h"

namespace roost::roostctl {

// Totals of the router's own requests at a worker, since the worker connected.
struct WorkerTotals {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t first_tokens = 0;
  double ttft_seconds = 0;
  // By the worker's own count, of all routers' requests; see wire::Load.
  double saved_prefill_seconds = 0;
  double computed_prefill_seconds = 0;
};

struct TopWorker {
  std::string name = {};
  std::string state = {};
  std::string role = {};               // both, prefill or decode
  std::uint64_t running_requests = 0;  // of all routers, as the next
  std::uint64_t waiting_requests = 0;
  std::uint64_t blocks = 0;
  std::uint64_t free_blocks = 0;  // idle ones in the cache too
  std::uint64_t cached_blocks = 0;
  std::uint64_t disk_blocks = 0;
  WorkerTotals totals = {};
};

// A worker that was lost.
struct TopLost {
  std::string name = {};
  std::string reason = {};
  double seconds_ago = 0;
  bool is_back = false;
  std::uint64_t moved_requests = 0;
  std::uint64_t waiting_requests = 0;
  std::uint64_t failed_requests = 0;
};

struct TopPrefix {
  std::uint64_t hits = 0;
  std::uint64_t tokens = 0;
  std::size_t workers = 0;
  std::string text = {};  // its beginning, or the hash where the router shows no text
};

struct TopSample {
  double seconds = 0;        // when it was taken, on any clock
  std::string verdict = {};  // the router's own line on how it stands
  std::vector<TopWorker> workers;
  std::vector<TopLost> lost;          // of the last ten minutes
  std::uint64_t queued_requests = 0;  // at the router
  double oldest_wait_seconds = 0;
  std::map<double, double> ttft_buckets;  // of the router's histogram; empty: not known
  std::vector<TopPrefix> prefixes;
};

// The answers of GET /admin/v1/workers, /admin/v1/queues and /admin/v1/prefixes. kDataLoss when they are none.
[[nodiscard]] Result<std::vector<TopWorker>> ReadTopWorkers(std::string_view json);
// Reads the verdict and the lost workers of the same answer.
[[nodiscard]] Result<void> ReadStanding(std::string_view json, TopSample& sample);
[[nodiscard]] Result<void> ReadQueues(std::string_view json, TopSample& sample);
[[nodiscard]] Result<std::vector<TopPrefix>> ReadTopPrefixes(std::string_view json);

}  // namespace roost::roostctl
