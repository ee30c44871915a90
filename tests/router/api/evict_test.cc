// POST /admin/v1/evict.
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

class EvictTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Evict(std::string body) {
    auto responder = Ask("POST", "/admin/v1/evict", std::move(body));
    const wire::EvictAnswer refused{.answer_id = 1, .outcome = wire::EvictOutcome::kRefused};
    if (dispatcher_.done) {
      std::exchange(dispatcher_.done, nullptr)({{"w1", wire::EvictAnswer{1, 5, 2, {}, 4}},
                                                {"w2", wire::EvictAnswer{1, 1, 0}},
                                                {"w3"},
                                                {"w4", NotSupported{}},
                                                {"w5", refused}});
    }
    return responder;
  }
  const wire::PromptToEvict& LastPrompt() {
    return std::get<std::vector<PromptOfRevision>>(dispatcher_.evict_orders.back().what).at(0).prompt;
  }
};

TEST_F(EvictTest, NamesTheBlocksThatACompletionAsksFor) {
  const auto responder = Evict(R"({"model":"bytes","prompt":"some long text","cache_salt":"s"})");
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(
      responder->response->body,
      R"({"model":"bytes","blocks":3,"tokens":15,"evicted_blocks":6,"busy_blocks":2,"disk_blocks":4,"workers":[)"
      R"({"worker":"w1","answered":true,"evicted_blocks":5,"busy_blocks":2,"disk_blocks":4},)"
      R"({"worker":"w2","answered":true,"evicted_blocks":1,"busy_blocks":0,"disk_blocks":0},)"
      R"({"worker":"w3","answered":false,"reason":"no answer"},)"
      R"({"worker":"w4","answered":false,"reason":"not supported"},)"
      R"({"worker":"w5","answered":false,"reason":"refused: it has too many evictions open, or can not erase all of it"}]})");
  Complete(R"({"model":"bytes","prompt":"some long text","cache_salt":"s"})");
  const GenerateSpec& spec = dispatcher_.specs.at(0);
  EXPECT_EQ(LastPrompt(), (wire::PromptToEvict{spec.generate.root, spec.generate.prompt, spec.generate.block_hashes}));
  EXPECT_EQ(dispatcher_.evict_orders[0].model, "bytes");
  EXPECT_EQ(dispatcher_.evict_orders[0].workers, WorkerChoice{});
  EXPECT_EQ(observer_.answers.front(), "evict 200");
}

TEST_F(EvictTest, APromptOfATenantIsInItsScope) {
  Evict(R"({"model":"bytes","prompt":"some long text","tenant":"hens","cache_salt":"s","workers":["w1"]})");
  EXPECT_EQ(LastPrompt().root, ScopeRoot(*dispatcher_.models.front(), "hens", "s"));
  EXPECT_NE(LastPrompt().root, ScopeRoot(*dispatcher_.models.front(), "", "s"));
  EXPECT_EQ(dispatcher_.evict_orders[0].workers, (WorkerChoice{PinTarget::kNamedWorkers, {"w1"}}));
}

TEST_F(EvictTest, APromptMayBeShorterThanABlock) {
  EXPECT_EQ(Evict(R"({"model":"bytes","prompt":"hi"})")->response->status, 200);
  EXPECT_TRUE(LastPrompt().block_hashes.empty());
  EXPECT_FALSE(LastPrompt().tokens.empty());
}

TEST_F(EvictTest, ATenantNeedsNoModel) {
  const auto responder = Evict(R"({"tenant":"hens"})");
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(At(responder->response->body, "/tenant"), "\"hens\"");
  EXPECT_EQ(At(responder->response->body, "/evicted_blocks"), "6");
  EXPECT_EQ(std::get<wire::TenantToEvict>(dispatcher_.evict_orders.back().what).tenant, "hens");
  EXPECT_EQ(dispatcher_.evict_orders.back().model, "");
  Evict(R"({"tenant":"hens","model":"bytes"})");
  EXPECT_EQ(dispatcher_.evict_orders.back().model, "bytes");
}

TEST_F(EvictTest, ABlockIsNamedByItsHash) {
  const std::string hash = "0123456789abcdef00000000000000ff";
  const auto responder = Evict(R"({"hash":")" + hash + R"("})");
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(At(responder->response->body, "/hash"), '"' + hash + '"');
  EXPECT_EQ(std::get<wire::BlockToEvict>(dispatcher_.evict_orders.back().what).hash,
            (BlockHash{0x0123456789abcdef, 0xff}));
  EXPECT_EQ(dispatcher_.evict_orders.back().model, "");
}

TEST_F(EvictTest, IsTakenWhileRequestsOfTheModelAreRefused) {
  dispatcher_.no_room = Error{ErrorCode::kOverloaded, "too many requests wait", ""};
  EXPECT_EQ(Evict(R"({"model":"bytes","prompt":"some long text"})")->response->status, 200);
}

TEST_F(EvictTest, BadRequestsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "prompt"},
      {R"({"model":"bytes"})", "prompt"},
      {R"({"prompt":"text"})", "model"},
      {R"({"tenant":""})", "prompt"},
      {R"({"tenant":7})", "tenant"},
      {R"({"hash":"0123"})", "hash"},
      {R"({"hash":"0123456789abcdef00000000000000fg"})", "hash"},
      {R"({"hash":7})", "hash"},
      {R"({"hash":"0123456789abcdef0123456789abcdef","tenant":"hens"})", "hash"},
      {R"({"hash":"0123456789abcdef0123456789abcdef","prompt":"text"})", "hash"},
      {R"({"tenant":")" + std::string(201, 'x') + "\"}", "tenant"},
      {R"({"model":"bytes","prompt":"text","messages":[]})", "prompt"},
      {R"({"model":"bytes","messages":[]})", "messages"},
      {R"({"model":"bytes","prompt":"text","workers":"best"})", "workers"},
      {R"({"tenant":"hens","workers":[]})", "workers"},
      {R"({"model":"bytes","prompt":")" + std::string(300, 'x') + "\"}", "prompt"},
  };
  for (const auto& [body, param] : cases) {
    const auto responder = Evict(body);
    ASSERT_TRUE(responder->response.has_value()) << body;
    EXPECT_EQ(responder->response->status, 400) << body;
    EXPECT_EQ(At(responder->response->body, "/error/param"), '"' + param + '"') << body;
  }
  EXPECT_TRUE(dispatcher_.evict_orders.empty());
  EXPECT_EQ(Evict(R"({"model":"other","prompt":"some text"})")->response->status, 404);
  EXPECT_EQ(Evict(R"({"model":"other","tenant":"hens"})")->response->status, 404);
  EXPECT_EQ(Ask("GET", "/admin/v1/evict")->response->status, 405);
}

}  // namespace
}  // namespace roost::router
