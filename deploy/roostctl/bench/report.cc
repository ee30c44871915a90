#include "deploy/roostctl/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "common/base/check.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/curve_plot.h"
#include "deploy/roostctl/percent.h"

namespace roost::roostctl {

namespace {

// A load generator that is later than this measures itself.
constexpr double kMuchLagSeconds = 0.02;
constexpr std::size_t kBars = 12;
constexpr std::size_t kHistogramColumns = 40;

std::string SpreadLine(std::string_view name, const Spread& spread, double scale, std::string_view unit) {
  if (spread.count == 0) return {};
  return fmt::format("{:<22} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}  {}\n", name, scale * spread.mean,
                     scale * spread.p50, scale * spread.p90, scale * spread.p99, scale * spread.max, unit);
}

std::string LimitsText(const ServiceLimits& limits) {
  std::string text;
  const auto add = [&text](std::string_view name, std::optional<double> seconds) {
    if (seconds) text += fmt::format("{}{} <= {:g} ms", text.empty() ? "" : ", ", name, kMsPerSecond * *seconds);
  };
  add("first token", limits.ttft_seconds);
  add("between tokens", limits.itl_seconds);
  add("whole answer", limits.total_seconds);
  return text;
}

// An endpoint may tell neither prompt tokens nor cached ones.
std::string TokensLine(const BenchSummary& summary) {
  std::string text;
  if (summary.prompt_tokens > 0) {
    text = fmt::format("prompt tokens {}", summary.prompt_tokens);
    text += summary.tells_cached()
                ? fmt::format(", of them cached {} ({:.1f} %); ", summary.cached_tokens, 100 * summary.cached_ratio())
                : std::string("; the endpoint does not tell cached ones; ");
  }
  return text + fmt::format("output tokens {}, {:.1f} per second\n", summary.output_tokens,
                            summary.output_tokens_per_second());
}

std::string ShareText(const BenchSummary& summary) {
  std::string shares;
  for (const auto& [worker, share] : summary.share_by_worker) {
    shares += fmt::format("{} {:.0f}%  ", worker, share * 100);
  }
  return shares;
}

std::string VerdictText(const Difference& difference) {
  if (difference.verdict == Verdict::kUnknown) return "unknown";
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  return fmt::format("{:+.1f} % ({:+.1f} to {:+.1f})  {}", percent(difference.ratio), percent(difference.low),
                     percent(difference.high), NameOf(difference.verdict));
}

}  // namespace

std::string FormatRun(const BenchRun& run, const ServiceLimits& limits) {
  const BenchSummary& summary = run.summary;
  std::string text =
      fmt::format("{}: {} at {}\n", run.target.label, run.target.model, run.target.access.url) +
      fmt::format("{} requests in {:.1f} s, {} failed", summary.request_count, summary.seconds, summary.failed_count);
  const char* separator = ": ";
  for (const auto& [kind, count] : summary.failed_by_kind) {
    text += fmt::format("{}{} {}", separator, count, kind);
    separator = ", ";
  }
  text += '\n';
  if (summary.total_seconds.count == 0) return text + "no whole answer with text came: there is nothing to measure\n";
  text += fmt::format("{:<22} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "mean", "p50", "p90", "p99", "max");
  text += SpreadLine("time to first token", summary.ttft_seconds, kMsPerSecond, "ms");
  text += SpreadLine("between pieces", summary.gap_seconds, kMsPerSecond, "ms");
  text += SpreadLine("between tokens", summary.itl_seconds, kMsPerSecond, "ms");
  text += SpreadLine("whole answer", summary.total_seconds, kMsPerSecond, "ms");
  text += SpreadLine("tokens of an answer", summary.tokens_per_second, 1, "tokens/s");
  text += TokensLine(summary);
  if (limits.IsAny()) {
    text += fmt::format("goodput ({}): {:.2f} requests/s, {} of {} requests ({:.1f} %)\n", LimitsText(limits),
                        summary.good_per_second(), summary.good_count, summary.request_count,
                        Percent(summary.good_count, summary.request_count));
  }
  if (run.capacity) {
    text +=
        fmt::format("capacity ({}): {:.3g} requests/s, of which 99 % are good\n", LimitsText(limits), *run.capacity);
  }
  if (!summary.share_by_worker.empty() && !summary.share_by_worker.begin()->first.empty()) {
    text += fmt::format("answered by {}\n", ShareText(summary));
  }
  if (summary.lag_p99_seconds > kMuchLagSeconds) {
    text += fmt::format("WARNING: this program sent requests late (p99 {:.0f} ms): it, or its machine, is the limit\n",
                        kMsPerSecond * summary.lag_p99_seconds);
  }
  return text;
}

// Bars of equal width on a logarithmic scale, from the shortest to the longest time.
std::string FormatHistogram(const BenchRun& run) {
  std::vector<double> times;
  for (const BenchSample& sample : run.samples) {
    if (sample.error.empty() && sample.ttft_seconds > 0) times.push_back(sample.ttft_seconds);
  }
  if (times.empty()) return {};
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const double first = std::log(*least);
  const double width = std::max((std::log(*most) - first) / kBars, 1e-3);
  std::array<std::size_t, kBars> counts{};
  for (const double time : times) {
    ++counts[std::min(kBars - 1, static_cast<std::size_t>((std::log(time) - first) / width))];
  }
  const std::size_t highest = *std::max_element(counts.begin(), counts.end());
  std::string text = fmt::format("time to first token, {}\n", run.target.label);
  for (std::size_t i = 0; i < kBars; ++i) {
    text += fmt::format("{:>10.1f} ms {:<{}} {}\n", kMsPerSecond * std::exp(first + width * static_cast<double>(i)),
                        std::string((kHistogramColumns * counts[i] + highest - 1) / highest, '#'), kHistogramColumns,
                        counts[i]);
  }
  return text;
}

std::string FormatComparison(const LoadTarget& a, const LoadTarget& b, std::span<const Difference> differences,
                             std::size_t sessions_needed) {
  std::string text = fmt::format("A: {} at {}\nB: {} at {}\n{:<22} {:>10} {:>10} {:<5} B to A\n", a.label, a.access.url,
                                 b.label, b.access.url, "", "A", "B", "");
  std::size_t blocks = 0;
  for (const Difference& difference : differences) {
    blocks = std::max(blocks, difference.block_count);
    text += fmt::format("{:<22} {:>10.2f} {:>10.2f} {:<5} {}\n", difference.figure, difference.a, difference.b,
                        difference.unit, VerdictText(difference));
  }
  if (blocks < kFewestBlocks) {
    return text + fmt::format(
                      "Noise is unknown: {} block{}, at least {} are needed. Send at least {} sessions, or set "
                      "--blocks.\n",
                      blocks, blocks == 1 ? "" : "s", kFewestBlocks, sessions_needed);
  }
  return text + fmt::format(
                    "Paired over {} blocks; in brackets Student's t interval of the mean ratio, all {} together 95 %. "
                    "\"noise\": it includes 0 %.\n",
                    blocks, differences.size());
}

std::string TableHead() {
  return fmt::format("{:<14} {:>8} {:>6} {:>9} {:>12} {:>12} {:>8} {:>8} {:>10} {:>9} {:>8} {:>9}  {}\n", "policy",
                     "requests", "failed", "hit rate", "TTFT p50 ms", "TTFT p99 ms", "ITL ms", "p99 ms", "answer ms",
                     "p99 ms", "good /s", "tokens/s", "share per worker");
}

std::string TableRow(const BenchRun& run) {
  const BenchSummary& summary = run.summary;
  const auto cell = [](const Spread& spread, double value, int digits) {
    return spread.count == 0 ? std::string("-") : fmt::format("{:.{}f}", kMsPerSecond * value, digits);
  };
  const Spread& ttft = summary.ttft_seconds;
  const Spread& itl = summary.itl_seconds;
  const Spread& total = summary.total_seconds;
  const bool has_answers = total.count > 0;
  return fmt::format("{:<14} {:>8} {:>6} {:>9} {:>12} {:>12} {:>8} {:>8} {:>10} {:>9} {:>8} {:>9}  {}\n",
                     run.target.label, summary.request_count, summary.failed_count,
                     summary.tells_cached() ? fmt::format("{:.1f}%", summary.cached_ratio() * 100) : "-",
                     cell(ttft, ttft.p50, 2), cell(ttft, ttft.p99, 2), cell(itl, itl.mean, 2), cell(itl, itl.p99, 2),
                     cell(total, total.mean, 1), cell(total, total.p99, 1),
                     has_answers ? fmt::format("{:.2f}", summary.good_per_second()) : "-",
                     has_answers ? fmt::format("{:.0f}", summary.output_tokens_per_second()) : "-", ShareText(summary));
}

// Pairs of what was not measured are left out.
std::string KeyLine(const BenchRun& run) {
  const BenchSummary& summary = run.summary;
  std::string line = fmt::format("bench: label={} requests={} failed={}", run.target.label, summary.request_count,
                                 summary.failed_count);
  const auto add = [&line](std::string_view name, double value, int digits) {
    line += fmt::format(" {}={:.{}f}", name, value, digits);
  };
  const auto add_ms = [&add](std::string_view name, std::optional<double> seconds) {
    if (seconds) add(name, kMsPerSecond * *seconds, 2);
  };
  const auto add_spread = [&add_ms](const Spread& spread, std::string_view first, double value, std::string_view second,
                                    double other) {
    if (spread.count == 0) return;
    add_ms(first, value);
    add_ms(second, other);
  };
  const Spread& ttft = summary.ttft_seconds;
  const Spread& itl = summary.itl_seconds;
  const Spread& total = summary.total_seconds;
  if (summary.tells_cached()) add("cached_ratio", summary.cached_ratio(), 3);
  add_spread(ttft, "ttft_p50_ms", ttft.p50, "ttft_p99_ms", ttft.p99);
  add_spread(itl, "itl_mean_ms", itl.mean, "itl_p99_ms", itl.p99);
  add_spread(total, "answer_mean_ms", total.mean, "answer_p99_ms", total.p99);
  if (total.count > 0) {
    add("good_per_s", summary.good_per_second(), 3);
    add("tokens_per_s", summary.output_tokens_per_second(), 1);
  }
  add_ms("ttft_cold_ms", run.ttft_cold_seconds);
  add_ms("ttft_warm_ms", run.ttft_warm_seconds);
  add("seconds", summary.seconds, 1);
  return line + fmt::format(" answers={:016x}\n", summary.answers_hash);
}

std::string GainLine(const CacheGain& gain) {
  std::string line = "cache gain:";
  const auto add = [&line](std::string_view name, double ratio) {
    if (ratio > 0) line += fmt::format(" {}={:.2f}x", name, ratio);
  };
  add("ttft_p50", gain.ttft_p50);
  add("ttft_p99", gain.ttft_p99);
  add("tokens_per_second", gain.output_tokens_per_second);
  return line + '\n';
}

namespace {

// Null for what was not measured.
void WriteSpread(std::string_view name, const Spread& spread, JsonWriter& json) {
  if (spread.count == 0) {
    json.Key(name).Null();
    return;
  }
  json.Key(name).BeginObject().Key("mean").Number(spread.mean).Key("p50").Number(spread.p50);
  json.Key("p90").Number(spread.p90).Key("p99").Number(spread.p99).Key("max").Number(spread.max).EndObject();
}

void WriteRun(const BenchRun& run, JsonWriter& json) {
  const BenchSummary& summary = run.summary;
  json.BeginObject().Key("label").String(run.target.label).Key("url").String(run.target.access.url);
  json.Key("model").String(run.target.model).Key("requests").Number(summary.request_count);
  json.Key("failed").Number(summary.failed_count).Key("failed_by_kind").BeginObject();
  for (const auto& [kind, count] : summary.failed_by_kind) json.Key(kind).Number(count);
  json.EndObject().Key("seconds").Number(summary.seconds);
  json.Key("prompt_tokens").Number(summary.prompt_tokens);
  if (summary.tells_cached()) {
    json.Key("cached_tokens").Number(summary.cached_tokens).Key("cached_ratio").Number(summary.cached_ratio());
  } else {
    json.Key("cached_tokens").Null().Key("cached_ratio").Null();
  }
  json.Key("output_tokens").Number(summary.output_tokens);
  json.Key("output_tokens_per_second").Number(summary.output_tokens_per_second());
  json.Key("good_requests").Number(summary.good_count).Key("good_per_second").Number(summary.good_per_second());
  json.Key("capacity_per_second");
  if (run.capacity) {
    json.Number(*run.capacity);
  } else {
    json.Null();
  }
  WriteSpread("ttft_seconds", summary.ttft_seconds, json);
  WriteSpread("between_pieces_seconds", summary.gap_seconds, json);
  WriteSpread("itl_seconds", summary.itl_seconds, json);
  WriteSpread("total_seconds", summary.total_seconds, json);
  WriteSpread("answer_tokens_per_second", summary.tokens_per_second, json);
  json.Key("sent_late_p99_seconds").Number(summary.lag_p99_seconds);
  json.Key("share_by_worker").BeginObject();
  for (const auto& [worker, share] : summary.share_by_worker) json.Key(worker).Number(share);
  json.EndObject().Key("answers").String(fmt::format("{:016x}", summary.answers_hash)).EndObject();
}

void WriteDifference(const Difference& difference, JsonWriter& json) {
  json.BeginObject().Key("figure").String(difference.figure).Key("unit").String(difference.unit);
  json.Key("a").Number(difference.a).Key("b").Number(difference.b);
  if (difference.verdict != Verdict::kUnknown) {
    json.Key("ratio").Number(difference.ratio).Key("low").Number(difference.low).Key("high").Number(difference.high);
  }
  json.Key("blocks").Number(std::uint64_t{difference.block_count});
  json.Key("verdict").String(NameOf(difference.verdict)).EndObject();
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

Curve CurveOf(const BenchRun& run, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {.label = run.target.label, .seconds = std::move(seconds)};
}

}  // namespace

std::string ResultJson(std::span<const BenchRun> runs, std::span<const Difference> differences, double ran_seconds) {
  JsonWriter json;
  json.BeginObject().Key("ran_seconds").Number(ran_seconds).Key("runs").BeginArray();
  for (const BenchRun& run : runs) WriteRun(run, json);
  json.EndArray();
  if (!differences.empty()) {
    json.Key("comparison").BeginArray();
    for (const Difference& difference : differences) WriteDifference(difference, json);
    json.EndArray();
  }
  return json.EndObject().Take() + '\n';
}

std::string RequestsCsv(std::span<const BenchRun> runs) {
  std::string csv =
      "label,block,session,turn,scheduled_s,sent_late_ms,ttft_ms,total_ms,itl_ms,prompt_tokens,cached_tokens,"
      "output_tokens,worker,error_kind,error\n";
  for (const BenchRun& run : runs) {
    for (const BenchSample& sample : run.samples) {
      csv += fmt::format("{},{},{},{},{:.4f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{},{},{},{}\n", Quoted(run.target.label),
                         sample.block, sample.session, sample.turn, sample.scheduled_seconds,
                         kMsPerSecond * sample.lag_seconds, kMsPerSecond * sample.ttft_seconds,
                         kMsPerSecond * sample.total_seconds, kMsPerSecond * sample.SecondsPerToken(),
                         sample.prompt_tokens, sample.cached_tokens ? fmt::to_string(*sample.cached_tokens) : "",
                         sample.output_tokens, Quoted(sample.worker), Quoted(sample.error_kind), Quoted(sample.error));
    }
  }
  return csv;
}

std::string PlotRuns(std::span<const BenchRun> runs) {
  CurvePanel first{.title = "time to first token", .curves = {}};
  CurvePanel between{.title = "time between pieces", .least_seconds = 1e-4, .curves = {}};
  for (const BenchRun& run : runs) {
    std::vector<double> ttft;
    std::vector<double> gaps;
    for (const BenchSample& sample : run.samples) {
      if (!sample.error.empty()) continue;
      ttft.push_back(sample.ttft_seconds);
      gaps.insert(gaps.end(), sample.gap_seconds.begin(), sample.gap_seconds.end());
    }
    first.curves.push_back(CurveOf(run, std::move(ttft)));
    between.curves.push_back(CurveOf(run, std::move(gaps)));
  }
  const CurvePanel panels[] = {std::move(first), std::move(between)};
  return PlotCurves(panels);
}

namespace {

constexpr int kMaxTerms = 300;
constexpr double kPrecise = 1e-14;

double NotZero(double value) {
  constexpr double kTiny = 1e-300;
  return std::abs(value) < kTiny ? kTiny : value;
}

// The continued fraction of the incomplete beta function, by Lentz's method (Press et al., Numerical Recipes, 6.4).
double BetaFraction(double a, double b, double x) {
  double c = 1;
  double d = 1 / NotZero(1 - (a + b) * x / (a + 1));
  double h = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / NotZero(1 + even * d);
    c = NotZero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / NotZero(1 + odd * d);
    c = NotZero(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < kPrecise) break;
  }
  return h;
}

// The regularised incomplete beta function.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges quickly on this side only.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace

double StudentShareBelow(double t, double freedom) {
  ROOST_CHECK(freedom > 0);
  const double tail = IncompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
  return t < 0 ? tail : 1 - tail;
}

double StudentQuantile(double share, double freedom) {
  ROOST_CHECK(share > 0 && share < 1);
  double low = -1;
  double high = 1;
  while (StudentShareBelow(low, freedom) > share) low *= 2;
  while (StudentShareBelow(high, freedom) < share) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (StudentShareBelow(middle, freedom) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

namespace {

enum class Wish : std::uint8_t { kLess, kMore };

struct Figure {
  std::string_view name;
  std::string_view unit;
  double scale;
  Wish wish;
  double (*of)(const BenchSummary& summary);
  bool (*is_measured)(const BenchSummary& summary);
};
constexpr double kMillisecondsEach = 1e3;
bool HasAnswers(const BenchSummary& s) { return s.request_count > s.failed_count; }
bool HasGaps(const BenchSummary& s) { return s.itl_seconds.mean > 0; }
bool TellsCached(const BenchSummary& s) { return s.tells_cached(); }
constexpr Figure kCompared[] = {
    {"ttft mean", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.mean; },
     &HasAnswers},
    {"ttft p50", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.p50; },
     &HasAnswers},
    {"ttft p90", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.p90; },
     &HasAnswers},
    {"between tokens mean", "ms", kMillisecondsEach, Wish::kLess,
     [](const BenchSummary& s) { return s.itl_seconds.mean; }, &HasGaps},
    {"whole answer mean", "ms", kMillisecondsEach, Wish::kLess,
     [](const BenchSummary& s) { return s.total_seconds.mean; }, &HasAnswers},
    {"output tokens", "/s", 1, Wish::kMore, [](const BenchSummary& s) { return s.output_tokens_per_second(); },
     &HasAnswers},
    {"good requests", "/s", 1, Wish::kMore, [](const BenchSummary& s) { return s.good_per_second(); }, &HasAnswers},
    {"cached", "%", 100, Wish::kMore, [](const BenchSummary& s) { return s.cached_ratio(); }, &TellsCached},
};
constexpr double kConfidence = 1 - 0.05 / std::size(kCompared);

Verdict VerdictOf(const Interval& log_ratio, Wish wish) {
  if (log_ratio.low <= 0 && log_ratio.high >= 0) return Verdict::kNoise;
  return (log_ratio.low > 0) == (wish == Wish::kMore) ? Verdict::kBetter : Verdict::kWorse;
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  constexpr std::string_view kNames[] = {"noise", "better", "worse", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::optional<Interval> MeanInterval(std::span<const double> values, double confidence) {
  if (values.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double reach = error * StudentQuantile((1 + confidence) / 2, count - 1);
  return Interval{mean, mean - reach, mean + reach};
}

std::vector<Difference> Compare(const BenchSummary& a, const BenchSummary& b, std::span<const BlockPair> blocks) {
  std::vector<Difference> differences;
  for (const Figure& figure : kCompared) {
    if (!figure.is_measured(a) || !figure.is_measured(b)) continue;
    Difference& difference = differences.emplace_back();
    difference.figure = figure.name;
    difference.unit = figure.unit;
    difference.a = figure.scale * figure.of(a);
    difference.b = figure.scale * figure.of(b);
    std::vector<double> log_ratios;
    for (const BlockPair& block : blocks) {
      const double in_a = figure.of(block.a);
      const double in_b = figure.of(block.b);
      if (in_a > 0 && in_b > 0) log_ratios.push_back(std::log(in_b / in_a));
    }
    difference.block_count = log_ratios.size();
    if (log_ratios.size() < kFewestBlocks) continue;
    const Interval interval = *MeanInterval(log_ratios, kConfidence);
    difference.ratio = std::exp(interval.mean);
    difference.low = std::exp(interval.low);
    difference.high = std::exp(interval.high);
    difference.verdict = VerdictOf(interval, figure.wish);
  }
  return differences;
}

}  // namespace roost::roostctl
