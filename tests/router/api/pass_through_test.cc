// Routes that engines answer: which model a request means, what the dispatcher gets, and how the answer comes back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/fleet/text_pieces.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;

class PassThroughTest : public ApiTest {
 protected:
  PassThroughTest() { ServeBoth(); }

  static ServedModel Engine(std::string name, std::set<std::string, std::less<>> routes) {
    ServedModel model;
    model.name = std::move(name);
    model.has_text = false;
    model.routes = std::move(routes);
    return model;
  }
  void ServeBoth() {
    ServedModel chat = ByteModel();
    chat.routes = {"/v1/chat/completions"};
    dispatcher_.models = {
        std::make_shared<const ServedModel>(std::move(chat)),
        std::make_shared<const ServedModel>(Engine("e5", {"/v1/embeddings", "/pooling", "/v1/audio/transcriptions"})),
        std::make_shared<const ServedModel>(Engine("bge", {"/rerank", "/pooling"})),
        std::make_shared<const ServedModel>(Engine("strange", {"/v1/chat/completions", "/v1/messages", "/tokenize"}))};
  }
  std::shared_ptr<FakeResponder> AskWith(std::string path, std::string type, std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"Content-Type", std::move(type)}, {"Accept", "*/*"}};
    request.body = std::move(body);
    return Handle(std::move(request));
  }
  std::string ErrorOf(const FakeResponder& answer) { return At(answer.response.value().body, "/error/message"); }
  void Piece(ForwardPiece piece) { dispatcher_.forward_observers.back()->OnPiece(std::move(piece)); }
};

TEST_F(PassThroughTest, TheBodyGoesAsItIsToTheModelThatItNames) {
  const std::string body = R"({ "input": ["a"], "model":"e5" })";
  const auto answer = AskWith("/v1/embeddings", "application/json; charset=utf-8", body);
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  const ForwardSpec& spec = dispatcher_.forwards[0];
  EXPECT_EQ(spec.model->name, "e5");
  EXPECT_EQ(spec.path, "/v1/embeddings");
  EXPECT_EQ(*spec.body, body);
  EXPECT_EQ(spec.head.content_type, "application/json; charset=utf-8");
  EXPECT_EQ(spec.head.accept, "*/*");
  EXPECT_EQ(spec.head.model, "e5");
  EXPECT_EQ(body.substr(spec.head.model_begin, spec.head.model_end - spec.head.model_begin), "e5");
  EXPECT_FALSE(spec.session);
  EXPECT_TRUE(spec.deadline.has_value());
  Piece({.head = ForwardHead{200, "application/json", "w1"}, .body = "[1]", .is_last = true});
  ASSERT_TRUE(answer->response);
  EXPECT_EQ(answer->response->status, 200);
  EXPECT_EQ(answer->response->content_type, "application/json");
  EXPECT_EQ(answer->response->body, "[1]");
  EXPECT_EQ(HeaderOf(answer->response->headers, "x-roost-worker"), "w1");
  EXPECT_EQ(observer_.answers.back(), "embeddings 200");
}

TEST_F(PassThroughTest, WithoutANameTheOnlyModelWithTheRouteIsMeant) {
  AskWith("/rerank", "application/json", "{}");
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  EXPECT_EQ(dispatcher_.forwards[0].model->name, "bge");
  const auto answer = AskWith("/pooling", "application/json", "{}");
  EXPECT_EQ(answer->response.value().status, 400);
  EXPECT_EQ(At(answer->response->body, "/error/param"), "\"model\"");
}

TEST_F(PassThroughTest, AFormIsPassedOnToo) {
  const std::string body =
      "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ne5\r\n--B\r\n"
      "Content-Disposition: form-data; name=\"file\"\r\n\r\nRIFF\r\n--B--\r\n";
  AskWith("/v1/audio/transcriptions", "multipart/form-data; boundary=B", body);
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  EXPECT_EQ(*dispatcher_.forwards[0].body, body);
  EXPECT_EQ(dispatcher_.forwards[0].head.model, "e5");
}

TEST_F(PassThroughTest, ARouteThatNoEngineHasIsNotFoundWithWhatItTakes) {
  auto answer = AskWith("/v1/score", "application/json", "{}");
  EXPECT_EQ(answer->response.value().status, 404);
  EXPECT_THAT(ErrorOf(*answer), HasSubstr("--runner pooling"));
  answer = AskWith("/v1/embeddings", "application/json", R"({"model":"bge"})");
  EXPECT_EQ(answer->response.value().status, 404);
  EXPECT_THAT(ErrorOf(*answer), HasSubstr("no worker of the model 'bge' has /v1/embeddings"));
  answer = AskWith("/v1/embeddings", "application/json", R"({"model":"nobody"})");
  EXPECT_EQ(answer->response.value().status, 404);
  EXPECT_THAT(ErrorOf(*answer), HasSubstr("nobody"));
  EXPECT_TRUE(dispatcher_.forwards.empty());
}

TEST_F(PassThroughTest, AnEngineThatIsAwayIsUnavailable) {
  dispatcher_.expected = "e6";
  EXPECT_EQ(AskWith("/v1/embeddings", "application/json", R"({"model":"e6"})")->response.value().status, 503);
  dispatcher_.refusal = Error{ErrorCode::kOverloaded, "full", ""};
  const auto answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e5"})");
  EXPECT_EQ(answer->response.value().status, 429);
  EXPECT_EQ(observer_.answers.back(), "embeddings 429");
}

TEST_F(PassThroughTest, ACallWaitsForAModelThatIsAboutToCome) {
  dispatcher_.arriving = "e6";
  const auto answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e6"})");
  ASSERT_EQ(dispatcher_.held.size(), 1U);
  EXPECT_FALSE(answer->response);
  dispatcher_.models.push_back(std::make_shared<const ServedModel>(Engine("e6", {"/v1/embeddings"})));
  dispatcher_.held[0]();
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  EXPECT_EQ(*dispatcher_.forwards[0].body, R"({"model":"e6"})");
}

TEST_F(PassThroughTest, AnAnswerInPiecesComesAsBytes) {
  const auto answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e5"})");
  Piece({.head = ForwardHead{206, "audio/wav", "w1"}, .body = "RI"});
  EXPECT_FALSE(answer->response);
  ASSERT_TRUE(answer->bytes_head);
  EXPECT_EQ(answer->bytes_head->status, 206);
  EXPECT_EQ(answer->bytes_head->content_type, "audio/wav");
  Piece({.body = "FF"});
  EXPECT_EQ(answer->frames, "RIFF");
  answer->bytes_head->on_written(wire::kForwardCredit / 4 - 1);
  EXPECT_TRUE(dispatcher_.granted.empty()) << "the dispatcher is not told of every write";
  answer->bytes_head->on_written(1);
  EXPECT_EQ(dispatcher_.granted[RequestId(1001)], wire::kForwardCredit / 4);
  Piece({.is_last = true});
  EXPECT_TRUE(answer->ended);
  EXPECT_FALSE(answer->cut_off);
  EXPECT_EQ(observer_.answers.back(), "embeddings 206");
}

TEST_F(PassThroughTest, AnErrorIsAnAnswerBeforeTheFirstByteAndACutAfterIt) {
  auto answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e5"})");
  Piece({.is_last = true, .error = Error{ErrorCode::kUnavailable, "the engine is away", ""}});
  EXPECT_EQ(answer->response.value().status, 503);
  answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e5"})");
  Piece({.head = ForwardHead{200, "application/json", "w1"}, .body = "{"});
  Piece({.is_last = true, .error = Error{ErrorCode::kUnavailable, "the engine is away", ""}});
  EXPECT_FALSE(answer->response);
  EXPECT_TRUE(answer->cut_off);
}

TEST_F(PassThroughTest, AClientThatGoesAwayCancels) {
  const auto answer = AskWith("/v1/embeddings", "application/json", R"({"model":"e5"})");
  answer->Close();
  ASSERT_EQ(dispatcher_.cancelled.size(), 1U);
  EXPECT_EQ(dispatcher_.cancelled[0], RequestId(1001));
  EXPECT_EQ(observer_.answers.back(), "embeddings 499");
  Piece({.head = ForwardHead{200, "application/json", "w1"}, .is_last = true});
}

TEST_F(PassThroughTest, WhatIsNoJsonIsRefusedToPagesOfOtherSites) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/audio/transcriptions";
  request.headers = {{"Content-Type", "multipart/form-data; boundary=B"},
                     {"Host", "127.0.0.1:8000"},
                     {"Origin", "https://evil.example.com"}};
  EXPECT_EQ(Handle(std::move(request))->response.value().status, 403);
}

// ---- models that this router can not read ----

TEST_F(PassThroughTest, AModelWithoutATextGetsItsRequestsUnread) {
  const std::string body = R"({"model":"strange","messages":[{"role":"user","content":"hi"}],"stream":true})";
  const auto answer = Chat(body);
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  EXPECT_EQ(*dispatcher_.forwards[0].body, body);
  EXPECT_TRUE(dispatcher_.forwards[0].session.has_value());
  EXPECT_TRUE(dispatcher_.specs.empty());
  Piece({.head = ForwardHead{200, "text/event-stream; charset=utf-8", "w1"}, .body = "data: {}\n\n"});
  Piece({.body = "data: [DONE]\n\n", .is_last = true});
  EXPECT_EQ(answer->frames, "data: {}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(observer_.answers.back(), "chat_completions 200");
  Complete(R"({"model":"strange","prompt":"hi"})");
  EXPECT_EQ(dispatcher_.forwards.size(), 1U) << "its engine has no /v1/completions";
  Ask("POST", "/tokenize", R"({"model":"strange","prompt":"hi"})");
  EXPECT_EQ(dispatcher_.forwards.size(), 2U);
}

TEST_F(PassThroughTest, ErrorsAreInTheFormOfTheRoute) {
  const auto answer = Ask("POST", "/v1/messages", R"({"model":"strange","messages":[]})");
  Piece({.is_last = true, .error = Error{ErrorCode::kUnavailable, "the engine is away", ""}});
  EXPECT_EQ(At(answer->response.value().body, "/type"), "\"error\"");
}

TEST_F(PassThroughTest, TurnsOfAConversationHaveOneSession) {
  const auto session = [this](std::string body) {
    Chat(std::move(body));
    return dispatcher_.forwards.back().session;
  };
  const std::string long_text(2000, 'x');
  const auto turn = [&](const std::string& more) {
    return session(R"({"model":"strange","messages":[{"role":"user","content":")" + long_text + R"("})" + more + "]}");
  };
  EXPECT_EQ(turn(""), turn(R"(,{"role":"assistant","content":"y"})"));
  EXPECT_NE(turn(""), session(R"({"model":"strange","messages":[{"role":"user","content":"other"}]})"));
  const std::string named = R"({"model":"strange","session_id":"s1","messages":[{"role":"user","content":")";
  EXPECT_EQ(session(named + R"(a"}]})"), session(named + R"(b"}]})"));
}

TEST_F(PassThroughTest, ChatsWithTheSameInstructionsAreSessionsOfTheirOwn) {
  const auto session = [this](std::string_view question) {
    Chat(fmt::format(R"({{"model":"strange","messages":[{{"role":"system","content":"{}"}},)"
                     R"({{"role":"user","content":"{}"}}]}})",
                     std::string(5000, 's'), question));
    return dispatcher_.forwards.back().session;
  };
  EXPECT_EQ(session("a"), session("a"));
  EXPECT_NE(session("a"), session("b"));
}

// ---- the pieces of texts ----

struct TextPiecesTest : PassThroughTest {
  std::vector<BlockHash> Pieces(const std::string& body, const std::string& path = "/v1/chat/completions") {
    Ask("POST", path, body);
    return dispatcher_.forwards.back().pieces;
  }
  static std::string Message(std::string_view role, char letter, std::size_t size) {
    return fmt::format(R"({{"role":"{}","content":"{}"}})", role, std::string(size, letter));
  }
  static std::string Chat(const std::string& messages, const std::string& more = "") {
    return fmt::format(R"({{"model":"strange",{}"messages":[{}]}})", more, messages);
  }
  static std::size_t Common(const std::vector<BlockHash>& a, const std::vector<BlockHash>& b) {
    const std::size_t size = std::min(a.size(), b.size());
    return static_cast<std::size_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first - a.begin());
  }
};

TEST_F(TextPiecesTest, ALaterTurnBeginsWithTheEarlierOnes) {
  const std::string first = Message("system", 's', 1000) + "," + Message("user", 'u', 1000);
  const std::string more = "," + Message("assistant", 'a', 1000) + "," + Message("user", 'v', 1000);
  const std::vector<BlockHash> turn = Pieces(Chat(first));
  const std::vector<BlockHash> next = Pieces(Chat(first + more));
  EXPECT_EQ(turn.size(), 2040 / kPieceBytes) << "with names and roles; the unfinished piece does not count";
  EXPECT_EQ(next.size(), 4083 / kPieceBytes);
  EXPECT_EQ(Common(turn, next), turn.size());
  EXPECT_EQ(dispatcher_.forwards.back().instruction_pieces, 1021 / kPieceBytes + 1);
  EXPECT_EQ(Pieces(Chat(first)), turn);
  const std::string other = Message("system", 's', 1000) + "," + Message("user", 'w', 1000);
  EXPECT_EQ(Common(turn, Pieces(Chat(other))), 4U);
}

TEST_F(TextPiecesTest, OnlyTheSameTenantModelAndSaltFindATextAgain) {
  const std::string text = Message("user", 'u', 3000);
  const std::vector<BlockHash> plain = Pieces(Chat(text));
  EXPECT_EQ(Common(plain, Pieces(Chat(text, R"("cache_salt":"x",)"))), 0U);
  EXPECT_EQ(Common(plain, Pieces(Chat(text, R"("cache":{"salt":"x"},)"))), 0U);
  ServedModel other = Engine("strange-2", {"/v1/chat/completions"});
  dispatcher_.models.push_back(std::make_shared<const ServedModel>(std::move(other)));
  EXPECT_EQ(Common(plain, Pieces(fmt::format(R"({{"model":"strange-2","messages":[{}]}})", text))), 0U);
}

TEST_F(TextPiecesTest, ToolsComeFirstAndMarksOfTheCacheDoNotCount) {
  const std::string tools =
      fmt::format(R"("tools":[{{"type":"function","function":{{"name":"{}"}}}}],)", std::string(600, 't'));
  const std::string text = Message("user", 'u', 1000);
  EXPECT_EQ(Common(Pieces(Chat(text, tools)), Pieces(Chat(Message("user", 'v', 1000), tools))), 2U);
  const std::string part = R"({"role":"user","content":[{"type":"text","text":")" + std::string(1000, 'u') + "\"";
  EXPECT_EQ(Pieces(Chat(part + "}]}")), Pieces(Chat(part + R"(,"cache_control":{"type":"ephemeral"}}]})")));
  EXPECT_EQ(Common(Pieces(Chat(Message("user", 'u', 254) + "," + Message("user", 'u', 600))),
                   Pieces(Chat(Message("user", 'u', 1000)))),
            1U)
      << "texts are kept apart";
}

TEST_F(TextPiecesTest, LongTextsCountWithTheirBeginning) {
  EXPECT_EQ(Pieces(Chat(Message("user", 'u', 2 * kMaxPieces * kPieceBytes))).size(), kMaxPieces);
  EXPECT_TRUE(Pieces(Chat(Message("user", 'u', 10))).empty());
  EXPECT_TRUE(Pieces(R"({"model":"strange","messages":7})").empty());
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_TRUE(Pieces(R"({"model":"strange","messages":)" + deep + "}").empty());
}

TEST_F(TextPiecesTest, ModelsThatAreReadHaveNone) {
  PassThroughTest::Chat(R"({"model":"bytes","messages":[{"role":"user","content":[{"type":"text","text":")" +
                        std::string(3000, 'x') + R"("},{"type":"image_url","image_url":{"url":"data:,"}}]}]})");
  EXPECT_TRUE(dispatcher_.forwards.back().pieces.empty()) << "its index has blocks of tokens";
}

TEST_F(PassThroughTest, CachedTokensOfAWholeAnswerAreInItsHeaders) {
  const auto answer = Chat(R"({"model":"strange","messages":[]})");
  Piece({.head = ForwardHead{200, "application/json", "w1"},
         .body = "{}",
         .is_last = true,
         .usage = ForwardUsage{.prompt_tokens = 9, .cached_tokens = 7}});
  EXPECT_EQ(HeaderOf(answer->response.value().headers, "x-roost-cached-tokens"), "7");
}

TEST_F(PassThroughTest, ImagesGoToAnEngineThatHasTheRoute) {
  const std::string image = R"("messages":[{"role":"user","content":[{"type":"text","text":"what is it?"},)"
                            R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}])";
  Chat(R"({"model":"bytes",)" + image + "}");
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  EXPECT_EQ(dispatcher_.forwards[0].model->name, "bytes");
  Chat(R"({"model":"bytes","messages":[{"role":"user","content":"text"}]})");
  EXPECT_EQ(dispatcher_.forwards.size(), 1U) << "texts are read here";
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
  Serve(ByteModel());
  const auto answer = Chat(R"({"model":"bytes",)" + image + "}");
  EXPECT_EQ(answer->response.value().status, 400) << "own workers see no images";
}

TEST_F(PassThroughTest, OperatorsCanNotNamePromptsOfAModelWithoutAText) {
  const auto answer = Ask("POST", "/admin/v1/match", R"({"model":"strange","prompt":"hi"})");
  EXPECT_EQ(answer->response.value().status, 400);
  EXPECT_THAT(ErrorOf(*answer), HasSubstr("tokenizer"));
}

TEST_F(PassThroughTest, PathsOfTheFlagAreRoutesToo) {
  Api api(dispatcher_, observer_, clock_, text_, {.pass_through = {"/v1/audio/translations"}});
  dispatcher_.models = {std::make_shared<const ServedModel>(Engine("whisper", {"/v1/audio/translations"}))};
  const auto ask = [&](Api& asked, std::string path) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"Content-Type", "application/json"}};
    request.body = std::string("{}");
    auto responder = std::make_shared<FakeResponder>();
    asked.Handle(Listener::kApi, std::move(request), responder);
    return responder;
  };
  EXPECT_THAT(ErrorOf(*ask(api_, "/v1/audio/translations")), HasSubstr("--pass-through"));
  const auto answer = ask(api, "/v1/audio/translations");
  ASSERT_EQ(dispatcher_.forwards.size(), 1U);
  Piece({.head = ForwardHead{200, "application/json", "w1"}, .is_last = true});
  EXPECT_EQ(observer_.answers.back(), "pass_through 200");
  HttpRequest document;
  document.method = "GET";
  document.path = "/openapi.json";
  const auto told = std::make_shared<FakeResponder>();
  api.Handle(Listener::kApi, std::move(document), told);
  for (const char* const path : {"~1v1~1audio~1translations", "~1v1~1embeddings", "~1rerank"}) {
    EXPECT_NE(At(told->response.value().body, std::string("/paths/") + path + "/post/responses/default"), "") << path;
  }
}

}  // namespace
}  // namespace roost::router
