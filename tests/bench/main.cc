// roost_bench [--quick] [FILTER]: runs the benchmarks whose names contain FILTER.

#include <fmt/format.h>

#include <string_view>

#include "tests/bench/bench.h"

namespace roost::bench {
namespace {

struct Entry {
  std::string_view name;
  void (*run)(Effort effort);
};

constexpr Entry kEntries[] = {
    {"attention", &BenchAttention},
    {"attention_plan", &BenchAttentionPlan},
    {"block_hash", &BenchBlockHash},
    {"cache", &BenchCache},
    {"decide", &BenchDecide},
    {"disk", &BenchDisk},
    {"disk_start", &BenchDiskStart},
    {"disk_step", &BenchDiskStep},
    {"engine", &BenchEngine},
    {"engine_host", &BenchEngineHost},
    {"eviction", &BenchEviction},
    {"grammar", &BenchGrammar},
    {"http_tls", &BenchHttpTls},
    {"index", &BenchIndex},
    {"link", &BenchLink},
    {"metrics", &BenchMetrics},
    {"model", &BenchModel},
    {"prompt_memo", &BenchPromptMemo},
    {"regex", &BenchRegex},
    {"relay", &BenchRelay},
    {"report", &BenchReport},
    {"sample", &BenchSample},
    {"cache_sched", &BenchScheduler},
    {"seed", &BenchSeed},
    {"short_steps", &BenchShortSteps},
    {"cache_snapshot", &BenchSnapshot},
    {"submit", &BenchSubmit},
    {"text", &BenchText},
    {"transfer", &BenchTransfer},
    {"weights", &BenchWeights},
};

}  // namespace

void Figure(std::string_view name, double value, std::string_view unit) {
  fmt::print("figure {} {:.4g} {}\n", name, value, unit);
}

int Main(int argc, char** argv) {
  Effort effort = Effort::kFull;
  std::string_view filter;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--quick") {
      effort = Effort::kQuick;
    } else {
      filter = argv[i];
    }
  }
  bool found = false;
  for (const Entry& entry : kEntries) {
    if (entry.name.find(filter) == std::string_view::npos) continue;
    found = true;
    entry.run(effort);
  }
  if (!found) fmt::print(stderr, "roost_bench: no benchmark's name contains '{}'\n", filter);
  return found ? 0 : 64;
}

}  // namespace roost::bench

int main(int argc, char** argv) { return roost::bench::Main(argc, argv); }
