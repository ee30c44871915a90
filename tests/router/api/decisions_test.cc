// GET /admin/v1/decisions.
#include <gtest/gtest.h>

#include "router/api/url.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

class DecisionsTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Ask(std::string query) { return Get("/admin/v1/decisions", std::move(query)); }

  void Log(std::string answer_id) {
    DecisionRecord record;
    record.answer_id = std::move(answer_id);
    record.request_id = "req-9";
    record.model = "bytes";
    record.prompt_token_count = 100;
    record.decided_at = clock_.Now();
    record.policy = "cache-aware";
    record.decision = {.slot = WorkerSlot(1),
                       .reason = DecisionReason::kDeepestMatch,
                       .matched_tokens = 64,
                       .predicted_ttft_seconds = 0.5,
                       .predicted_itl_seconds = 0.03125,
                       .predicted_whole_seconds = 8,
                       .in_seconds = true};
    Candidate candidate;
    candidate.slot = WorkerSlot(1);
    candidate.matched_tokens = 64;
    candidate.queue_seconds = 0.25;
    candidate.prefill_seconds = 0.125;
    candidate.decode_seconds = 0.125;
    candidate.delay_seconds = 0.5;
    candidate.token_seconds = 0.03125;
    candidate.answer_seconds = 4;
    candidate.stall_seconds = 0.5;
    candidate.congestion = 2;
    record.decision.candidates = {candidate};
    record.worker_id = "w1";
    record.candidate_ids = {"w1"};
    record.audit = {.regret_tokens = 16,
                    .regret_seconds = 0.25,
                    .regret_whole_seconds = 1.5,
                    .rotation_matched_tokens = 32,
                    .rotation_ttft_seconds = 0.75,
                    .rotation_whole_seconds = 9};
    dispatcher_.log.push_back(std::move(record));
  }
};

TEST_F(DecisionsTest, TellsEveryTermOfADecision) {
  Log("chatcmpl-1");
  clock_.Advance(std::chrono::seconds(2));
  const auto responder = Ask("request_id=chatcmpl-1");
  ASSERT_EQ(responder->response->status, 200);
  EXPECT_EQ(
      responder->response->body,
      R"({"decisions":[{"id":"chatcmpl-1","request_id":"req-9","model":"bytes","prompt_tokens":100,"retries":0,)"
      R"("seconds_ago":2,"policy":"cache-aware","worker":"w1","reason":"deepest_match","rates_known":true,)"
      R"("block_tokens":16,"hit":"prompt 100 tokens: 64 cached in 4 blocks, 36 to prefill","copy":null,"restore":null,"pull":null,"apart":null,"together":null,)"
      R"("predicted":{"cached_tokens":64,"ttft_seconds":0.5,"itl_seconds":0.03125,"whole_seconds":8},)"
      R"("actual":null,"no_actual":null,"miss":null,)"
      R"("regret":{"cached_tokens":16,"ttft_seconds":0.25,"whole_seconds":1.5},)"
      R"("round_robin":{"cached_tokens":32,"ttft_seconds":0.75,"whole_seconds":9},)"
      R"("candidates":[{"worker":"w1","way":"held","source":null,"matched_tokens":64,"pending_tokens":0,)"
      R"("pulled_tokens":0,"disk_tokens":0,"queue_seconds":0.25,"transfer_seconds":0,)"
      R"("prefill_seconds":0.125,"decode_seconds":0.125,"ttft_seconds":0.5,)"
      R"("congestion":2,"pace":1,"delay_seconds":0.5,"answer_pace":1,"token_seconds":0.03125,"answer_seconds":4,)"
      R"("stall_seconds":0.5,"displaced_seconds":0,"cost_seconds":5.75}]}]})");
  EXPECT_EQ(observer_.answers.back(), "decisions 200");
}

TEST_F(DecisionsTest, TellsWhatCameOfItAndNoSecondsBeforeRatesAreKnown) {
  Log("chatcmpl-1");
  dispatcher_.log[0].decision.in_seconds = false;
  dispatcher_.log[0].outcome = DecisionRecord::Outcome{.cached_tokens = 48, .ttft_seconds = 0.625};
  const auto responder = Ask("request_id=chatcmpl-1");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/actual"), R"({"cached_tokens":48,"ttft_seconds":0.625})");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/hit"),
            R"("prompt 100 tokens: 48 cached in 3 blocks, 52 to prefill")");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/predicted/ttft_seconds"), "null");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/predicted/itl_seconds"), "null");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/round_robin/ttft_seconds"), "null");
  EXPECT_EQ(At(responder->response->body, "/decisions/0/round_robin/whole_seconds"), "null");
}

TEST_F(DecisionsTest, TellsOfTheWholeAnswerOnceItHasEnded) {
  Log("chatcmpl-1");
  dispatcher_.log[0].outcome = DecisionRecord::Outcome{
      .cached_tokens = 48,
      .ttft_seconds = 0.625,
      .answer = DecisionRecord::Outcome::Answer{.tokens = 5, .itl_seconds = 0.25, .whole_seconds = 1.625}};
  EXPECT_EQ(At(Ask("request_id=chatcmpl-1")->response->body, "/decisions/0/actual"),
            R"({"cached_tokens":48,"ttft_seconds":0.625,"output_tokens":5,"itl_seconds":0.25,"whole_seconds":1.625})");
  dispatcher_.log[0].outcome->answer->tokens = 1;
  EXPECT_EQ(At(Ask("request_id=chatcmpl-1")->response->body, "/decisions/0/actual/itl_seconds"), "null");
}

TEST_F(DecisionsTest, SaysWhyThePromptWasNotFound) {
  Log("chatcmpl-1");
  dispatcher_.log[0].prompt_token_count = 2000;
  dispatcher_.log[0].comparison = {
      .before = PromptComparison::Before::kFound, .change = PromptChange::kSystem, .token = 32, .missed_tokens = 1500};
  EXPECT_EQ(
      At(Ask("request_id=chatcmpl-1")->response->body, "/decisions/0/miss"),
      R"({"cause":"changed","tokens":1500,)"
      R"("sentence":"the system prompt differs from the request before at token 32; 1,500 tokens computed again"})");
  dispatcher_.log[0].comparison = {.before = PromptComparison::Before::kFound, .token = 96};
  dispatcher_.log[0].outcome =
      DecisionRecord::Outcome{.cached_tokens = 48, .ttft_seconds = 0.625, .miss = wire::PromptMiss::kEvicted};
  EXPECT_EQ(At(Ask("request_id=chatcmpl-1")->response->body, "/decisions/0/miss/cause"), R"("evicted")");
}

TEST_F(DecisionsTest, TellsWhyNothingWillComeOfIt) {
  Log("chatcmpl-1");
  dispatcher_.log[0].no_outcome = "worker_lost";
  EXPECT_EQ(At(Ask("")->response->body, "/decisions/0/no_actual"), R"("worker_lost")");
}

TEST_F(DecisionsTest, TellsWhoGetsACopy) {
  Log("chatcmpl-1");
  DecisionRecord& record = dispatcher_.log[0];
  Candidate other;
  other.slot = WorkerSlot(7);
  record.decision.candidates.push_back(other);
  record.candidate_ids.emplace_back("w7");
  record.decision.copy = PrefixCopy{.worker = WorkerSlot(7), .block_count = 4};
  EXPECT_EQ(At(Ask("")->response->body, "/decisions/0/copy"), R"({"worker":"w7","blocks":4})");
}

TEST_F(DecisionsTest, TellsWhatIsFetchedAndWhatCame) {
  Log("chatcmpl-1");
  DecisionRecord& record = dispatcher_.log[0];
  Candidate& chosen = record.decision.candidates[0];
  chosen.pulled_tokens = 48;
  chosen.transfer_seconds = 0.5;
  chosen.displaced_seconds = 0.25;
  chosen.pull =
      PrefixPull{.source = WorkerSlot(9), .first_block = 1, .block_count = 3, .price = {.seconds = 0.5, .bytes = 3000}};
  record.decision.reason = DecisionReason::kPull;
  record.decision.pull = chosen.pull;
  record.source_ids = {"w9"};
  std::string body = Ask("")->response->body;
  EXPECT_EQ(At(body, "/decisions/0/reason"), R"("pull")");
  EXPECT_EQ(At(body, "/decisions/0/pull"),
            R"({"source":"w9","blocks":3,"bytes":3000,"predicted_seconds":0.5,"actual":null})");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/way"), R"("pull")");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/source"), R"("w9")");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/pulled_tokens"), "48");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/transfer_seconds"), "0.5");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/displaced_seconds"), "0.25");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/ttft_seconds"), "0.75") << "it comes while the queue is computed";
  record.pulled = DecisionRecord::Pulled{.outcome = "missing", .block_count = 2, .bytes = 2000, .seconds = 0.125};
  body = Ask("")->response->body;
  EXPECT_EQ(At(body, "/decisions/0/pull/actual"), R"({"outcome":"missing","blocks":2,"bytes":2000,"seconds":0.125})");
}

TEST_F(DecisionsTest, TellsWhatComesFromTheWorkersOwnDisk) {
  Log("chatcmpl-1");
  DecisionRecord& record = dispatcher_.log[0];
  Candidate& chosen = record.decision.candidates[0];
  chosen.pulled_tokens = chosen.disk_tokens = 48;
  chosen.pull =
      PrefixPull{.source = chosen.slot, .first_block = 1, .block_count = 3, .price = {.seconds = 0.5, .bytes = 3000}};
  record.decision.reason = DecisionReason::kRestore;
  record.decision.slot = chosen.slot;
  record.decision.pull = chosen.pull;
  const std::string body = Ask("")->response->body;
  EXPECT_EQ(At(body, "/decisions/0/reason"), R"("restore")");
  EXPECT_EQ(At(body, "/decisions/0/restore"), R"({"blocks":3,"bytes":3000,"predicted_seconds":0.5})");
  EXPECT_EQ(At(body, "/decisions/0/pull"), "null");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/way"), R"("restore")");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/source"), "null");
  EXPECT_EQ(At(body, "/decisions/0/candidates/0/disk_tokens"), "48");
}

TEST_F(DecisionsTest, GivesTheLastOnesUpToTheLimit) {
  for (int i = 0; i < 30; ++i) Log(fmt::format("cmpl-{}", i));
  EXPECT_EQ(At(Ask("limit=2")->response->body, "/decisions/1/id"), R"("cmpl-1")");
  EXPECT_EQ(At(Ask("limit=2")->response->body, "/decisions/2"), "");
  EXPECT_NE(At(Ask("")->response->body, "/decisions/19"), "");
  EXPECT_EQ(At(Ask("")->response->body, "/decisions/20"), "");
}

TEST_F(DecisionsTest, UnknownIdIsNotFound) {
  const auto responder = Ask("request_id=chatcmpl-2");
  EXPECT_EQ(responder->response->status, 404);
  EXPECT_EQ(At(responder->response->body, "/error/param"), R"("request_id")");
  EXPECT_EQ(At(responder->response->body, "/error/type"), R"("invalid_request_error")");
}

TEST_F(DecisionsTest, BadParametersAreNamed) {
  for (const auto& [query, param] : std::vector<std::pair<std::string, std::string>>{
           {"limit=0", "limit"},
           {"limit=1025", "limit"},
           {"limit=ten", "limit"},
           {"limit=", "limit"},
           {"request_id=", "request_id"},
           {"request_id=a&limit=3", "limit"},
           {"id=chatcmpl-1", "id"},
       }) {
    const auto responder = Ask(query);
    EXPECT_EQ(responder->response->status, 400) << query;
    EXPECT_EQ(At(responder->response->body, "/error/param"), '"' + param + '"') << query;
  }
}

TEST_F(DecisionsTest, RequestsCarryTheIdsThatTheirClientsSee) {
  const auto responder = Chat(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}]})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce({'a'}, 0);
  dispatcher_.Finish(wire::FinishReason::kStop);
  const GenerateSpec& spec = dispatcher_.specs.back();
  EXPECT_EQ(spec.request_id, "req-1");
  EXPECT_EQ(spec.answer_id.rfind("chatcmpl-", 0), 0U);
  EXPECT_EQ(At(responder->response->body, "/id"), '"' + spec.answer_id + '"');
}

TEST(UrlTest, SplitsAndDecodesAQuery) {
  const std::vector<QueryParameter> parameters = ParseQuery("a=1&&b=%20x%3D&c&d=e=f&=g");
  ASSERT_EQ(parameters.size(), 5U);
  EXPECT_EQ(parameters[0].name + "|" + parameters[0].value, "a|1");
  EXPECT_EQ(parameters[1].name + "|" + parameters[1].value, "b| x=");
  EXPECT_EQ(parameters[2].name + "|" + parameters[2].value, "c|");
  EXPECT_EQ(parameters[3].name + "|" + parameters[3].value, "d|e=f");
  EXPECT_EQ(parameters[4].name + "|" + parameters[4].value, "|g");
  EXPECT_TRUE(ParseQuery("").empty());
  EXPECT_EQ(PercentDecode("%41%zz%4"), "A%zz%4");
}

}  // namespace
}  // namespace roost::router
