// Operators' requests about prefixes: POST /admin/v1/match and /admin/v1/warm, GET /admin/v1/prefixes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "router/api/operator/verb.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

TEST(HitLineTest, TellsWhatIsCachedAndWhatIsLeft) {
  EXPECT_EQ(HitLine(18, 16, 4), "prompt 18 tokens: 16 cached in 4 blocks, 2 to prefill");
  EXPECT_EQ(HitLine(18, 0, 4), "prompt 18 tokens: 0 cached in 0 blocks, 18 to prefill");
  EXPECT_EQ(HitLine(16, 15, 16), "prompt 16 tokens: 15 cached in 1 block, 1 to prefill");
  EXPECT_EQ(HitLine(1, 9, 16), "prompt 1 token: 1 cached in 1 block, 0 to prefill");
}

// ---- match ----

class MatchTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Match(std::string body) { return Ask("POST", "/admin/v1/match", std::move(body)); }
};

TEST_F(MatchTest, TellsWhoHoldsThePromptAndWhereItWouldGo) {
  dispatcher_.match.holders = {{"w1", WorkerMode::kExact, 2, 1, 7}, {"w2", WorkerMode::kBlind, 0, 0}};
  dispatcher_.match.choice = PromptChoice{"w1", "cache-aware", DecisionReason::kDeepestMatch, 12, 0.25};
  const auto responder = Match(R"({"model":"bytes","prompt":"some long text"})");
  ASSERT_EQ(responder->response->status, 200);
  const std::string last_hash = dispatcher_.queries.at(0).block_hashes.back().ToHex();
  EXPECT_EQ(
      responder->response->body,
      R"({"model":"bytes","prompt_tokens":15,"block_tokens":4,"blocks":3,"last_block_hash":")" + last_hash +
          R"(",)"
          R"("hit":"prompt 15 tokens: 12 cached in 3 blocks, 3 to prefill",)"
          R"("choice":{"worker":"w1","policy":"cache-aware","reason":"deepest_match","cached_tokens":12,)"
          R"("ttft_seconds":0.25},"workers":[)"
          R"({"worker":"w1","mode":"exact","held_blocks":2,"pending_blocks":1,"disk_blocks":7,"cached_tokens":12},)"
          R"({"worker":"w2","mode":"blind","held_blocks":0,"pending_blocks":0,"disk_blocks":0,"cached_tokens":0}]})");
  EXPECT_TRUE(dispatcher_.specs.empty());
}

TEST_F(MatchTest, AsksForTheBlocksThatARequestWouldHave) {
  const std::string fields = R"("model":"bytes","messages":[{"role":"user","content":"hello"}],"cache_salt":"s"})";
  Match("{" + fields);
  Chat("{" + fields);
  ASSERT_EQ(dispatcher_.queries.size(), 1U);
  EXPECT_EQ(dispatcher_.queries[0].block_hashes, dispatcher_.specs[0].generate.block_hashes);
  EXPECT_EQ(dispatcher_.queries[0].prompt_token_count, dispatcher_.specs[0].generate.prompt.size());
}

TEST_F(MatchTest, WithoutAChoiceTellsTheDeepestHolder) {
  dispatcher_.match.holders = {{"w1", WorkerMode::kExact, 1, 0}};
  const auto responder = Match(R"({"model":"bytes","prompt":"some long text"})");
  EXPECT_EQ(At(responder->response->body, "/choice"), "null");
  EXPECT_EQ(At(responder->response->body, "/hit"), R"("prompt 15 tokens: 4 cached in 1 block, 11 to prefill")");
}

TEST_F(MatchTest, APromptThatFillsNoBlockMatchesNothing) {
  const auto responder = Match(R"({"model":"bytes","prompt":"hi"})");
  EXPECT_EQ(At(responder->response->body, "/blocks"), "0");
}

TEST_F(MatchTest, BadRequestsAreRefused) {
  EXPECT_EQ(At(Match(R"({"model":"bytes"})")->response->body, "/error/param"), R"("prompt")");
  EXPECT_EQ(Match(R"({"model":"other","prompt":"text"})")->response->status, 404);
  EXPECT_EQ(Match(R"({"model":"bytes","prompt":")" + std::string(300, 'x') + "\"}")->response->status, 400);
  EXPECT_EQ(Ask("GET", "/admin/v1/match")->response->status, 405);
  EXPECT_TRUE(dispatcher_.queries.empty());
}

// ---- warm ----

class WarmTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Warm(std::string body) { return Ask("POST", "/admin/v1/warm", std::move(body)); }
};

TEST_F(WarmTest, TellsWhatEachWorkerDid) {
  const auto responder = Warm(R"({"model":"bytes","prompt":"some long text","cache_salt":"s"})");
  EXPECT_FALSE(responder->done());
  dispatcher_.done({{"w1", WarmOutcome{.kind = WarmOutcome::Kind::kComputed, .block_count = 3, .computed_tokens = 8}},
                    {"w2", WarmOutcome{.kind = WarmOutcome::Kind::kHeld, .block_count = 3}},
                    {"w3", WarmOutcome{.kind = WarmOutcome::Kind::kRefused, .block_count = 1, .reason = "full"}},
                    {"w4"}});
  EXPECT_EQ(
      responder->response->body,
      R"({"model":"bytes","blocks":3,"tokens":15,"workers":[)"
      R"({"worker":"w1","answered":true,"outcome":"computed","held_blocks":3,"computed_tokens":8},)"
      R"({"worker":"w2","answered":true,"outcome":"held","held_blocks":3,"computed_tokens":0},)"
      R"({"worker":"w3","answered":true,"outcome":"refused","held_blocks":1,"computed_tokens":0,"reason":"full"},)"
      R"({"worker":"w4","answered":false}]})");
  Complete(R"({"model":"bytes","prompt":"some long text","cache_salt":"s"})");
  ASSERT_EQ(dispatcher_.warm_orders.size(), 1U);
  const WarmOrder& order = dispatcher_.warm_orders[0];
  EXPECT_EQ(order.spec.generate.block_hashes, dispatcher_.specs[0].generate.block_hashes);
  EXPECT_EQ(order.spec.generate.prompt, dispatcher_.specs[0].generate.prompt);
  EXPECT_EQ(order.spec.generate.root, dispatcher_.specs[0].generate.root);
  EXPECT_EQ(order.deadline, clock_.Now() + std::chrono::hours(1));
}

TEST_F(WarmTest, TellsWhatCameFromAnotherWorker) {
  const auto responder = Warm(R"({"model":"bytes","prompt":"some long text","workers":["w2"],"from":"w1"})");
  ASSERT_EQ(dispatcher_.warm_orders.size(), 1U);
  EXPECT_EQ(dispatcher_.warm_orders[0].source, "w1");
  const Pull pull{
      .source = "w1", .outcome = wire::HoldOutcome::kMissing, .block_count = 2, .bytes = 64, .seconds = 0.5};
  dispatcher_.done({{"w2", WarmOutcome{.kind = WarmOutcome::Kind::kPulled, .block_count = 3, .pull = pull}}});
  EXPECT_EQ(responder->response->body,
            R"({"model":"bytes","blocks":3,"tokens":15,"workers":[)"
            R"({"worker":"w2","answered":true,"outcome":"pulled","held_blocks":3,"computed_tokens":0,)"
            R"("pull":{"from":"w1","outcome":"missing","blocks":2,"bytes":64,"seconds":0.5}}]})");
}

TEST_F(WarmTest, ComputesTheFrontOfAChatOnNamedWorkers) {
  const std::string system = R"({"role":"system","content":"You are a hen."})";
  Warm(R"({"model":"bytes","messages":[)" + system + R"(],"workers":["w2"]})");
  ASSERT_EQ(dispatcher_.warm_orders.size(), 1U);
  EXPECT_EQ(dispatcher_.warm_orders[0].workers, (WorkerChoice{PinTarget::kNamedWorkers, {"w2"}}));
  EXPECT_EQ(dispatcher_.warm_orders[0].spec.generate.prompt.size(), 24U);  // without the generation prompt
}

TEST_F(WarmTest, BadRequestsAreRefused) {
  EXPECT_EQ(At(Warm(R"({"model":"bytes","prompt":"hi"})")->response->body, "/error/param"), R"("prompt")");
  EXPECT_EQ(Warm(R"({"model":"bytes","prompt":"text","workers":"some"})")->response->status, 400);
  for (const char* const from : {R"("")", "7"}) {
    const auto refused = Warm(fmt::format(R"({{"model":"bytes","prompt":"text","from":{}}})", from));
    EXPECT_EQ(At(refused->response->body, "/error/param"), R"("from")") << from;
  }
  dispatcher_.refusal = InvalidArgument("workers", "'w9' does not serve bytes now");
  EXPECT_EQ(Warm(R"({"model":"bytes","prompt":"text","workers":["w9"]})")->response->status, 400);
  EXPECT_TRUE(dispatcher_.warm_orders.empty());
}

// ---- prefixes ----

class PrefixesTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Ask(std::string query) { return Get("/admin/v1/prefixes", std::move(query)); }
  static wire::UsedPrefix Used(std::uint64_t name, std::uint32_t blocks, std::uint64_t hits) {
    return {.hash = {0, name}, .block_count = blocks, .hits = hits, .first_tokens = {}, .last_tokens = {}};
  }
};

TEST_F(PrefixesTest, AddsUpWhatWorkersCount) {
  const auto responder = Ask("model=bytes&top=2");
  const std::shared_ptr<const ServedModel> model = dispatcher_.models.front();
  dispatcher_.done({{"w1", wire::Prefixes{1, {Used(1, 5, 7), Used(2, 3, 6)}}, model},
                    {"w2", wire::Prefixes{1, {Used(3, 9, 8), Used(2, 3, 4)}}, model},
                    {"w3", {}, model}});
  EXPECT_EQ(responder->response->body, R"({"model":"bytes","block_tokens":4,"prefixes":[)"
                                       R"({"hash":"00000000000000000000000000000002","blocks":3,"tokens":12,"hits":10,)"
                                       R"("workers":[{"worker":"w1","hits":6},{"worker":"w2","hits":4}]},)"
                                       R"({"hash":"00000000000000000000000000000003","blocks":9,"tokens":36,"hits":8,)"
                                       R"("workers":[{"worker":"w2","hits":8}]}],)"
                                       R"("workers":[{"worker":"w1","answered":true},{"worker":"w2","answered":true},)"
                                       R"({"worker":"w3","answered":false}]})");
  ASSERT_EQ(dispatcher_.questions.size(), 1U);
  EXPECT_EQ(dispatcher_.questions[0].most, 2U);
  EXPECT_EQ(dispatcher_.questions[0].tokens, wire::PrefixTokens::kOmit);
}

TEST_F(PrefixesTest, WithoutANameAllModelsAreAsked) {
  ServedModel other = ByteModel();
  other.name = "other";
  other.block_tokens = 8;
  dispatcher_.models.push_back(std::make_shared<const ServedModel>(other));
  const auto responder = Ask("");
  ASSERT_EQ(dispatcher_.questions.size(), 1U);
  EXPECT_EQ(dispatcher_.questions[0].models, dispatcher_.models);
  EXPECT_EQ(dispatcher_.questions[0].most, 20U);
  dispatcher_.done({{"w2", wire::Prefixes{1, {Used(1, 2, 9)}}, dispatcher_.models[1]},
                    {"w1", wire::Prefixes{1, {Used(1, 5, 7)}}, dispatcher_.models[0]}});
  EXPECT_EQ(responder->response->body, R"({"prefixes":[{"model":"other","hash":"00000000000000000000000000000001",)"
                                       R"("blocks":2,"tokens":16,"hits":9,"workers":[{"worker":"w2","hits":9}]},)"
                                       R"({"model":"bytes","hash":"00000000000000000000000000000001","blocks":5,)"
                                       R"("tokens":20,"hits":7,"workers":[{"worker":"w1","hits":7}]}],"workers":[)"
                                       R"({"worker":"w2","answered":true},{"worker":"w1","answered":true}]})");
}

TEST_F(PrefixesTest, WithoutAModelThereAreNone) {
  dispatcher_.models.clear();
  const auto responder = Ask("");
  dispatcher_.done({});
  EXPECT_EQ(responder->response->body, R"({"prefixes":[],"workers":[]})");
}

TEST_F(PrefixesTest, WhenNoWorkerCanBeAskedThatIsSaid) {
  dispatcher_.models.push_back(dispatcher_.models.front());
  dispatcher_.refusal = Error{ErrorCode::kOverloaded, "too many orders are open", ""};
  EXPECT_EQ(Ask("")->response->status, 429);
}

TEST_F(PrefixesTest, BadQueriesNameTheParameter) {
  for (const char* query : {"top=0", "top=1001", "top=x", "top="}) {
    EXPECT_EQ(At(Ask(query)->response->body, "/error/param"), R"("top")") << query;
  }
  EXPECT_EQ(At(Ask("limit=3")->response->body, "/error/param"), R"("limit")");
  EXPECT_EQ(Ask("model=other")->response->status, 404);
  EXPECT_TRUE(dispatcher_.questions.empty());
}

TEST_F(PrefixesTest, ShowsCutTextWhereItIsAllowed) {
  Api shows(dispatcher_, observer_, clock_, text_,
            {.version = "1", .prefix_text = PrefixText::kShow, .metrics_text = {}, .unix_seconds_now = [] {
               return std::int64_t{0};
             }});
  HttpRequest request;
  request.method = "GET";
  request.path = "/admin/v1/prefixes";
  const auto responder = std::make_shared<FakeResponder>();
  shows.Handle(Listener::kAdmin, std::move(request), responder);
  EXPECT_EQ(dispatcher_.questions[0].tokens, wire::PrefixTokens::kTell);
  wire::UsedPrefix used = Used(1, 2, 3);
  used.first_tokens = Bytes("a\x1b\"");
  std::string tail(200 - 1, 'x');
  used.last_tokens = Bytes(tail + "é!");  // the cut falls into the é
  dispatcher_.done({{"w1", wire::Prefixes{1, {used}}, dispatcher_.models.front()}});
  EXPECT_EQ(At(responder->response->body, "/prefixes/0/begins"), R"("a\u001b\"")");
  EXPECT_EQ(At(responder->response->body, "/prefixes/0/ends"), '"' + tail + '"');
}

}  // namespace
}  // namespace roost::router
