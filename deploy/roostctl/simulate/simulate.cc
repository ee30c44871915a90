#include "deploy/roostctl/simulate/simulate.h"

#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

#include "common/base/byte_size.h"
#include "deploy/roostctl/capacity.h"
#include "deploy/roostctl/simulate/arrival_times.h"
#include "deploy/roostctl/simulate/sim_router.h"
#include "deploy/roostctl/simulate/simulation.h"

namespace roost::roostctl {

using simulate::Outcome;
using simulate::SimulationOptions;
using simulate::WorkerSpec;

namespace {

constexpr std::string_view kPooled = "pooled";
constexpr std::string_view kInfinite = "infinite";
constexpr std::string_view kAll = "all";
constexpr double kMillisecond = 1e-3;
constexpr double kCapacityPrecision = 1.02;

int Fail(const Error& error, std::ostream& err) {
  fmt::print(err, "roostctl simulate: {}\n", error.ToString());
  switch (error.code) {
    case ErrorCode::kNotFound: return EX_NOINPUT;
    case ErrorCode::kDataLoss: return EX_DATAERR;
    default: return EX_USAGE;
  }
}

Result<std::vector<std::string>> PoliciesOf(const SimulateOptions& options) {
  const std::vector<std::string>& known = SimulatedPolicies();
  std::vector<std::string> policies;
  for (const std::string& name : options.policies) {
    if (name == kAll) return known;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument("policy", "there is no policy '{}'; the policies are {}", name, fmt::join(known, ", "));
    }
    policies.push_back(name);
  }
  if (policies.empty()) return InvalidArgument("policy", "at least one is needed");
  return policies;
}

Result<std::vector<WorkerSpec>> WorkersOf(const SimulateOptions& options) {
  std::vector<double> speeds;
  for (const std::string& text : options.worker_speeds) {
    double speed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(speed) || speed <= 0) {
      return InvalidArgument("worker-speeds", "'{}' is not a number above 0", text);
    }
    speeds.push_back(speed);
  }
  if (options.prefill_worker_count >= options.worker_count) {
    return InvalidArgument("prefill-workers", "{} of {} workers leave none to decode", options.prefill_worker_count,
                           options.worker_count);
  }
  if (options.prefill_worker_count > 0 && options.link_gbps == 0) {
    return InvalidArgument("prefill-workers", "needs --link-gbps, over which their blocks travel");
  }
  std::vector<WorkerSpec> workers(options.worker_count);
  for (std::size_t i = 0; i < workers.size() && options.prefill_worker_count > 0; ++i) {
    workers[i].role = i < options.prefill_worker_count ? wire::WorkerRole::kPrefill : wire::WorkerRole::kDecode;
  }
  for (std::size_t i = 0; i < workers.size() && !speeds.empty(); ++i) workers[i].speed = speeds[i % speeds.size()];
  return workers;
}

Result<SimulationOptions> SimulationOf(const SimulateOptions& options) {
  SimulationOptions simulation;
  ROOST_ASSIGN_OR_RETURN(simulation.workers, WorkersOf(options));
  ROOST_ASSIGN_OR_RETURN(simulation.worker.schedule_policy, worker::ParseSchedulePolicy(options.schedule));
  if (options.first_token_target_ms > 0) {
    simulation.worker.first_token_target = std::chrono::milliseconds(options.first_token_target_ms);
  }
  simulation.worker.cache_tokens = options.cache_tokens;
  simulation.worker.eviction = options.eviction;
  simulation.worker.max_batch_tokens = options.max_batch_tokens;
  simulation.worker.short_step_tokens = options.short_step_tokens;
  simulation.worker.max_running_requests = options.max_running_requests;
  simulation.worker.max_waiting_requests = options.max_waiting_requests;
  simulation.worker.load_interval = FromSeconds(options.load_interval_ms * kMillisecond);
  ROOST_ASSIGN_OR_RETURN(simulation.worker.service, simulate::ParseCosts(options.costs));
  if (options.kv_tokens > 0) simulation.worker.kv_tokens = options.kv_tokens;
  simulation.worker.links = {.gigabits_per_second = options.link_gbps,
                             .kv_bytes_per_token = options.kv_bytes_per_token};
  if ((options.disk_tokens > 0) != (options.disk_gbps > 0)) {
    return InvalidArgument(options.disk_tokens > 0 ? "disk-gbps" : "disk-tokens",
                           "a disk has a size and a rate: give both");
  }
  simulation.worker.disk = {
      .tokens = options.disk_tokens, .gigabits_per_second = options.disk_gbps, .write_rate = options.disk_write_rate};
  simulation.router_count = options.router_count;
  simulation.event_delay = FromSeconds(options.event_delay_ms * kMillisecond);
  simulation.seed = options.seed;
  simulation.speed = options.speed;
  simulation.limits = {options.slo_ttft_ms * kMillisecond, options.slo_itl_ms * kMillisecond};
  simulation.routing.min_copies = options.min_copies;
  if (options.weigh_slo) simulation.routing.slo = {simulation.limits.ttft_seconds, simulation.limits.itl_seconds};
  return simulation;
}

Result<void> CheckLoad(const SimulateOptions& options) {
  if (options.seconds == 0) return {};
  if (options.rate == 0) return InvalidArgument("seconds", "is for loads with --rate");
  const auto known = workload::kSystemPromptLoads;
  if (std::find(known.begin(), known.end(), options.generator) == known.end()) {
    return InvalidArgument("seconds", "is for the generated loads {}", fmt::join(known, ", "));
  }
  return {};
}

// The number of requests of the trace that a worker runs together, if many wait.
std::uint32_t FullBatch(const workload::Trace& trace, const simulate::WorkerOptions& worker) {
  if (!worker.kv_tokens) return worker.max_running_requests;
  std::uint64_t tokens = 0;
  for (const workload::TraceRequest& request : trace.requests) {
    tokens += std::uint64_t{request.input_token_count} + request.output_token_count;
  }
  const double in_memory =
      static_cast<double>(*worker.kv_tokens) * static_cast<double>(trace.requests.size()) / static_cast<double>(tokens);
  return static_cast<std::uint32_t>(std::clamp(in_memory, 1.0, static_cast<double>(worker.max_running_requests)));
}

Result<workload::Trace> LoadFor(const SimulateOptions& options, const SimulationOptions& simulation) {
  workload::TraceSource source{
      .path = options.trace, .format = options.format, .generator = options.generator, .seed = options.seed};
  if (options.session_count > 0) source.session_count = options.session_count;
  if (options.seconds > 0) source.session_count = static_cast<std::uint32_t>(std::ceil(options.seconds * options.rate));
  if (options.recorded_ticks) source.ticks = workload::Ticks::kTogether;
  ROOST_ASSIGN_OR_RETURN(workload::Trace trace, workload::LoadTrace(source));
  if (options.rate > 0) {
    simulate::ScaleToRate(trace, options.rate);
  } else if (options.utilisation > 0) {
    simulate::FleetSize fleet{.speed = 0, .full_batch = FullBatch(trace, simulation.worker)};
    for (const WorkerSpec& spec : simulation.workers) fleet.speed += spec.speed;
    simulate::ScaleToUtilisation(trace, options.utilisation, simulation.worker.service, fleet);
  }
  return trace;
}

// In the middle of a run that is `speed` times as fast, the restart comes earlier.
void PlanRestart(const workload::Trace& trace, double share, SimulationOptions& simulation) {
  if (share <= 0 || trace.requests.empty()) return;
  simulation.workers[0].restarts_after = FromSeconds(share * trace.requests.back().arrival_seconds / simulation.speed);
}

Result<Outcome> RunOnce(const std::string& policy, const simulate::TraceText& text, const SimulationOptions& simulation,
                        const simulate::Progress& progress) {
  if (policy == kPooled) return simulate::SimulatePool(text, simulate::PoolSize::kOfWorkers, simulation, progress);
  if (policy == kInfinite) return simulate::SimulatePool(text, simulate::PoolSize::kUnbounded, simulation, progress);
  return simulate::Simulate(text, policy, simulation, progress);
}

// A load of a length in seconds has more requests at a higher rate; of any other the times are divided.
Result<double> GoodShareAt(double speed, const std::string& policy, const simulate::TraceText& text,
                           SimulationOptions simulation, SimulateOptions options) {
  if (options.seconds > 0) {
    options.rate *= speed;
    ROOST_ASSIGN_OR_RETURN(const workload::Trace trace, LoadFor(options, simulation));
    PlanRestart(trace, options.restart_at, simulation);
    ROOST_ASSIGN_OR_RETURN(const Outcome outcome, RunOnce(policy, simulate::TraceText(trace), simulation, nullptr));
    return outcome.good_share;
  }
  simulation.speed *= speed;
  PlanRestart(text.trace(), options.restart_at, simulation);
  ROOST_ASSIGN_OR_RETURN(const Outcome outcome, RunOnce(policy, text, simulation, nullptr));
  return outcome.good_share;
}

Result<Outcome> RunPolicy(const std::string& policy, const simulate::TraceText& text,
                          const SimulationOptions& simulation, const SimulateOptions& options,
                          const simulate::Progress& progress) {
  ROOST_ASSIGN_OR_RETURN(Outcome outcome, RunOnce(policy, text, simulation, progress));
  if (!options.capacity) return outcome;
  const auto at = [&](double speed) { return GoodShareAt(speed, policy, text, simulation, options); };
  ROOST_ASSIGN_OR_RETURN(const double speed, HighestGoodSpeed(at, kCapacityPrecision));
  outcome.capacity = speed * outcome.requests_per_second;
  return outcome;
}

// One line that is overwritten in place.
class ProgressBar {
 public:
  ProgressBar(std::ostream& err, std::size_t request_count) : err_(err), request_count_(request_count) {}

  void Show(std::string_view policy, std::size_t ended_count) {
    constexpr std::size_t kCells = 30;
    const std::size_t cells = ended_count * kCells / std::max<std::size_t>(1, request_count_);
    fmt::print(err_, "\r{:<16} [{:<{}}] {:>3} %", policy, std::string(cells, '#'), kCells,
               ended_count * 100 / std::max<std::size_t>(1, request_count_));
    err_.flush();
  }
  void Clear() {
    fmt::print(err_, "\r\033[K");
    err_.flush();
  }

 private:
  std::ostream& err_;
  std::size_t request_count_;
};

// The load, and what the columns of the table are.
std::string DescribeLoad(const SimulateOptions& options, const SimulationOptions& simulation,
                         const workload::Trace& trace) {
  const auto count = static_cast<double>(trace.requests.size());
  std::uint64_t prompt_tokens = 0;
  std::uint64_t answer_tokens = 0;
  for (const workload::TraceRequest& request : trace.requests) {
    prompt_tokens += request.input_token_count;
    answer_tokens += request.output_token_count;
  }
  const double seconds = trace.requests.back().arrival_seconds / options.speed;
  const std::string name =
      options.generator.empty() ? fmt::format("{} ({})", options.trace, options.format) : options.generator;
  const std::string rate = seconds > 0 ? fmt::format(", {:.3g} requests/s", count / seconds) : std::string();
  const std::string links = options.link_gbps > 0 ? fmt::format("; links of {:g} Gbit/s, {} bytes per token",
                                                                options.link_gbps, options.kv_bytes_per_token)
                                                  : std::string();
  const std::string disks =
      options.disk_tokens > 0
          ? fmt::format("; disks of {} tokens, {:g} Gbit/s, {}", options.disk_tokens, options.disk_gbps,
                        options.disk_write_rate == 0
                            ? "written without a bound"
                            : "written at up to " + ByteSizeText(options.disk_write_rate) + "/s")
          : std::string();
  return fmt::format(
      "load {}: {} requests in {:.0f} s{}; on average {:.0f} prompt tokens and {:.0f} of the answer{}{}\n"
      "Times are in seconds (s) or milliseconds (ms). TTFT: until the first token; ITL: between tokens; answer: until "
      "its end.\nhits: prompt tokens found in a cache, and their share of the prefill time; good: first token within "
      "{:g} s and at most {:g} ms between "
      "tokens.\n\n",
      name, trace.requests.size(), seconds, rate, static_cast<double>(prompt_tokens) / count,
      static_cast<double>(answer_tokens) / count, links, disks, simulation.limits.ttft_seconds,
      simulation.limits.itl_seconds / kMillisecond);
}

Result<std::vector<Outcome>> RunAll(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<std::string> policies, PoliciesOf(options));
  ROOST_RETURN_IF_ERROR(CheckLoad(options));
  ROOST_ASSIGN_OR_RETURN(SimulationOptions simulation, SimulationOf(options));
  ROOST_ASSIGN_OR_RETURN(const workload::Trace trace, LoadFor(options, simulation));
  const simulate::TraceText text(trace);
  PlanRestart(trace, options.restart_at, simulation);
  ProgressBar bar(err, trace.requests.size());
  std::vector<Outcome> outcomes;
  if (!options.json) out << DescribeLoad(options, simulation, trace) << simulate::TableHead();
  for (const std::string& policy : policies) {
    simulate::Progress progress;
    if (options.show_progress) progress = [&](std::size_t ended_count) { bar.Show(policy, ended_count); };
    Result<Outcome> outcome = RunPolicy(policy, text, simulation, options, progress);
    if (options.show_progress) bar.Clear();
    if (!outcome.ok()) return outcome.error();
    out << (options.json ? simulate::ToJson(*outcome) + "\n" : simulate::TableRow(*outcome)) << std::flush;
    outcomes.push_back(std::move(outcome).value());
  }
  return outcomes;
}

}  // namespace

const std::vector<std::string>& SimulatedPolicies() {
  static const std::vector<std::string> all_names = [] {
    std::vector<std::string> names = simulate::RouterPolicyNames();
    names.emplace_back(kPooled);
    names.emplace_back(kInfinite);
    return names;
  }();
  return all_names;
}

int RunSimulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::vector<Outcome>> outcomes = RunAll(options, out, err);
  if (!outcomes.ok()) return Fail(outcomes.error(), err);
  if (options.plot.empty()) return EX_OK;
  std::ofstream plot(options.plot);
  plot << simulate::PlotTtft(*outcomes) << std::flush;
  if (plot.good()) return EX_OK;
  fmt::print(err, "roostctl simulate: plot: {} can not be written\n", options.plot);
  return EX_CANTCREAT;
}

Result<std::vector<Outcome>> SimulateQuietly(const SimulateOptions& options) {
  std::ostream nothing(nullptr);
  return RunAll(options, nothing, nothing);
}

}  // namespace roost::roostctl
