#include "deploy/roostctl/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>
#include <sysexits.h>

#include <fstream>
#include <sstream>

namespace roost::roostctl {
namespace {

using testing::HasSubstr;

SimulateOptions Small() {
  SimulateOptions options;
  options.generator = "sglang-gsp";
  options.worker_count = 2;
  options.cache_tokens = 50'000;
  return options;
}

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

Answer Simulated(const SimulateOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = RunSimulate(options, out, err);
  return {code, out.str(), err.str()};
}

TEST(SimulateCommandTest, PrintsAnObjectPerPolicy) {
  SimulateOptions options = Small();
  options.policies = {"round-robin", "infinite"};
  options.json = true;
  const Answer answer = Simulated(options);
  ASSERT_EQ(answer.code, EX_OK) << answer.err;
  std::istringstream lines(answer.out);
  std::string line;
  std::vector<std::string> policies;
  while (std::getline(lines, line)) {
    simdjson::dom::parser parser;
    simdjson::dom::object object;
    ASSERT_EQ(parser.parse(line).get(object), simdjson::SUCCESS) << line;
    std::vector<std::string> keys;
    for (const auto field : object) keys.emplace_back(field.key);
    EXPECT_EQ(keys, (std::vector<std::string>{"policy",
                                              "workers",
                                              "cache_tokens",
                                              "hit_ratio",
                                              "time_hit_ratio",
                                              "ttft_mean_s",
                                              "ttft_p50_s",
                                              "ttft_p99_s",
                                              "ttft_max_s",
                                              "itl_mean_s",
                                              "itl_p99_s",
                                              "whole_mean_s",
                                              "whole_p99_s",
                                              "goodput_rps",
                                              "good_share",
                                              "requests_per_s",
                                              "capacity_rps",
                                              "imbalance",
                                              "refused",
                                              "saved_prefill_s",
                                              "round_robin_saved_s",
                                              "round_robin_hit_ratio"}));
    policies.emplace_back(std::string_view(object["policy"]));
  }
  EXPECT_EQ(policies, options.policies);
}

TEST(SimulateCommandTest, AllAreThePoliciesAndTheBounds) {
  SimulateOptions options = Small();
  options.policies = {"all"};
  const Answer answer = Simulated(options);
  ASSERT_EQ(answer.code, EX_OK) << answer.err;
  for (const std::string& policy : SimulatedPolicies()) EXPECT_THAT(answer.out, HasSubstr("\n" + policy + " "));
  EXPECT_THAT(answer.out, HasSubstr("\npooled "));
  EXPECT_THAT(answer.out, HasSubstr("\ninfinite "));
}

TEST(SimulateCommandTest, TheTableNamesTheLoadAndTheUnits) {
  SimulateOptions options = Small();
  options.rate = 5;
  const Answer answer = Simulated(options);
  ASSERT_EQ(answer.code, EX_OK) << answer.err;
  EXPECT_THAT(answer.out, testing::StartsWith("load sglang-gsp: "));
  EXPECT_THAT(answer.out, HasSubstr(" requests/s; on average "));
  EXPECT_THAT(answer.out, HasSubstr("good: first token within 2 s and at most 50 ms between tokens.\n\npolicy "));
  EXPECT_THAT(answer.out, HasSubstr("TTFT mean s"));
  options.json = true;
  EXPECT_THAT(Simulated(options).out, testing::StartsWith("{"));
}

TEST(SimulateCommandTest, LinksAreNamedAndTheirPullsCounted) {
  SimulateOptions options = Small();
  options.rate = 5;
  EXPECT_THAT(Simulated(options).out, testing::Not(HasSubstr("pulls")));
  options.link_gbps = 25;
  const Answer table = Simulated(options);
  ASSERT_EQ(table.code, EX_OK) << table.err;
  EXPECT_THAT(table.out, HasSubstr("; links of 25 Gbit/s, 131072 bytes per token\n"));
  EXPECT_THAT(table.out, testing::ContainsRegex("[0-9]+ pulls of [0-9]+ tokens, [0-9.]+ % of the prompts'"));
  options.json = true;
  simdjson::dom::parser parser;
  const simdjson::dom::element object = parser.parse(Simulated(options).out);
  EXPECT_GT(std::uint64_t{object["pulls"]}, 0U);
  EXPECT_GE(std::uint64_t{object["pulled_tokens"]}, std::uint64_t{object["pulls"]});
  EXPECT_GT(double{object["pulled_share"]}, 0);
}

TEST(SimulateCommandTest, LinksHaveBounds) {
  const auto run = [](const char* argument) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    const std::vector<const char*> arguments{"--generate=sglang-gsp", argument};
    const int code = kSimulateCommand.run(arguments, {in, out, err});
    return Answer{code, out.str(), err.str()};
  };
  EXPECT_THAT(run("--link-gbps=-1").err, HasSubstr("link-gbps"));
  EXPECT_THAT(run("--link-gbps=100001").err, HasSubstr("link-gbps"));
  EXPECT_THAT(run("--kv-bytes-per-token=0").err, HasSubstr("kv-bytes-per-token"));
  EXPECT_EQ(run("--kv-bytes-per-token=16777217").code, EX_USAGE);
}

TEST(SimulateCommandTest, SomeWorkersComputePromptsAlone) {
  SimulateOptions options = Small();
  options.rate = 5;
  options.worker_count = 3;
  options.prefill_worker_count = 1;
  EXPECT_THAT(Simulated(options).err, HasSubstr("prefill-workers: needs --link-gbps"));
  options.link_gbps = 100;
  const Answer answer = Simulated(options);
  EXPECT_EQ(answer.code, EX_OK) << answer.err;
  options.prefill_worker_count = 3;
  EXPECT_THAT(Simulated(options).err, HasSubstr("prefill-workers: 3 of 3 workers leave none to decode"));
}

TEST(SimulateCommandTest, ShowsItsProgressBesideItsAnswer) {
  SimulateOptions options = Small();
  options.show_progress = true;
  const Answer answer = Simulated(options);
  EXPECT_THAT(answer.err, HasSubstr("50 %"));
  EXPECT_EQ(answer.out.find('\r'), std::string::npos);
}

TEST(SimulateCommandTest, WritesAPlot) {
  SimulateOptions options = Small();
  options.plot = testing::TempDir() + "/ttft.svg";
  ASSERT_EQ(Simulated(options).code, EX_OK);
  std::ifstream file(options.plot);
  std::string start;
  std::getline(file, start);
  EXPECT_THAT(start, HasSubstr("<svg"));
  options.plot = "/nowhere/ttft.svg";
  EXPECT_EQ(Simulated(options).code, EX_CANTCREAT);
}

TEST(SimulateCommandTest, WhatCanNotBeIsNamed) {
  SimulateOptions policy = Small();
  policy.policies = {"greedy"};
  EXPECT_EQ(Simulated(policy).code, EX_USAGE);
  EXPECT_THAT(Simulated(policy).err,
              testing::AllOf(HasSubstr("policy"), HasSubstr("greedy"), HasSubstr("round-robin")));

  SimulateOptions speed = Small();
  speed.worker_speeds = {"1", "0"};
  EXPECT_EQ(Simulated(speed).code, EX_USAGE);
  EXPECT_THAT(Simulated(speed).err, HasSubstr("worker-speeds"));

  SimulateOptions seconds = Small();
  seconds.seconds = 10;
  EXPECT_THAT(Simulated(seconds).err, HasSubstr("seconds"));

  SimulateOptions costs = Small();
  costs.costs = {"free"};
  EXPECT_EQ(Simulated(costs).code, EX_USAGE);
  EXPECT_THAT(Simulated(costs).err, testing::AllOf(HasSubstr("costs"), HasSubstr("free-decode")));

  SimulateOptions nothing = Small();
  nothing.generator.clear();
  EXPECT_EQ(Simulated(nothing).code, EX_USAGE);
  EXPECT_THAT(Simulated(nothing).err, HasSubstr("trace"));

  SimulateOptions missing = nothing;
  missing.trace = "/nowhere.jsonl";
  EXPECT_EQ(Simulated(missing).code, EX_NOINPUT);
  EXPECT_THAT(Simulated(missing).err, HasSubstr("/nowhere.jsonl"));

  SimulateOptions damaged = nothing;
  damaged.trace = testing::TempDir() + "/damaged.jsonl";
  std::ofstream(damaged.trace) << "{\"timestamp\": 1}\n";
  EXPECT_EQ(Simulated(damaged).code, EX_DATAERR);
  EXPECT_THAT(Simulated(damaged).err, HasSubstr("damaged.jsonl:1"));
}

TEST(SimulateCommandTest, CapacityIsARateOfRequests) {
  SimulateOptions options = Small();
  options.generator = "system-prompt";
  options.rate = 20;
  options.seconds = 20;
  options.policies = {"round-robin"};
  options.capacity = true;
  options.json = true;
  simdjson::dom::parser parser;
  const double stated = parser.parse(Simulated(options).out)["capacity_rps"];
  EXPECT_GT(stated, 4);
  options.costs.emplace_back("step-base-ms=20");
  EXPECT_LT(double{parser.parse(Simulated(options).out)["capacity_rps"]}, 0.8 * stated);
}

TEST(SimulateCommandTest, FastWorkersTakeMore) {
  SimulateOptions options = Small();
  options.generator = "no-reuse";
  options.worker_speeds = {"3", "1"};
  options.json = true;
  simdjson::dom::parser parser;
  const double imbalance = parser.parse(Simulated(options).out)["imbalance"];
  EXPECT_GT(imbalance, 1.3);
  EXPECT_LT(imbalance, 1.9);  // 1.5 if both were busy all the time; 2 if one did nothing
}

// Each term of the service model delays answers.
TEST(SimulateCommandTest, TheServiceModelIsStated) {
  const auto mean_ttft = [](auto change) {
    SimulateOptions options = Small();
    options.policies = {"round-robin"};
    options.rate = 8;
    options.json = true;
    change(options);
    simdjson::dom::parser parser;
    return double{parser.parse(Simulated(options).out)["ttft_mean_s"]};
  };
  const double stated = mean_ttft([](SimulateOptions&) {});
  for (const char* const term : {"step-base-ms=12", "prefill-rate=20000", "prefill-base-ms=5", "attention-ns=20",
                                 "decode-base-ms=20", "decode-us-per-request=500", "decode-ns-per-context-token=200"}) {
    EXPECT_GT(mean_ttft([&](SimulateOptions& options) { options.costs.emplace_back(term); }), stated) << term;
  }
}

}  // namespace
}  // namespace roost::roostctl
