// An engine that hangs, goes, comes back or restarts, and the load that it tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/worker/adapters/adapter_fixture.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_support::kCompletions;
using testing_support::MetricsText;
using testing_support::ReadAnswer;

class EngineStandingTest : public testing_support::AdapterEngineFixture {
 protected:
  EngineStandingTest() { options_.times.silence = seconds(10); }
  // Lets time pass with an engine whose pages answer.
  void Live(int quarter_seconds, double growth = 0) {
    for (int i = 0; i < quarter_seconds; ++i) {
      clock_.Advance(milliseconds(250));
      AnswerPages(computed_ += growth);
    }
  }
  double computed_ = 100;
};

TEST_F(EngineStandingTest, AnEngineThatSendsNoTokenHangs) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Live(39);
  EXPECT_FALSE(engine().watch().is_away());
  Live(1);
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_THAT(engine().watch().why(), HasSubstr("no token"));
  EXPECT_TRUE(http_.IsClosed(call));
  const auto events = Events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(Refusal(Request(6)).code, ErrorCode::kUnavailable);
}

TEST_F(EngineStandingTest, AnEngineWithoutRequestsDoesNotHang) {
  Live(100);
  Submit(Request(5));
  Live(20);
  EXPECT_FALSE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, TokensAreLife) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  for (int i = 0; i < 3; ++i) {
    Live(30);
    Chunk(call, 1);
  }
  EXPECT_FALSE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, WhatTheEngineComputesIsLifeToo) {
  Submit(Request(5));
  Live(200, 10);  // a long prompt, or an answer that is not streamed
  EXPECT_FALSE(engine().watch().is_away());
}

// As vLLM 0.32 does: its counters of tokens and steps stand still until the whole prompt is computed.
TEST_F(EngineStandingTest, BlocksOfAPromptThatIsComputedInPartsAreLife) {
  Submit(Request(5));
  const auto look = [this](double used_share) {
    clock_.Advance(std::chrono::seconds(1));
    engine().Tick();
    if (!http_.Open("/health").empty()) Page("/health", 200);
    if (!http_.Open("/metrics").empty()) Page("/metrics", 200, MetricsText(1000, 100, 1, 0, used_share));
  };
  for (int part = 0; part < 100; ++part) look(0.005 * part);
  EXPECT_FALSE(engine().watch().is_away());
  for (int second = 0; second < 60; ++second) look(0.5);
  EXPECT_TRUE(engine().watch().is_away()) << "then it computes no more";
}

// A page that can not be read proves nothing.
TEST_F(EngineStandingTest, PagesThatTellNothingAreNoLife) {
  Submit(Request(5));
  for (int second = 0; second < 60 && !engine().watch().is_away(); ++second) {
    clock_.Advance(std::chrono::seconds(1));
    engine().Tick();
    if (!http_.Open("/health").empty()) Page("/health", 200);
    if (http_.Open("/metrics").empty()) continue;
    if (second % 2 == 0) {
      Page("/metrics", 500);
    } else {
      Page("/metrics", 200, MetricsText(1000));
    }
  }
  EXPECT_TRUE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, ACallThatIsForgottenEndsAlone) {
  Submit(Request(5));
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  Live(4 * 40, 10);
  EXPECT_FALSE(engine().watch().is_away());
  EXPECT_TRUE(http_.IsClosed(call));
  EXPECT_EQ(Events().back().error->code, ErrorCode::kUnavailable);
}

TEST_F(EngineStandingTest, AfterAHangOneRequestMustHaveAnAnswer) {
  Submit(Request(5));
  Live(40);
  ASSERT_TRUE(engine().watch().is_away());
  AnswerRound();
  EXPECT_TRUE(engine().watch().is_away());  // pages prove nothing
  ASSERT_EQ(http_.Open(kCompletions).size(), 1U);
  EXPECT_THAT(Calls()[0].call.body, HasSubstr(R"("max_tokens":1)"));
  EXPECT_EQ(Calls()[0].call.time_limit, seconds(10));
  End(CallAt(0), CallEnd::kTooSlow);
  EXPECT_TRUE(engine().watch().is_away());
  clock_.Advance(seconds(1));
  AnswerRound();
  Answer(CallAt(0), 200, "{}");
  EXPECT_FALSE(engine().watch().is_away());
  EXPECT_FALSE(engine().TakeRestart());  // the process is the same
  Submit(Request(6));
}

TEST_F(EngineStandingTest, NobodyListeningIsAwayAtOnce) {
  Submit(Request(5));
  End(CallAt(0), CallEnd::kNotConnected);
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_EQ(Events().size(), 1U);
}

TEST_F(EngineStandingTest, AHealthPageThatFailsIsAway) {
  engine().Tick();
  Page("/health", 503);
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_THAT(engine().watch().why(), HasSubstr("503"));
}

TEST_F(EngineStandingTest, ASignFromAnotherRankHasItLookAtOnce) {
  AnswerPages();
  engine().Tick();
  EXPECT_TRUE(http_.Open("/health").empty()) << "it is not due";
  engine().AskHealthNow();
  engine().Tick();
  End(http_.Open("/health").at(0).id, CallEnd::kNotConnected);
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_EQ(engine().watch().why(), "as the test wants") << "the clause alone";
}

TEST_F(EngineStandingTest, AnEngineWithOtherRanksStaysAway) {
  engine().Tick();
  Page("/health", 503);
  engine().Tick();
  Page("/health", 200);
  Page("/openapi.json", 200, R"({"paths":{"/v1/completions":{"post":{}}}})");
  Page("/version", 200, R"({"version":"0.32.0"})");
  Page("/v1/models", 200, ReadAnswer("page-v1-models").body);
  const std::string row = "vllm:cache_config_info{block_size=\"32\",engine=\"0\",num_gpu_blocks=\"144\"} 1\n";
  Page("/metrics", 200, row + "vllm:cache_config_info{block_size=\"32\",engine=\"1\",num_gpu_blocks=\"144\"} 1\n");
  engine().Tick();
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_EQ(engine().watch().why(), "the engine has 2 data-parallel ranks now, not 1 as before");
}

TEST_F(EngineStandingTest, AHealthPageMayBeSlowNowAndThen) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(engine().watch().is_away());
    clock_.Advance(seconds(1));
    engine().Tick();
    End(http_.Open("/health").at(0).id, CallEnd::kTooSlow);
  }
  EXPECT_TRUE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, AnEngineThatRestartsComesBackWithAnEmptyCache) {
  engine().Tick();
  Page("/metrics", 200, MetricsText(2000));
  EXPECT_TRUE(engine().watch().is_away());
  AnswerRound(2000);
  EXPECT_FALSE(engine().watch().is_away());
  EXPECT_TRUE(engine().TakeRestart());
  EXPECT_FALSE(engine().TakeRestart());
  engine().Tick();
  Page("/metrics", 200, MetricsText(2000));
  EXPECT_FALSE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, AnotherEngineAtTheAddressStaysAway) {
  engine().Tick();
  Page("/health", 503);
  engine().Tick();
  Page("/health", 200);
  Page("/openapi.json", 200, R"({"paths":{"/v1/completions":{"post":{}}}})");
  Page("/version", 200, R"({"version":"0.32.0"})");
  Page("/v1/models", 200, R"({"data":[{"id":"other","max_model_len":2048}]})");
  Page("/metrics", 200, MetricsText(2000));
  engine().Tick();
  EXPECT_TRUE(engine().watch().is_away());
  EXPECT_THAT(engine().watch().why(), HasSubstr("serves 'other' now"));
}

TEST_F(EngineStandingTest, WhileItIsAwayItIsAskedAgain) {
  engine().Tick();
  Page("/health", 503);
  for (int i = 0; i < 3; ++i) {
    engine().Tick();
    End(http_.Open("/health").at(0).id, CallEnd::kNotConnected);
    EXPECT_TRUE(engine().watch().is_away());
    clock_.Advance(milliseconds(500));
  }
  AnswerRound();
  EXPECT_FALSE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, NobodySpinsWhileAPageIsSlow) {
  engine().Tick();
  clock_.Advance(seconds(2));
  engine().Tick();
  EXPECT_GT(engine().TimeToNextTick(), Duration(0));
  Page("/health", 503);
  engine().Tick();
  clock_.Advance(seconds(2));
  engine().Tick();
  EXPECT_GT(engine().TimeToNextTick(), Duration(0));
}

// ---- load ----

TEST_F(EngineStandingTest, OwnRequestsCountAsTheyAreAndOthersAsTold) {
  Submit(Request(1));
  Submit(Request(2));
  engine().Tick();
  Page("/metrics", 200, MetricsText(1000, 100, 4, 1));
  const wire::Load load = Report().load;
  EXPECT_EQ(load.running_requests + load.waiting_requests, 5U);
  EXPECT_EQ(load.waiting_requests, 1U);
  EXPECT_EQ(load.free_block_count, 71U);  // half of 71 blocks of 32 tokens, in blocks of 16
  engine().Cancel(Key(1));
  engine().Cancel(Key(2));
  const wire::Load later = Report().load;
  EXPECT_EQ(later.running_requests + later.waiting_requests, 3U);
}

TEST_F(EngineStandingTest, RequestsBeyondTheEnginesSlotsWait) {
  options_.max_running_requests = 2;
  for (std::uint64_t id = 1; id <= 5; ++id) Submit(Request(id));
  const StepReport report = Report();
  EXPECT_EQ(report.load.running_requests, 2U);
  EXPECT_EQ(report.load.waiting_requests, 3U);
  EXPECT_EQ(report.submit_count, 5U);
}

TEST_F(EngineStandingTest, TokensOfATierCountFromTheFirstPageOn) {
  const auto told = [this](const std::string& metric) {
    clock_.Advance(milliseconds(250));
    engine().Tick();
    if (!http_.Open("/health").empty()) Page("/health", 200);
    Page("/metrics", 200, MetricsText(1000) + metric);
    return Report().counts.tier_cached_tokens;
  };
  const std::string name = "vllm:external_prefix_cache_hits_total{engine=\"0\"} ";
  EXPECT_EQ(told(""), 0U);
  EXPECT_EQ(told(name + "500.0\n"), 0U) << "of an earlier worker";
  EXPECT_EQ(told(name + "512.0\n"), 12U);
  EXPECT_EQ(told(name + "512.0\n"), 0U);
  EXPECT_EQ(told(""), 0U);
  EXPECT_EQ(told(name + "1.2e+03\n"), 688U);
  EXPECT_EQ(told(name + "16.0\n"), 16U) << "it has restarted";
  for (const char* const strange : {"-1\n", "NaN\n", "+Inf\n", "1e300\n"})
    EXPECT_EQ(told(name + strange), 0U) << strange;
  EXPECT_EQ(told(name + "20\n"), 4U);
}

TEST_F(EngineStandingTest, PromptsWithoutATokenAreQueued) {
  wire::Generate request = Request(1);
  request.expected_cached_tokens = 32;
  Submit(request);
  Submit(Request(2));
  const StepReport report = Report();
  EXPECT_EQ(report.load.queued_prefill_tokens, 8U + 40U);
  ASSERT_EQ(report.prompts.size(), 2U);
  EXPECT_EQ(report.prompts[0].uncached_tokens, 8U);
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  EXPECT_EQ(Report().load.queued_prefill_tokens, 40U);
}

TEST_F(EngineStandingTest, StepsAndTimesAreLearnedFromArrivals) {
  Submit(Request(1));
  const CallId call = CallAt(0);
  Status(call, 200);
  clock_.Advance(milliseconds(100));
  Chunk(call, 1);
  clock_.Advance(milliseconds(20));
  Chunk(call, 2);
  const StepReport prefill = Report();
  EXPECT_EQ(prefill.load.step_prefill_tokens, 40U);
  EXPECT_NEAR(prefill.load.step_seconds, 0.1, 1e-9);
  EXPECT_EQ(prefill.counts.output_tokens, 2U);
  ASSERT_EQ(prefill.counts.ttft_seconds.size(), 1U);
  EXPECT_NEAR(prefill.counts.ttft_seconds[0], 0.1, 1e-9);
  ASSERT_EQ(prefill.counts.inter_token_seconds.size(), 1U);
  EXPECT_NEAR(prefill.counts.inter_token_seconds[0], 0.02, 1e-9);
  clock_.Advance(milliseconds(20));
  Chunk(call, 3, R"("length")");
  Usage(call, 32);
  End(call);
  engine().Tick();
  const StepReport end = Report();
  EXPECT_EQ(end.load.step_decode_tokens, 1U);
  EXPECT_EQ(end.counts.prompt_tokens, 40U);
  EXPECT_EQ(end.counts.cached_prompt_tokens, 32U);
  ASSERT_EQ(end.counts.decode_seconds.size(), 1U);
  EXPECT_NEAR(end.counts.decode_seconds[0], 0.04, 1e-9);
}

TEST_F(EngineStandingTest, WithoutALoadPageTheWorkerCountsItsOwn) {
  engine().Tick();
  Page("/metrics", 404);
  Submit(Request(1));
  const CallId call = CallAt(0);
  Status(call, 200);
  Chunk(call, 1);
  const wire::Load load = Report().load;
  EXPECT_EQ(load.running_requests, 1U);
  EXPECT_EQ(load.running_context_tokens, 41U);
  EXPECT_EQ(load.free_block_count, 139U);
}

// ---- adapters ----

constexpr const char* kWithPoet =
    R"({"data":[{"id":"demo-model","max_model_len":2048},{"id":"poet","parent":"demo-model"}]})";

TEST_F(EngineStandingTest, AdaptersAreAskedForNowAndThen) {
  wire::Generate request = Request(5);
  request.adapter = "poet";
  EXPECT_EQ(Refusal(request).code, ErrorCode::kModelNotFound);
  Live(20);
  Page("/v1/models", 200, kWithPoet);
  EXPECT_EQ(engine().watch().facts().adapters, std::set<std::string>{"poet"});
  Submit(request);
  EXPECT_THAT(Calls().at(0).call.body, HasSubstr(R"("model":"poet")"));
  Live(20);
  Page("/v1/models", 500);
  EXPECT_EQ(engine().watch().facts().adapters.size(), 1U) << "a page that can not be read changes nothing";
  EXPECT_FALSE(engine().watch().is_away());
}

TEST_F(EngineStandingTest, AnAdapterThatTheEngineDoesNotKnowIsAskedForAtOnce) {
  facts_.adapters = {"poet"};
  wire::Generate request = Request(5);
  request.adapter = "poet";
  Submit(request);
  Answer(CallAt(0), 404, R"({"error":{"message":"The model `poet` does not exist.","code":404}})");
  EXPECT_EQ(Events().at(0).error->code, ErrorCode::kModelNotFound);
  EXPECT_TRUE(engine().watch().facts().adapters.empty()) << "routers are told, whatever the page says next";
  engine().Tick();
  Page("/v1/models", 200, kWithPoet);
  EXPECT_EQ(engine().watch().facts().adapters, std::set<std::string>{"poet"}) << "it was loaded anew";
}

// Its worker's own requests are all that routers can hear of.
TEST_F(EngineStandingTest, TheLoadIsDueWithoutAPageToo) {
  CallIds ids;
  testing_support::FakeHttp http;
  EngineWatch watch(OpenAiProtocol(), {.model = "m"}, {}, clock_, ids, http);
  for (int round = 0; round < 3; ++round) {
    watch.Tick(OpenWork::kNone);
    EXPECT_TRUE(watch.TakeNewLoad());
    watch.Tick(OpenWork::kNone);
    EXPECT_FALSE(watch.TakeNewLoad());
    EXPECT_LE(watch.TimeToNextTick(), WatchTimes().load_interval);
    clock_.Advance(WatchTimes().load_interval);
  }
  EXPECT_EQ(http.sent.size(), 1U) << "its health";
}

}  // namespace
}  // namespace roost::worker::adapters
