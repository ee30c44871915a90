// `roostctl bench`: sends a load to a router, or any endpoint that speaks OpenAI's API, and measures what its client
// sees. With two sides (another endpoint, or the same one without its cache) both get the same load in blocks, in turn,
// and the result says which differences are noise.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "deploy/roostctl/bench/load_run.h"
#include "deploy/roostctl/bench/sessions.h"
#include "deploy/roostctl/bench/summary.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

// Shows how far a load is, on a terminal as a bar that is overwritten in place, elsewhere as a line every few seconds.

enum class ProgressOutput { kTerminal, kLines, kNone };

// "[#####     ] 50 %  12 of 24 sessions, 31 requests, 2 failed, 4 open"
[[nodiscard]] std::string ProgressText(const LoadProgress& progress);

class ProgressBar {
 public:
  // Both outlive it.
  ProgressBar(std::ostream& out, const Clock& clock, ProgressOutput output);

  // Writes if it is time. `label` says which load it is; may be empty.
  void Update(std::string_view label, const LoadProgress& progress);
  // Erases the bar.
  void End();

 private:
  std::ostream& out_;
  const Clock& clock_;
  const ProgressOutput output_;
  Instant written_;
  bool is_shown_ = false;
};

struct BenchOptions {
  // Endpoint
  RouterAccess router;
  std::string url;  // goes before the router's
  std::string api = "chat";
  std::string model;  // empty: the endpoint's first
  double timeout_seconds = 600;

  // Load
  SessionShape shape;
  std::string prompts;  // folder: system-*.txt and questions.txt (one per line); empty: generated texts
  // The number of long system prompts, each made of several texts; see MakeDocuments. 0: the texts unchanged.
  std::uint32_t document_count = 0;
  std::string trace;  // a file instead of a workload
  std::string trace_format = "mooncake";
  double trace_speed = 1;
  bool ignore_eos = false;
  std::uint32_t warm_up_count = 0;  // sessions before the load that are not counted

  // Pace
  double rate = 0;  // requests per second of an open loop; 0: a closed one
  std::string arrivals = "poisson";
  double seconds = 0;  // of an open loop, instead of a number of sessions; 0: that number
  std::uint32_t concurrency = 4;

  // Comparison
  std::string compare_url;
  std::string compare_api_key_file;
  std::string compare_model;
  bool compare_cache = false;
  std::uint32_t block_count = 0;  // 0: as many as the load allows, at most 10

  // Result
  std::string label = "-";
  std::uint32_t probe_count = 0;  // pairs of one cold and one warm request, sent alone
  bool capacity = false;
  double slo_ttft_ms = 0;  // 0: no limit, as for the next two
  double slo_itl_ms = 0;
  double slo_total_ms = 0;
  std::string json;  // files; "-" is the standard output; empty: none
  std::string csv;
  std::string plot;
  bool histogram = false;
  bool brief = false;  // a table row and a line of key=value pairs alone
  bool table_header = false;
  ProgressOutput progress = ProgressOutput::kLines;
};

// Runs the benchmark and prints the result; its last line is one of key=value pairs for each side, and for a comparison
// of the cache a line with the gain. Returns the exit code: 0 when every answer came, 1 when some did not, 64 for wrong
// options, 66 for a missing file, 73 when a result could not be written.
int RunBench(const BenchOptions& options, std::ostream& out, std::ostream& err);

extern const Command kBenchCommand;

}  // namespace roost::roostctl
