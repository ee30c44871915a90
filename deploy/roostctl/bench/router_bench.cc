#include "deploy/roostctl/bench/router_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <ostream>
#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "deploy/roostctl/bench/bench_load.h"
#include "deploy/roostctl/bench/load_run.h"
#include "deploy/roostctl/bench/report.h"
#include "deploy/roostctl/capacity.h"
#include "deploy/roostctl/chat.h"

namespace roost::roostctl {
namespace {

// A person can not read faster updates of a line, and a log should not grow fast.
constexpr Duration kBarInterval = std::chrono::milliseconds(200);
constexpr Duration kLogInterval = std::chrono::seconds(10);
constexpr std::size_t kWholeBarLength = 20;
// Moves to the line's start, and erases the line.
constexpr std::string_view kRestartLine = "\r\x1b[K";

}  // namespace

std::string ProgressText(const LoadProgress& progress) {
  const double share = progress.session_count == 0
                           ? 1
                           : static_cast<double>(progress.ended_sessions) / static_cast<double>(progress.session_count);
  const auto filled = static_cast<std::size_t>(share * kWholeBarLength);
  return fmt::format("[{}{}] {:.0f} %  {} of {} sessions, {} requests, {} failed, {} open", std::string(filled, '#'),
                     std::string(kWholeBarLength - filled, ' '), share * 100, progress.ended_sessions,
                     progress.session_count, progress.ended_requests, progress.failed_requests, progress.open_requests);
}

ProgressBar::ProgressBar(std::ostream& out, const Clock& clock, ProgressOutput output)
    : out_(out), clock_(clock), output_(output), written_(clock.Now()) {}

void ProgressBar::Update(std::string_view label, const LoadProgress& progress) {
  if (output_ == ProgressOutput::kNone) return;
  const bool is_terminal = output_ == ProgressOutput::kTerminal;
  const Instant now = clock_.Now();
  if (now - written_ < (is_terminal ? kBarInterval : kLogInterval)) return;
  written_ = now;
  is_shown_ = true;
  out_ << (is_terminal ? kRestartLine : "") << label << (label.empty() ? "" : " ") << ProgressText(progress)
       << (is_terminal ? "" : "\n") << std::flush;
}

void ProgressBar::End() {
  if (output_ == ProgressOutput::kTerminal && is_shown_) out_ << kRestartLine << std::flush;
  is_shown_ = false;
}

namespace {

constexpr std::uint32_t kProbeTokens = 24;
constexpr double kMeasuredCapacityPrecision = 1.1;

ServiceLimits LimitsOf(const BenchOptions& options) {
  const auto limit = [](double ms) { return ms > 0 ? std::optional(ms * 1e-3) : std::nullopt; };
  return {limit(options.slo_ttft_ms), limit(options.slo_itl_ms), limit(options.slo_total_ms)};
}

// Sends a load to one side or two, block by block.
class Bench {
 public:
  Bench(const BenchOptions& options, std::vector<LoadTarget> targets, std::ostream& err)
      : options_(options), limits_(LimitsOf(options)), progress_(err, clock_, options.progress) {
    for (LoadTarget& target : targets) runs_.push_back({.target = std::move(target), .samples = {}, .summary = {}});
  }

  [[nodiscard]] Result<void> Run(std::vector<BenchSession> sessions) {
    const std::size_t count = runs_.size() == 1 ? 1 : BlockCount(options_, sessions);
    std::vector<double> seconds(runs_.size());
    Rng rng(options_.shape.seed);
    std::vector<std::vector<BenchSession>> blocks = CutIntoBlocks(std::move(sessions), count);
    for (std::size_t block = 0; block < blocks.size() && !was_stopped_; ++block) {
      ROOST_RETURN_IF_ERROR(RunBlock(std::move(blocks[block]), block, rng, seconds));
    }
    progress_.End();
    for (std::size_t side = 0; side < runs_.size(); ++side) {
      runs_[side].summary = Summarise(runs_[side].samples, seconds[side], limits_);
    }
    if (runs_.size() == 2) differences_ = Compare(runs_[0].summary, runs_[1].summary, pairs_);
    return {};
  }

  // Each probe's prompt begins with unique words, so that the first request finds nothing cached and the second finds
  // all of it. Nothing else runs meanwhile.
  void Probe(const BenchText& text) {
    for (BenchRun& run : runs_) {
      if (!was_stopped_) ProbeOne(text, run);
    }
  }

  // Sends loads of other rates to the only side. A rate at which this program is stopped counts as too high.
  [[nodiscard]] Result<void> SearchCapacity(std::ostream& err) {
    BenchRun& run = runs_[0];
    const auto good_share_at = [&](double speed) -> Result<double> {
      if (was_stopped_) return 0.0;
      BenchOptions options = options_;
      options.rate *= speed;
      LoadPlan plan;
      ROOST_ASSIGN_OR_RETURN(plan.sessions, MakeLoad(options));
      plan.stop_asked = [this] { return interrupt_.Pressed(); };
      ROOST_ASSIGN_OR_RETURN(const LoadResult result, RunLoad(run.target, plan));
      was_stopped_ = result.was_stopped;
      const double share = Summarise(result.samples, result.seconds, limits_).good_share();
      err << fmt::format("roostctl bench: {:.3g} requests/s: {:.1f} % are good\n", options.rate, 100 * share);
      return share;
    };
    ROOST_ASSIGN_OR_RETURN(const double speed, HighestGoodSpeed(good_share_at, kMeasuredCapacityPrecision));
    if (!was_stopped_) run.capacity = speed * options_.rate;
    return {};
  }

  [[nodiscard]] const std::vector<BenchRun>& runs() const { return runs_; }
  [[nodiscard]] const std::vector<Difference>& differences() const { return differences_; }
  [[nodiscard]] bool was_stopped() const { return was_stopped_; }
  // Since this object was made, with all that is not counted in the figures.
  [[nodiscard]] double RanSeconds() const { return ToSeconds(clock_.Now() - begin_); }

 private:
  // The order of the sides is drawn, so that neither always finds the machine as the other has left it. A load without
  // the cache leaves nothing in it, and so goes first.
  [[nodiscard]] std::vector<std::size_t> OrderOfSides(Rng& rng) const {
    if (runs_.size() == 1) return {0};
    const bool is_swapped = !options_.compare_cache && rng.Below(2) == 1;
    return is_swapped ? std::vector<std::size_t>{1, 0} : std::vector<std::size_t>{0, 1};
  }

  [[nodiscard]] Result<void> RunBlock(std::vector<BenchSession> sessions, std::size_t block, Rng& rng,
                                      std::vector<double>& seconds) {
    LoadPlan plan;
    plan.sessions = std::move(sessions);
    if (!IsOpen(options_)) plan.concurrency = options_.concurrency;
    if (runs_.size() == 2) plan.answers = &answers_;
    plan.stop_asked = [this] { return interrupt_.Pressed(); };
    BenchSummary sides[2];
    for (const std::size_t side : OrderOfSides(rng)) {
      BenchRun& run = runs_[side];
      const std::string label = runs_.size() == 1 ? "" : fmt::format("block {} {}", block + 1, run.target.label);
      plan.on_progress = [&](const LoadProgress& progress) { progress_.Update(label, progress); };
      ROOST_ASSIGN_OR_RETURN(LoadResult result, RunLoad(run.target, plan));
      for (BenchSample& sample : result.samples) sample.block = block;
      sides[side] = Summarise(result.samples, result.seconds, limits_);
      seconds[side] += result.seconds;
      std::move(result.samples.begin(), result.samples.end(), std::back_inserter(run.samples));
      was_stopped_ = was_stopped_ || result.was_stopped;
      if (was_stopped_) return {};
    }
    if (runs_.size() == 2) pairs_.push_back({std::move(sides[0]), std::move(sides[1])});
    return {};
  }

  void ProbeOne(const BenchText& text, BenchRun& run) {
    Rng rng(options_.shape.seed ^ 0x9d0be);
    std::vector<double> times[2];
    for (std::uint32_t i = 0; i < options_.probe_count; ++i) {
      const std::string prompt = fmt::format("Book {}, leaf {}. {}", rng.Below(1000000), rng.Below(1000000),
                                             Render(text, run.target.tokens_per_word));
      LoadPlan plan;
      plan.concurrency = 1;
      plan.sessions = {{.number = 0, .turns = {{.text = Given(prompt), .max_tokens = kProbeTokens}}}};
      plan.stop_asked = [this] { return interrupt_.Pressed(); };
      for (std::vector<double>& side : times) {
        const Result<LoadResult> result = RunLoad(run.target, plan);
        if (!result.ok() || result->samples.size() != 1) {
          run.probe_error = result.ok() ? "stopped" : result.error().ToString();
          return;
        }
        run.probe_error = result->samples[0].error;
        if (!run.probe_error.empty()) return;
        side.push_back(result->samples[0].ttft_seconds);
      }
    }
    run.ttft_cold_seconds = Percentile(std::move(times[0]), 0.5);
    run.ttft_warm_seconds = Percentile(std::move(times[1]), 0.5);
  }

  const BenchOptions& options_;
  const ServiceLimits limits_;
  const SteadyClock clock_;
  const Instant begin_ = clock_.Now();
  const InterruptKey interrupt_;
  ProgressBar progress_;
  std::vector<BenchRun> runs_;  // the sides
  std::vector<BlockPair> pairs_;
  std::vector<Difference> differences_;
  SharedAnswers answers_;
  bool was_stopped_ = false;
};

// ---- the result ----

Result<void> WriteResult(const std::string& path, std::string_view flag, const std::string& text, std::ostream& out) {
  if (path.empty()) return {};
  if (path == "-") {
    out << text;
    return {};
  }
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) return Error{ErrorCode::kUnavailable, fmt::format("'{}' can not be written", path), std::string(flag)};
  return {};
}

Result<void> WriteFiles(const BenchOptions& options, const Bench& bench, std::ostream& out) {
  ROOST_RETURN_IF_ERROR(
      WriteResult(options.json, "json", ResultJson(bench.runs(), bench.differences(), bench.RanSeconds()), out));
  ROOST_RETURN_IF_ERROR(WriteResult(options.csv, "csv", RequestsCsv(bench.runs()), out));
  return WriteResult(options.plot, "plot", PlotRuns(bench.runs()), out);
}

void PrintText(const BenchOptions& options, const Bench& bench, const std::string& load, std::ostream& out,
               std::ostream& err) {
  const std::vector<BenchRun>& runs = bench.runs();
  if (options.brief || options.compare_cache) {
    if (options.table_header) out << TableHead();
    for (const BenchRun& run : runs) out << TableRow(run);
  }
  if (!options.brief) {
    out << load;
    for (const BenchRun& run : runs) out << '\n' << FormatRun(run, LimitsOf(options));
    if (options.histogram) {
      for (const BenchRun& run : runs) out << '\n' << FormatHistogram(run);
    }
    if (runs.size() == 2)
      out << '\n'
          << FormatComparison(runs[0].target, runs[1].target, bench.differences(),
                              kFewestBlocks * SessionsOfBlock(options));
    out << fmt::format("\nthe whole bench ran {:.1f} s, with all that is not counted\n\n", bench.RanSeconds());
  }
  for (const BenchRun& run : runs) {
    if (!run.summary.first_error.empty()) err << "roostctl bench: first error: " << run.summary.first_error << '\n';
    if (!run.probe_error.empty()) err << "roostctl bench: probe: " << run.probe_error << '\n';
    out << KeyLine(run);
  }
  if (options.compare_cache) out << GainLine(GainOf(runs[0].summary, runs[1].summary));
}

int CodeOf(const Bench& bench) {
  const auto is_whole = [](const BenchRun& run) { return run.summary.failed_count == 0 && run.probe_error.empty(); };
  const bool are_whole = std::all_of(bench.runs().begin(), bench.runs().end(), is_whole);
  return are_whole && !bench.was_stopped() ? 0 : 1;
}

int CodeOf(const Error& error) {
  switch (error.code) {
    // An endpoint's refusal has this code too, and names no option.
    case ErrorCode::kInvalidArgument: return error.field.empty() ? 1 : EX_USAGE;
    case ErrorCode::kNotFound: return EX_NOINPUT;
    default: return 1;
  }
}

// An open loop may have thousands of connections.
void AllowManyFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> CheckCapacity(const BenchOptions& options) {
  if (!options.capacity) return {};
  if (options.rate == 0) return InvalidArgument("capacity", "is for loads with --rate");
  if (options.compare_cache || !options.compare_url.empty()) return InvalidArgument("capacity", "is of one endpoint");
  if (!LimitsOf(options).IsAny()) return InvalidArgument("capacity", "needs a limit, as --slo-ttft-ms");
  return {};
}

Result<int> MeasureAndPrint(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  ROOST_RETURN_IF_ERROR(CheckCapacity(options));
  ROOST_ASSIGN_OR_RETURN(std::vector<BenchSession> sessions, MakeLoad(options));
  ROOST_ASSIGN_OR_RETURN(std::vector<LoadTarget> targets, TargetsOf(options));
  if (options.prompts.empty()) {
    ROOST_ASSIGN_OR_RETURN(const double tokens_per_word, MeasureTokensPerWord(targets[0], options.shape.seed));
    for (LoadTarget& target : targets) target.tokens_per_word = tokens_per_word;
  }
  const std::string load = DescribeLoad(options, sessions);
  const BenchText probe = sessions.back().front.value_or(sessions.back().turns[0].text);
  Bench bench(options, std::move(targets), err);
  ROOST_RETURN_IF_ERROR(bench.Run(std::move(sessions)));
  if (options.probe_count > 0) bench.Probe(probe);
  if (options.capacity && !bench.was_stopped()) ROOST_RETURN_IF_ERROR(bench.SearchCapacity(err));
  if (bench.was_stopped()) err << "roostctl bench: stopped; what ended before is counted\n";
  const bool is_output_for_programs = options.json == "-" || options.csv == "-" || options.plot == "-";
  PrintText(options, bench, load, is_output_for_programs ? err : out, err);
  const Result<void> written = WriteFiles(options, bench, out);
  if (!written.ok()) {
    err << "roostctl bench: " << written.error().ToString() << '\n';
    return EX_CANTCREAT;
  }
  return CodeOf(bench);
}

}  // namespace

int RunBench(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  AllowManyFiles();
  const Result<int> code = MeasureAndPrint(options, out, err);
  if (code.ok()) return *code;
  err << "roostctl bench: " << code.error().ToString() << '\n';
  return CodeOf(code.error());
}

}  // namespace roost::roostctl
