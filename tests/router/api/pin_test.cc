// POST /admin/v1/pin and /admin/v1/unpin.
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

class PinTest : public ApiTest {
 protected:
  // The router has the answer of the first of two workers, and none of the second.
  std::shared_ptr<FakeResponder> Pin(std::string body) {
    auto responder = Ask("POST", "/admin/v1/pin", std::move(body));
    if (dispatcher_.done) std::exchange(dispatcher_.done, nullptr)({{"w1", wire::PinAnswer{1, 2, 1, 0}}, {"w2"}});
    return responder;
  }
  const wire::Pin& LastPin() { return std::get<wire::Pin>(dispatcher_.orders.back().message); }
};

TEST_F(PinTest, PinsTheBlocksThatACompletionAsksFor) {
  const auto responder = Pin(R"({"model":"bytes","prompt":"some long text","cache_salt":"s","duration_ms":600000})");
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(responder->response->body,
            R"({"model":"bytes","blocks":3,"tokens":15,"workers":[)"
            R"({"worker":"w1","answered":true,"kept_blocks":2,"pending_blocks":1,"refused_blocks":0},)"
            R"({"worker":"w2","answered":false}]})");
  Complete(R"({"model":"bytes","prompt":"some long text","cache_salt":"s"})");
  EXPECT_EQ(LastPin(),
            (wire::Pin{dispatcher_.specs[0].generate.root, dispatcher_.specs[0].generate.block_hashes, 600'000}));
  EXPECT_EQ(dispatcher_.orders[0].workers, WorkerChoice{});
  EXPECT_EQ(observer_.answers.front(), "pin 200");
}

TEST_F(PinTest, WaitsForTheWorkersWithoutATextThread) {
  const auto responder = Ask("POST", "/admin/v1/pin", R"({"model":"bytes","prompt":"some long text"})");
  EXPECT_FALSE(responder->done());
  text_.holds = true;
  dispatcher_.done({{"w1", wire::PinAnswer{1, 3, 0, 0}}});
  EXPECT_FALSE(responder->done());  // a text thread writes the answer
  text_.DoHeld();
  EXPECT_EQ(At(responder->response->body, "/workers/0/kept_blocks"), "3");
}

TEST_F(PinTest, AnAnswerThatFindsNoTextThreadIsRefused) {
  const auto responder = Ask("POST", "/admin/v1/pin", R"({"model":"bytes","prompt":"some long text"})");
  text_.is_full = true;
  dispatcher_.done({});
  EXPECT_EQ(responder->response->status, 429);
}

TEST_F(PinTest, NamesWorkers) {
  Pin(R"({"model":"bytes","prompt":"some long text","workers":["w2","w1"]})");
  EXPECT_EQ(dispatcher_.orders.back().workers, (WorkerChoice{PinTarget::kNamedWorkers, {"w2", "w1"}}));
}

TEST_F(PinTest, PinsTheFrontOfAChat) {
  const std::string system = R"({"role":"system","content":"You are a hen."})";
  Pin(R"({"model":"bytes","messages":[)" + system + R"(],"workers":"best"})");
  Chat(R"({"model":"bytes","messages":[)" + system + R"(,{"role":"user","content":"hi"}]})");
  ASSERT_EQ(dispatcher_.orders.size(), 1U);
  EXPECT_EQ(dispatcher_.orders[0].workers, WorkerChoice{PinTarget::kBestWorker});
  EXPECT_EQ(LastPin().duration_ms, 0U);
  const std::vector<BlockHash>& asked = dispatcher_.specs[0].generate.block_hashes;
  ASSERT_EQ(LastPin().hashes.size(), 6U);  // 24 tokens: <|im_start|>, "system\nYou are a hen.", <|im_end|>, "\n"
  EXPECT_EQ(LastPin().hashes, std::vector<BlockHash>(asked.begin(), asked.begin() + 6));
}

TEST_F(PinTest, UnpinNamesTheSameBlocks) {
  Pin(R"({"model":"bytes","prompt":"some long text"})");
  const wire::Pin pin = LastPin();
  const auto responder = Ask("POST", "/admin/v1/unpin", R"({"model":"bytes","prompt":"some long text"})");
  dispatcher_.done({{"w1", wire::PinAnswer{1, 0, 0, 3}}});
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(std::get<wire::Unpin>(dispatcher_.orders.back().message), (wire::Unpin{pin.root, pin.hashes}));
}

TEST_F(PinTest, ABlockIsNamedByItsHash) {
  const BlockHash block{0x0123456789abcdef, 0xff};
  (void)Ask("POST", "/admin/v1/unpin", R"({"model":"bytes","hash":"0123456789abcdef00000000000000ff"})");
  EXPECT_EQ(std::get<wire::Unpin>(dispatcher_.orders.back().message).hashes, std::vector{block});
  EXPECT_EQ(dispatcher_.orders.back().what, PinOrder::What::kBlock);
  std::exchange(dispatcher_.done, nullptr)({});

  const std::string body = R"({"model":"bytes","hash":"0123456789abcdef00000000000000ff","duration_ms":1000})";
  const auto responder = Pin(body);
  EXPECT_EQ(responder->response->status, 200);
  EXPECT_EQ(At(responder->response->body, "/hash"), "\"0123456789abcdef00000000000000ff\"");
  EXPECT_EQ(LastPin(), (wire::Pin{{}, {block}, 1000}));
  EXPECT_EQ(dispatcher_.orders.back().what, PinOrder::What::kBlock);

  dispatcher_.refusal = Error{ErrorCode::kNotFound, "no worker of bytes has block 01", "hash"};
  const auto unknown = Pin(body);
  EXPECT_EQ(unknown->response->status, 404);
  EXPECT_EQ(At(unknown->response->body, "/error/param"), "\"hash\"");
}

TEST_F(PinTest, BadRequestsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"prompt":"text"})", "model"},
      {R"({"model":"bytes"})", "prompt"},
      {R"({"model":"bytes","prompt":"text","messages":[{"role":"user","content":"hi"}]})", "prompt"},
      {R"({"model":"bytes","messages":[]})", "messages"},
      {R"({"model":"bytes","hash":"0123456789abcdef0123456789abcde"})", "hash"},
      {R"({"model":"bytes","hash":"0123456789abcdef0123456789abcdef","prompt":"text"})", "hash"},
      {R"({"model":"bytes","hash":"0123456789abcdef0123456789abcdef","workers":"best"})", "workers"},
      {R"({"model":"bytes","prompt":"hi"})", "prompt"},  // fills no block
      {R"({"model":"bytes","prompt":")" + std::string(300, 'x') + "\"}", "prompt"},
      {R"({"model":"bytes","prompt":"text","duration_ms":0})", "duration_ms"},
      {R"({"model":"bytes","prompt":"text","duration_ms":"10m"})", "duration_ms"},
      {R"({"model":"bytes","prompt":"text","workers":"some"})", "workers"},
      {R"({"model":"bytes","prompt":"text","workers":[]})", "workers"},
      {R"({"model":"bytes","prompt":"text","workers":[1]})", "workers"},
      {R"({"model":"bytes","prompt":"text","workers":7})", "workers"},
      {R"({"model":"bytes","prompt":"text","workers":["w1","w1"]})", "workers"},
  };
  for (const auto& [body, param] : cases) {
    const auto responder = Pin(body);
    ASSERT_TRUE(responder->response.has_value()) << body;
    EXPECT_EQ(responder->response->status, 400) << body;
    EXPECT_EQ(At(responder->response->body, "/error/param"), '"' + param + '"') << body;
  }
  EXPECT_TRUE(dispatcher_.orders.empty());
}

TEST_F(PinTest, UnknownModelIsNotFoundAndNoWorkerIsUnavailable) {
  EXPECT_EQ(Pin(R"({"model":"other","prompt":"some text"})")->response->status, 404);
  dispatcher_.refusal = Error{ErrorCode::kUnavailable, "no worker serves bytes now", ""};
  EXPECT_EQ(Pin(R"({"model":"bytes","prompt":"some text"})")->response->status, 503);
  EXPECT_EQ(Ask("GET", "/admin/v1/pin")->response->status, 405);
}

}  // namespace
}  // namespace roost::router
