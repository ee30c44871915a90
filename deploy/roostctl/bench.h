// `roostctl bench`: sends conversations that share long system prompts to a router, and measures cached tokens as the
// workers counted them, time to first token as this client saw it, and each worker's share. With compare_cache the same
// load runs twice, first with the cache off in every request.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/router_access.h"

namespace roost::roostctl {

struct BenchOptions {
  RouterAccess router;
  std::string model;    // empty: the router's first
  std::string prompts;  // folder: system-*.txt and questions.txt (one per line)
  std::string label = "-";
  // The number of long system prompts, each made of several texts; see MakeDocuments. 0: the texts unchanged.
  std::uint32_t document_count = 0;
  std::uint32_t conversation_count = 16;
  std::uint32_t turn_count = 3;
  std::uint32_t concurrency = 4;
  std::uint32_t max_tokens = 24;
  std::uint32_t probe_count = 5;  // pairs of one cold and one warm request, sent alone; may be 0
  std::uint64_t seed = 1;
  bool table_header = false;
  bool compare_cache = false;
};

// The texts of the conversations.
struct BenchPrompts {
  std::vector<std::string> systems;
  std::vector<std::string> questions;
};
[[nodiscard]] Result<BenchPrompts> LoadBenchPrompts(const std::filesystem::path& folder);

// Makes `count` documents, each with its own title and two of the texts (different ones if there are two). Each begins
// differently, so each needs its own KV. `texts` must not be empty.
[[nodiscard]] std::vector<std::string> MakeDocuments(const std::vector<std::string>& texts, std::uint32_t count);

// One request as the client saw it.
struct BenchSample {
  std::string error;  // empty when the whole answer came
  std::string worker;
  double ttft_seconds = 0;
  double total_seconds = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t answer_hash = 0;  // of the numbers of the conversation and the turn, and of the text
};

struct BenchSummary {
  std::uint64_t request_count = 0;
  std::uint64_t failed_count = 0;
  std::string first_error;
  double cached_ratio = 0;  // cached prompt tokens / prompt tokens
  double ttft_p50_seconds = 0;
  double ttft_p99_seconds = 0;
  double output_tokens_per_second = 0;
  std::map<std::string, double> share_by_worker;  // share of the requests
  // The same for the same answers in any order. Failed requests are left out.
  std::uint64_t answers_hash = 0;
};
[[nodiscard]] BenchSummary Summarise(const std::vector<BenchSample>& samples, double wall_seconds);

// The result of one run and of its probes: the probes' medians for the first (cold) and the second (warm) request.
struct BenchRun {
  BenchSummary summary;
  double seconds = 0;  // without the probes
  double ttft_cold_seconds = 0;
  double ttft_warm_seconds = 0;
  std::string probe_error;  // empty when all probes succeeded
};

// The gain of the cache: each time without it divided by the time with it; for tokens per second, with it divided by
// without. So above 1 is a gain. 0 where the divisor is 0.
struct CacheGain {
  double ttft_p50 = 0;
  double ttft_p99 = 0;
  double output_tokens_per_second = 0;
};
[[nodiscard]] CacheGain Compare(const BenchSummary& without, const BenchSummary& with);

// The value below which `share` of the values lie (nearest rank); 0 for no values.
[[nodiscard]] double Percentile(std::vector<double> values, double share);

// Runs the benchmark. Prints a table row and a line of key=value pairs on stdout; for a comparison two of each,
// labelled cache-off and cache-on, and a line with the gain. Returns the exit code: 0 when every answer came.
int RunBench(const BenchOptions& options);

extern const Command kBenchCommand;

}  // namespace roost::roostctl
