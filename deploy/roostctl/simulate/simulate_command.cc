// The flags of `roostctl simulate`.
#include <fmt/ranges.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/log.h"
#include "deploy/roostctl/simulate/simulate.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::roostctl {
namespace {

constexpr double kMaxDiskWriteRate = 1e15;  // bytes/s

template <typename Names>
std::vector<std::string> ChoicesOf(const Names& names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> SchedulePolicyNames() {
  std::vector<std::string> names;
  names.reserve(worker::kSchedulePolicies.size());
  for (const auto& [name, policy] : worker::kSchedulePolicies) names.emplace_back(name);
  return names;
}

void DeclareSimulatedLoad(SimulateOptions& options, ConfigParser& parser) {
  parser.Section("Load")
      .Add("trace", options.trace, "File with recorded requests")
      .AddChoice("format", options.format, ChoicesOf(workload::kTraceFormats), "The file's form")
      .AddChoice("generate", options.generator, ChoicesOf(workload::kGenerators), "Generated load instead of a trace")
      .Add("sessions", options.session_count,
           "Sessions of weka and chat, requests of the loads behind system prompts; 0: all, or the load's own number",
           {.low = 0, .high = 1e6})
      .Add("utilisation", options.utilisation,
           "Share of the time that the fleet would compute prompts if its workers shared one cache that never evicts; "
           "arrival times are scaled to that. 0 keeps the recorded times",
           {.low = 0, .high = 100})
      .Add("rate", options.rate, "Requests per second, instead of --utilisation; 0: that", {.low = 0, .high = 1e6})
      .Add("seconds", options.seconds,
           fmt::format("Length of {} at --rate, instead of --sessions; 0: that number",
                       fmt::join(workload::kSystemPromptLoads, ", ")),
           {.low = 0, .high = 1e6})
      .Add("speed", options.speed, "Arrival times are divided by this after all that", {.low = 1e-6, .high = 1e6})
      .AddSwitch("recorded-ticks", options.recorded_ticks,
                 "Requests of one tick of a mooncake trace arrive together, as recorded; otherwise over the tick")
      .Add("seed", options.seed, "Seed of all random choices");
}

void DeclareSimulatedFleet(SimulateOptions& options, ConfigParser& parser) {
  parser.Section("Routing")
      .AddList("policy", options.policies, fmt::format("all, or some of {}", fmt::join(SimulatedPolicies(), ", ")))
      .Add("routers", options.router_count, "Routers, which share nothing", {.low = 1, .high = 64})
      .Add("event-delay-ms", options.event_delay_ms, "Delay of a message from a worker to a router",
           {.low = 0, .high = 60'000});
  parser.Section("Workers")
      .Add("workers", options.worker_count, "Workers", {.low = 1, .high = 1024})
      .Add("prefill-workers", options.prefill_worker_count,
           "The first of them compute prompts alone, and the others decode: roost-worker's --role. 0: all do both",
           {.low = 0, .high = 1023})
      .AddList("worker-speeds", options.worker_speeds,
               "Speeds of worker 0, 1, …, repeated for the others; by default all are 1")
      .Add("cache-tokens", options.cache_tokens, "Tokens that each worker keeps beside those of running requests",
           {.low = 1024, .high = 1e9})
      .AddChoice("eviction", options.eviction, ChoicesOf(worker::kEvictionPolicyNames), "The option of roost-worker")
      .AddChoice("worker-schedule", options.schedule, SchedulePolicyNames(), "The option --schedule of roost-worker")
      .Add("first-token-target-ms", options.first_token_target_ms, "The option of roost-worker", {0, 1'000'000'000})
      .Add("max-batch-tokens", options.max_batch_tokens, "Prompt tokens of one step", {.low = 64, .high = 1e6})
      .Add("short-step-tokens", options.short_step_tokens,
           "Prompt tokens after which a step that completes a prompt ends; 0: none ends early", {.low = 0, .high = 1e6})
      .Add("max-running-requests", options.max_running_requests, "The option of roost-worker", {.low = 1, .high = 4096})
      .Add("max-waiting-requests", options.max_waiting_requests, "The option of roost-worker", {.low = 1, .high = 1e6})
      .Add("load-interval-ms", options.load_interval_ms, "Time between load reports while no step ends",
           {.low = 1, .high = 60'000})
      .Add("kv-tokens", options.kv_tokens,
           "Tokens in each worker's memory, of running requests and kept ones together; 0: --cache-tokens",
           {.low = 0, .high = 1e9})
      .AddList("costs", options.costs,
               fmt::format("How long steps take: one of {}; after it, changes as TERM=NUMBER of {}",
                           fmt::join(simulate::CostProfileNames(), ", "), simulate::CostTermNames()))
      .Add("link-gbps", options.link_gbps,
           "Gbit/s of each worker's link, in each direction, over which workers fetch blocks from each other; 0: none",
           {.low = 0, .high = 100'000})
      .Add("disk-tokens", options.disk_tokens,
           "Tokens on each worker's disk, at least four segments, where blocks go when their requests end; 0: no disk",
           {.low = 0, .high = 1e10})
      .Add("disk-gbps", options.disk_gbps, "Gbit/s of each disk, for --disk-tokens; 0: no disk",
           {.low = 0, .high = 100'000})
      .AddBytes("disk-write-rate", options.disk_write_rate,
                "Bytes per second that are written to each disk; 0: no bound. The option of roost-worker",
                {0, kMaxDiskWriteRate})
      .Add("kv-bytes-per-token", options.kv_bytes_per_token,
           "KV of one token of the model, for --link-gbps and --disk-gbps", {.low = 1, .high = 1 << 24})
      .Add("min-copies", options.min_copies, "The option of roost-router", {.low = 1, .high = 64})
      .Add("restart-at", options.restart_at,
           "Share of the trace's time at which worker 0 ends its requests and leaves; it comes back with an empty "
           "cache, and its disk. 0: it stays",
           {.low = 0, .high = 1});
}

void DeclareSimulatedLimits(SimulateOptions& options, ConfigParser& parser) {
  parser.Section("Limits of good requests")
      .Add("slo-ttft-ms", options.slo_ttft_ms, "A good request has its first token by then", {.low = 0, .high = 1e9})
      .Add("slo-itl-ms", options.slo_itl_ms, "A good request takes at most this mean time between its tokens",
           {.low = 0, .high = 1e9})
      .AddSwitch("weigh-slo", options.weigh_slo, "Give both limits to the routers, as their options of the same names")
      .AddSwitch("capacity", options.capacity,
                 "Search the highest load at which 99 % of the requests are good; takes some 10 runs for each policy");
}

int RunSimulateCommand(Arguments arguments, const Console& console) {
  SimulateOptions options;
  options.show_progress = isatty(STDERR_FILENO) == 1;
  ConfigParser parser("roostctl simulate",
                      "Plays a trace against simulated workers behind real routers, on virtual time, and prints the "
                      "result of each policy.");
  DeclareSimulatedLoad(options, parser);
  DeclareSimulatedFleet(options, parser);
  DeclareSimulatedLimits(options, parser);
  parser.Section("Output")
      .AddSwitch("json", options.json, "One JSON object per policy instead of a table")
      .Add("plot", options.plot, "File for a picture of the times to the first token, as SVG");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  SetUpLogging(LogLevel::kError, LogFormat::kText);
  return RunSimulate(options, console.out, console.err);
}

}  // namespace

const Command kSimulateCommand{"simulate", "play a trace against a simulated cluster", &RunSimulateCommand};

}  // namespace roost::roostctl
