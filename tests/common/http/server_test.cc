#include "common/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/common/http/raw_client.h"
#include "tests/common/http/server_fixture.h"

namespace roost {
namespace {

INSTANTIATE_TEST_SUITE_P(Wires, HttpServerTest, ::testing::Values(Wire::kPlain, Wire::kTls),
                         [](const auto& wire) { return std::string(wire.param == Wire::kPlain ? "Plain" : "Tls"); });

TEST_P(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  Serve(Echo);
  RawClient client = Connect();
  for (int i = 0; i < 3; ++i) {
    client.Write("POST /a?b=c?d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /a?b=c?d hi");
    EXPECT_EQ(response.Header("connection"), "keep-alive");
    EXPECT_EQ(response.Header("content-type"), "text/plain");
  }
}

TEST_P(HttpServerTest, AnswersPipelinedRequestsInOrderOneAtATime) {
  ServeByHand();
  RawClient client = Connect();
  client.Write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx\r\n" +
               std::string("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n"));
  for (const char* path : {"/1", "/2", "/3"}) {
    const Mailbox::Item item = mailbox_.Take();
    EXPECT_EQ(item.request.path, path);
    item.responder->Post([responder = item.responder, path] { responder->Respond(Text(path)); });
    EXPECT_EQ(client.ReadResponse().body, path);
  }
}

// Larger than the kernel's buffers, so that each is written in many turns.
std::string LargeBody(std::size_t number) {
  std::string body(std::size_t{16} << 20U, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>((i + number) * 2'654'435'761U >> 24U);
  return body;
}

TEST_P(HttpServerTest, WritesLargeAnswersOfPipelinedRequestsInOrder) {
  Serve([](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(LargeBody(request.path.size())));
  });
  RawClient client = Connect();
  client.Write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /22 HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const std::size_t size : {2U, 3U}) EXPECT_TRUE(client.ReadResponse().body == LargeBody(size));
}

TEST_P(HttpServerTest, AClientThatLeavesInTheMiddleOfALargeAnswerHarmsNoOther) {
  Serve(
      [](const HttpRequest&, const std::shared_ptr<Responder>& responder) { responder->Respond(Text(LargeBody(0))); });
  for (const std::size_t read : {1U, 100'000U, 1'000'000U}) {
    RawClient leaver = Connect();
    leaver.Write(kGet);
    EXPECT_TRUE(leaver.ReadExactly(read).has_value());
    leaver.Close();
  }
  RawClient client = Connect();
  client.Write(kGet);
  EXPECT_TRUE(client.ReadResponse().body == LargeBody(0));
}

TEST_P(HttpServerTest, AnswersARequestThatArrivesByteByByte) {
  Serve(Echo);
  RawClient client = Connect();
  for (const char byte : std::string("\r\nPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                     "3;e=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n")) {
    client.Write(std::string_view(&byte, 1));
  }
  EXPECT_EQ(client.ReadResponse().body, "POST /? abcde");
}

TEST_P(HttpServerTest, AnswersHeadWithoutABody) {
  Serve(Echo);
  RawClient client = Connect();
  client.Write("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  const RawResponse response = client.ReadResponse(RawClient::Body::kNone);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("content-length"), std::to_string(std::string("HEAD /x? ").size()));
  client.Write(kGet);
  EXPECT_EQ(client.ReadResponse().body, "GET /x? ");
}

TEST_P(HttpServerTest, TakesThePathOfAUrlAndItsHost) {
  Serve([](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(request.path + "?" + request.query + " " + std::string(*request.FindHeader("host"))));
  });
  EXPECT_EQ(Ask("GET http://a.example:80/x?y HTTP/1.1\r\nHost: b\r\n\r\n").body, "/x?y a.example:80");
  EXPECT_EQ(Ask("GET https://a.example HTTP/1.1\r\nHost: b\r\n\r\n").body, "/? a.example");
}

TEST_P(HttpServerTest, ClosesWhenTheClientWantsItTo) {
  Serve(Echo);
  for (const char* request : {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"}) {
    RawClient client = Connect();
    client.Write(request);
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.Header("connection"), "close");
    EXPECT_TRUE(client.AtEnd());
  }
}

TEST_P(HttpServerTest, InvitesABodyThatWaitsForIt) {
  Serve(Echo);
  RawClient client = Connect();
  client.Write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Write("hi");
  EXPECT_EQ(client.ReadResponse().body, "POST /? hi");
}

TEST_P(HttpServerTest, RefusesByTheHeadWithoutReadingTheBody) {
  options_.check_head = [](const HttpRequest& head) -> HeadVerdict {
    if (head.FindHeader("authorization")) return {};
    HttpResponse refusal = Text("no key for " + head.method + " " + head.path);
    refusal.status = 401;
    return {.refusal = std::move(refusal)};
  };
  options_.input_budget = std::make_shared<ByteBudget>(std::size_t{1} << 20);
  Serve(Echo);
  const std::string post =
      "POST /p HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nExpect: 100-continue\r\nContent-Length: 2\r\n";
  RawClient refused = Connect();
  refused.Write(post + "\r\n");
  const auto answer = refused.ReadResponse();  // no 100 Continue before it
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.body, "no key for POST /p");
  EXPECT_EQ(answer.Header("x-request-id"), "mine");
  EXPECT_EQ(answer.Header("connection"), "close");
  EXPECT_TRUE(refused.AtEnd());
  RawClient accepted = Connect();
  accepted.Write(post + "Authorization: x\r\n\r\n");
  EXPECT_EQ(accepted.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  accepted.Write("hi");
  EXPECT_EQ(accepted.ReadResponse().body, "POST /p? hi");
}

// Whether the body comes with the head or not, the head is judged first, and once.
TEST_P(HttpServerTest, JudgesEachHeadOnceAndHandsItsTicketOn) {
  std::atomic<int> judged = 0;
  options_.check_head = [&](const HttpRequest& head) -> HeadVerdict {
    ++judged;
    if (head.path == "/no") return {.refusal = ErrorResponse({ErrorCode::kNotFound, "no", ""})};
    return {.ticket = std::make_shared<std::string>("ticket of " + head.path)};
  };
  Serve([](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(*std::static_pointer_cast<std::string>(request.ticket)));
  });
  RawClient client = Connect();
  client.Write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.ReadResponse().body, "ticket of /a");
  client.Write("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "ticket of /b");
  // While no body is left unread the connection stays.
  client.Write("GET /no HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().status, 404);
  client.Write("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.ReadResponse().status, 404);
  client.Write("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh");
  EXPECT_EQ(client.ReadResponse().status, 404);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(judged, 5);
}

TEST_P(HttpServerTest, EchoesAGoodRequestIdAndReplacesABadOne) {
  Serve(Echo);
  const auto id_for = [&](const std::string& sent) {
    return Ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: " + sent + "\r\n\r\n").Header("x-request-id");
  };
  EXPECT_EQ(id_for("a.B_c:1-2"), "a.B_c:1-2");
  EXPECT_EQ(id_for("has space").substr(0, 4), "req-");
  EXPECT_EQ(id_for(std::string(129, 'a')).substr(0, 4), "req-");
  EXPECT_NE(Ask(kGet).Header("x-request-id"), Ask(kGet).Header("x-request-id"));
  const auto answer = Ask(kGet);
  EXPECT_EQ(answer.Header("request-id"), answer.Header("x-request-id"));
}

TEST_P(HttpServerTest, HeaderValuesOfAnswersCanNotEndTheirLine) {
  Serve([](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    HttpResponse response = Text("");
    response.headers.push_back({"x-roost-worker", "a\r\nSet-Cookie: b"});
    responder->Respond(std::move(response));
  });
  EXPECT_EQ(Ask(kGet).Header("x-roost-worker"), "a__Set-Cookie: b");
}

// ---- bad requests ----

struct BadRequest {
  std::string bytes;
  int status;
};

TEST_P(HttpServerTest, RefusesBadRequestsWithAnOpenAiErrorAndCloses) {
  options_.header_bytes = 1024;
  options_.body_bytes = 2048;
  std::atomic<int> refused = 0;
  options_.on_refused = [&](const Error&) { ++refused; };
  Serve(Echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::vector<BadRequest> cases = {
      {"\x16\x03\x01 this is TLS\r\n\r\n", 400},
      {"GET / HTTP/1.1\n\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: identity\r\n\r\n", 400},
      {post + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400},
      {post + "X: a\r\n b\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'e'), 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nT: " + std::string(2000, 't'), 400},
      {"GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
      {post + "X: " + std::string(2000, 'a') + "\r\n\r\n", 431},
      {"GET /" + std::string(2000, 'a'), 431},
      {post + "Content-Length: 2049\r\n\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n801\r\n" + std::string(0x801, 'a') + "\r\n0\r\n\r\n", 413},
      {post + "Content-Length: 4000000\r\n\r\n" + std::string(4'000'000, 'a'), 413},
  };
  for (const BadRequest& bad : cases) {
    RawClient client = Connect();
    client.Write(bad.bytes);
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, bad.status) << bad.bytes.substr(0, 100);
    EXPECT_EQ(response.body.rfind("{\"error\":{\"message\":\"", 0), 0U) << response.body;
    EXPECT_NE(response.body.find("\"type\":\"invalid_request_error\""), std::string::npos) << response.body;
    EXPECT_EQ(response.Header("connection"), "close");
    EXPECT_TRUE(client.AtEnd()) << bad.bytes.substr(0, 100);
  }
  EXPECT_EQ(refused, static_cast<int>(cases.size()));
}

TEST_P(HttpServerTest, AcceptsABodyOfExactlyTheLimit) {
  options_.body_bytes = 2048;
  Serve(Echo);
  const std::string body(2048, 'b');
  EXPECT_EQ(Ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2048\r\n\r\n" + body).body, "POST /? " + body);
  EXPECT_EQ(
      Ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + body + "\r\n0\r\n\r\n").body,
      "POST /? " + body);
}

TEST_P(HttpServerTest, AnswersASlowHeadAndASlowBodyWithATimeout) {
  options_.header_timeout = Soon();
  options_.body_timeout = Soon();
  Serve(Echo);
  for (const char* part : {"GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"}) {
    RawClient client = Connect();
    client.Write(part);
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 408);
    EXPECT_NE(response.body.find("request_timeout"), std::string::npos);
    EXPECT_TRUE(client.AtEnd());
  }
}

TEST_P(HttpServerTest, ClosesIdleConnectionsWithoutAWord) {
  options_.idle_timeout = Soon();
  Serve(Echo);
  RawClient silent = Connect();
  EXPECT_TRUE(silent.AtEnd());
  RawClient once = Connect();
  once.Write(kGet);
  EXPECT_EQ(once.ReadResponse().status, 200);
  EXPECT_TRUE(once.AtEnd());
}

TEST_F(PlainHttpServerTest, StartNamesWhatCanNotBeBound) {
  options_.address = "not an address";
  EXPECT_EQ(HttpServer::Start(options_, Echo).error().field, "address");
  options_.address = "127.0.0.1";
  Serve(Echo);
  options_.port = server_->port();
  const auto taken = HttpServer::Start(options_, Echo);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().field, "port");
}

}  // namespace
}  // namespace roost
