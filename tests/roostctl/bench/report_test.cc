#include "deploy/roostctl/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>

#include "deploy/roostctl/bench/router_bench.h"

namespace roost::roostctl {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchRun MakeRun() {
  BenchRun run;
  run.target.label = "first";
  run.target.model = "demo";
  run.target.access.url = "http://127.0.0.1:8000";
  for (int i = 1; i <= 10; ++i) {
    run.samples.push_back({.worker = "w1",
                           .ttft_seconds = 0.01 * i,
                           .total_seconds = 0.1 * i,
                           .gap_seconds = {0.002F},
                           .prompt_tokens = 100,
                           .cached_tokens = 50,
                           .output_tokens = 4,
                           .session = static_cast<std::size_t>(i)});
  }
  BenchSample failed;
  failed.error = "the router answers 503: \"busy\"";
  failed.error_kind = "status 503";
  run.samples.push_back(failed);
  run.summary = Summarise(run.samples, 2, {.ttft_seconds = 0.05});
  return run;
}

TEST(ReportTest, TellsRequestsTimesTokensAndGoodput) {
  const std::string text = FormatRun(MakeRun(), {.ttft_seconds = 0.05});
  EXPECT_THAT(text, HasSubstr("11 requests in 2.0 s, 1 failed: 1 status 503\n"));
  EXPECT_THAT(text, HasSubstr("time to first token        55.00     50.00     90.00    100.00    100.00  ms\n"));
  EXPECT_THAT(text, HasSubstr("prompt tokens 1000, of them cached 500 (50.0 %)"));
  EXPECT_THAT(text, HasSubstr("goodput (first token <= 50 ms): 2.50 requests/s, 5 of 11 requests (45.5 %)"));
  EXPECT_THAT(text, HasSubstr("answered by w1 100%"));
  EXPECT_THAT(text, Not(HasSubstr("WARNING")));
  EXPECT_THAT(FormatRun(MakeRun(), {}), Not(HasSubstr("goodput")));
}

TEST(ReportTest, WarnsWhenTheGeneratorItselfIsLate) {
  BenchRun run = MakeRun();
  run.summary.lag_p99_seconds = 0.2;
  EXPECT_THAT(FormatRun(run, {}), HasSubstr("WARNING: this program sent requests late (p99 200 ms)"));
}

TEST(ReportTest, TheHistogramHasEveryAnswerOnce) {
  const std::string text = FormatHistogram(MakeRun());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 13);
  EXPECT_THAT(text, HasSubstr("      10.0 ms "));
  std::uint64_t sum = 0;
  for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
    const std::size_t end = text.find('\n', at + 1);
    sum += std::stoull(text.substr(text.rfind(' ', end) + 1));
  }
  EXPECT_EQ(sum, 10U);
  EXPECT_EQ(FormatHistogram(BenchRun{}), "");
}

TEST(ReportTest, AComparisonSaysWhatIsNoiseAndHowThatWasFound) {
  const Difference noise{.figure = "ttft p50",
                         .unit = "ms",
                         .a = 10,
                         .b = 11,
                         .ratio = 1.1,
                         .low = 0.9,
                         .high = 1.3,
                         .block_count = 10,
                         .verdict = Verdict::kNoise};
  std::vector<Difference> differences{noise};
  const LoadTarget a{.label = "A", .access = {"http://a"}};
  const LoadTarget b{.label = "B", .access = {"http://b"}};
  const std::string text = FormatComparison(a, b, differences, 80);
  EXPECT_THAT(text, HasSubstr("+10.0 % (-10.0 to +30.0)  noise"));
  EXPECT_THAT(text, HasSubstr("Paired over 10 blocks"));
  differences[0].verdict = Verdict::kUnknown;
  differences[0].block_count = 2;
  EXPECT_THAT(FormatComparison(a, b, differences, 80), HasSubstr("Noise is unknown: 2 blocks, at least 5 are needed"));
  differences[0].block_count = 1;
  EXPECT_THAT(FormatComparison(a, b, differences, 80),
              HasSubstr("1 block, at least 5 are needed. Send at least 80 sessions"));
}

TEST(ReportTest, TheLineForScriptsIsOneOfPairs) {
  EXPECT_THAT(KeyLine(MakeRun()),
              HasSubstr("bench: label=first requests=11 failed=1 cached_ratio=0.500 ttft_p50_ms=50.00"));
  EXPECT_THAT(TableRow(MakeRun()), HasSubstr("first                11      1     50.0%        50.00"));
}

// An endpoint that tells no cached tokens, with answers of one token each; and a run in which every request failed.
TEST(ReportTest, WhatWasNotMeasuredIsLeftOut) {
  BenchRun run = MakeRun();
  for (BenchSample& sample : run.samples) {
    sample.cached_tokens.reset();
    sample.output_tokens = 1;
    sample.gap_seconds.clear();
  }
  run.summary = Summarise(run.samples, 2, {});
  const std::string text = FormatRun(run, {});
  EXPECT_THAT(text, HasSubstr("time to first token"));
  EXPECT_THAT(text, Not(HasSubstr("between")));
  EXPECT_THAT(text, HasSubstr("the endpoint does not tell cached ones"));
  EXPECT_THAT(KeyLine(run), Not(HasSubstr("cached_ratio")));
  EXPECT_THAT(KeyLine(run), Not(HasSubstr("itl_")));
  EXPECT_THAT(KeyLine(run), Not(HasSubstr("cold")));
  EXPECT_THAT(TableRow(run), HasSubstr("         -        50.00"));
  EXPECT_THAT(ResultJson(std::vector{run}, {}, 3), HasSubstr(R"("cached_tokens":null,"cached_ratio":null)"));
  EXPECT_THAT(ResultJson(std::vector{run}, {}, 3), HasSubstr(R"("itl_seconds":null)"));

  for (BenchSample& sample : run.samples) sample.error_kind = sample.error = "no text";
  run.summary = Summarise(run.samples, 2, {});
  EXPECT_THAT(FormatRun(run, {}), HasSubstr("11 requests in 2.0 s, 11 failed: 11 no text\n"
                                            "no whole answer with text came: there is nothing to measure\n"));
  EXPECT_EQ(KeyLine(run), "bench: label=first requests=11 failed=11 seconds=2.0 answers=0000000000000000\n");
}

TEST(ReportTest, ProbesAndGainsAreToldWhereTheyWereMeasured) {
  BenchRun run = MakeRun();
  run.ttft_cold_seconds = 0.2;
  run.ttft_warm_seconds = 0.05;
  EXPECT_THAT(KeyLine(run), HasSubstr(" ttft_cold_ms=200.00 ttft_warm_ms=50.00 "));
  EXPECT_EQ(GainLine({.ttft_p50 = 4, .ttft_p99 = 0, .output_tokens_per_second = 2}),
            "cache gain: ttft_p50=4.00x tokens_per_second=2.00x\n");
}

TEST(ReportFilesTest, TheJsonHasFiguresAndVerdicts) {
  const std::vector<BenchRun> runs{MakeRun()};
  Difference difference;
  difference.figure = "cached";
  const std::string text = ResultJson(runs, {&difference, 1}, 12.5);
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  ASSERT_EQ(parser.parse(simdjson::padded_string(text)).get(json), simdjson::SUCCESS) << text;
  EXPECT_DOUBLE_EQ(double(json.at_pointer("/ran_seconds")), 12.5);
  EXPECT_EQ(std::uint64_t(json.at_pointer("/runs/0/failed_by_kind/status 503")), 1U);
  EXPECT_DOUBLE_EQ(double(json.at_pointer("/runs/0/ttft_seconds/p90")), 0.09);
  EXPECT_EQ(std::string_view(json.at_pointer("/comparison/0/verdict")), "unknown");
  EXPECT_THAT(ResultJson(runs, {}, 12.5), Not(HasSubstr("comparison")));
}

TEST(ReportFilesTest, TheCsvHasARowPerRequestAndQuotesText) {
  const std::vector<BenchRun> runs{MakeRun()};
  const std::string csv = RequestsCsv(runs);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 12);
  EXPECT_THAT(csv, HasSubstr("\"first\",0,1,0,0.0000,0.000,10.000,100.000,30.000,100,50,4,\"w1\",\"\",\"\"\n"));
  EXPECT_THAT(csv, HasSubstr("\"status 503\",\"the router answers 503: \"\"busy\"\"\"\n"));
}

TEST(ReportFilesTest, ThePlotHasACurvePerRunInEachPanelAndEscapesLabels) {
  std::vector<BenchRun> runs{MakeRun(), MakeRun()};
  runs[1].target.label = "<b>&";
  const std::string svg = PlotRuns(runs);
  std::size_t curves = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++curves;
  EXPECT_EQ(curves, 4U);
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, HasSubstr("&#60;b&#62;&#38;"));
}

TEST(ProgressTest, ShowsABarAndCounts) {
  EXPECT_EQ(
      ProgressText(
          {.session_count = 24, .ended_sessions = 12, .ended_requests = 31, .failed_requests = 2, .open_requests = 4}),
      "[##########          ] 50 %  12 of 24 sessions, 31 requests, 2 failed, 4 open");
}

TEST(ProgressTest, OverwritesItselfOnATerminalOnly) {
  ManualClock clock;
  std::ostringstream terminal;
  ProgressBar bar(terminal, clock, ProgressOutput::kTerminal);
  std::ostringstream file;
  ProgressBar lines(file, clock, ProgressOutput::kLines);
  for (int i = 0; i < 100; ++i) {
    clock.Advance(std::chrono::milliseconds(150));
    bar.Update("", {});
    lines.Update("block 1 A", {});
  }
  bar.End();
  const std::string on_terminal = terminal.str();
  const std::string in_file = file.str();
  EXPECT_EQ(std::count(on_terminal.begin(), on_terminal.end(), '\n'), 0);
  EXPECT_THAT(on_terminal, testing::EndsWith("\r\x1b[K"));
  EXPECT_EQ(std::count(in_file.begin(), in_file.end(), '\n'), 1);
  EXPECT_THAT(in_file, testing::StartsWith("block 1 A ["));
}

}  // namespace
}  // namespace roost::roostctl
