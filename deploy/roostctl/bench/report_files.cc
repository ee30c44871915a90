#include "deploy/roostctl/bench/report_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/json_writer.h"
#include "deploy/roostctl/curve_plot.h"

namespace roost::roostctl {
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

}  // namespace roost::roostctl
