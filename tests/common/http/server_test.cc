#include "common/http/server.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
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
  options_.check_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.FindHeader("authorization")) return std::nullopt;
    HttpResponse refusal = Text("no key for " + head.method + " " + head.path);
    refusal.status = 401;
    return refusal;
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

// ---- streams ----

TEST_P(HttpServerTest, StreamsFramesAsTheyCome) {
  ServeByHand([](Responder& responder) { responder.PrepareStream({{"x-roost-worker", "w1"}}); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  responder->Post([=] { responder->Send("data: 1\n\n"); });
  const std::string head = client.ReadUntil("\r\n\r\n").value();
  EXPECT_NE(head.find("Content-Type: text/event-stream; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(head.find("Cache-Control: no-cache\r\n"), std::string::npos);
  EXPECT_NE(head.find("X-Accel-Buffering: no\r\n"), std::string::npos);
  EXPECT_NE(head.find("x-roost-worker: w1\r\n"), std::string::npos);
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  responder->Post([=] {
    responder->Send("data: 2\n\n");
    responder->End();
    responder->Send("data: after the end\n\n");
  });
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  client.Write(kGet);
  const std::shared_ptr<Responder> next = mailbox_.Take().responder;
  next->Post([=] { next->Respond(Text("next")); });
  EXPECT_EQ(client.ReadResponse().body, "next");
}

TEST_P(HttpServerTest, FramesOfOneFunctionLeaveInOneWrite) {
  ServeByHand([](Responder& responder) { responder.PrepareStream({}); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  responder->Post([=] { responder->Send("data: 1\n\n"); });
  EXPECT_TRUE(client.ReadUntil("data: 1\n\n\r\n").has_value());
  std::promise<bool> left_early;
  responder->Post([&] {
    responder->Send("data: 2\n\n");
    left_early.set_value(client.HasInput());
    responder->Send("data: 3\n\n");
  });
  EXPECT_FALSE(left_early.get_future().get());
  EXPECT_TRUE(client.ReadUntil("data: 3\n\n\r\n").has_value());
}

TEST_P(HttpServerTest, StreamsToHttp10UntilTheConnectionCloses) {
  Serve([](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->Send("data: 1\n\n");
    responder->End();
  });
  RawClient client = Connect();
  client.Write("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const RawResponse response = client.ReadResponse();
  EXPECT_EQ(response.Header("connection"), "close");
  EXPECT_EQ(response.Header("transfer-encoding"), "");
  EXPECT_EQ(response.body, "data: 1\n\n");
}

TEST_P(HttpServerTest, BreaksTheSilenceOfAStreamWithComments) {
  options_.keep_alive_interval = milliseconds(10);
  ServeByHand([](Responder& responder) { responder.PrepareStream({}); });
  RawClient client = Connect();
  client.Write(kGet);
  EXPECT_TRUE(client.ReadUntil("8\r\n: ping\n\n\r\n8\r\n: ping\n\n\r\n").has_value());
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  std::promise<FailureShape> shape;
  responder->Post([&] { shape.set_value(responder->Fail(Text("too late for a status"), "data: error\n\n")); });
  EXPECT_EQ(shape.get_future().get(), FailureShape::kFrames);
  const std::string rest = client.ReadUntil("0\r\n\r\n").value();
  EXPECT_NE(rest.find("data: error\n\n"), std::string::npos);
}

TEST_P(HttpServerTest, FailureBeforeTheFirstFrameKeepsItsStatus) {
  Serve([](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->PrepareStream({});
    const Error gone{ErrorCode::kUnavailable, "gone", ""};
    EXPECT_EQ(responder->Fail(ErrorResponse(gone), "data: unused\n\n"), FailureShape::kResponse);
  });
  const RawResponse response = Ask(kGet);
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find("\"message\":\"gone\""), std::string::npos);
}

TEST_P(HttpServerTest, DroppedRequestsAnswer500OrAreCut) {
  ServeByHand();
  RawClient whole = Connect();
  whole.Write(kGet);
  mailbox_.Take();
  EXPECT_EQ(whole.ReadResponse().status, 500);

  RawClient stream = Connect();
  stream.Write(kGet);
  {
    const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
    responder->Post([=] { responder->Send("data: 1\n\n"); });
  }
  const RawResponse cut = stream.ReadResponse();
  EXPECT_EQ(cut.status, 200);
  EXPECT_FALSE(cut.complete);
}

// ---- clients that go away ----

TEST_P(HttpServerTest, TellsWhenTheClientLeavesBeforeTheFirstByte) {
  std::promise<void> closed;
  ServeByHand([&](Responder& responder) { responder.OnClosed([&] { closed.set_value(); }); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  client.Close();
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
  std::promise<void> done;
  responder->Post([&] {
    responder->Respond(Text("nobody listens"));
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_P(HttpServerTest, TellsWhenTheClientLeavesMidStream) {
  std::promise<void> closed;
  ServeByHand([&](Responder& responder) {
    responder.OnClosed([&] { closed.set_value(); });
    responder.Send("data: 1\n\n");
  });
  RawClient client = Connect();
  client.Write(kGet);
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  const Mailbox::Item item = mailbox_.Take();
  client.Close();
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_P(HttpServerTest, NeverTellsOfALeaveAfterTheEnd) {
  std::atomic<bool> told = false;
  Serve([&](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->OnClosed([&] { told = true; });
    responder->Respond(Text("ok"));
  });
  {
    RawClient client = Connect();
    client.Write(kGet);
    EXPECT_EQ(client.ReadResponse().body, "ok");
  }
  server_->Stop(kPatience);
  EXPECT_FALSE(told);
}

TEST_P(HttpServerTest, CutsAClientThatDoesNotRead) {
  options_.stream_buffer_bytes = 16 * 1024;
  std::atomic<bool> closed = false;
  ServeByHand([&](Responder& responder) { responder.OnClosed([&] { closed = true; }); });
  RawClient client = Connect(4096);
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  const std::string frame = "data: " + std::string(1000, 'x') + "\n\n";
  // More than the socket buffers of any kernel hold.
  constexpr int kMaxFrames = 100'000;
  int sent = 0;
  for (; sent < kMaxFrames && !closed; ++sent) {
    std::promise<void> taken;
    responder->Post([&] {
      responder->Send(frame);
      taken.set_value();
    });
    taken.get_future().wait();
  }
  EXPECT_LT(sent, kMaxFrames);
  EXPECT_FALSE(client.ReadResponse().complete);
}

TEST_P(HttpServerTest, CutsAClientThatTakesTooLongForOneWrite) {
  options_.write_timeout = milliseconds(50);
  std::promise<void> closed;
  Serve([&](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(std::string(64'000'000, 'x')));
  });
  RawClient client = Connect(4096);
  client.Write(kGet);
  ASSERT_TRUE(client.ReadUntil("\r\n\r\n").has_value());
  server_->Stop(kPatience);  // returns when the connection is gone
  EXPECT_LT(client.ReadToEnd().size(), 64'000'000U);
}

TEST_P(HttpServerTest, KeepsTwoHundredStreamsInOrder) {
  constexpr int kStreams = 200;
  constexpr int kFrames = 50;
  options_.thread_count = 2;
  ServeByHand();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::unique_ptr<RawClient>(new RawClient(Connect())));
    clients.back()->Write("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  std::vector<Mailbox::Item> items;
  for (int i = 0; i < kStreams; ++i) items.push_back(mailbox_.Take());
  for (int frame = 0; frame < kFrames; ++frame) {
    for (const Mailbox::Item& item : items) {
      item.responder->Post([responder = item.responder, path = item.request.path, frame] {
        responder->Send("data: " + path + " " + std::to_string(frame) + "\n\n");
        if (frame + 1 == kFrames) responder->End();
      });
    }
  }
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int frame = 0; frame < kFrames; ++frame) {
      expected += "data: /" + std::to_string(i) + " " + std::to_string(frame) + "\n\n";
    }
    const RawResponse response = clients[static_cast<std::size_t>(i)]->ReadResponse();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body, expected);
  }
}

// ---- stopping ----

TEST_P(HttpServerTest, SaysThatAnAnswerIsTheLastOfItsConnectionOnceItCloses) {
  Serve([](const HttpRequest&, const std::shared_ptr<Responder>& responder) { responder->Respond(Text("ok")); });
  RawClient client = Connect();
  client.Write(kGet);
  EXPECT_EQ(client.ReadResponse().Header("connection"), "keep-alive");
  server_->CloseAfterAnswers();
  client.Write(kGet);
  EXPECT_EQ(client.ReadResponse().Header("connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  RawClient later = Connect();
  later.Write(kGet);
  EXPECT_EQ(later.ReadResponse().body, "ok");
}

TEST_P(HttpServerTest, StopServesOneMoreRequestWhereAnOpenStreamHadPromisedIt) {
  ServeByHand([](Responder& responder) { responder.Send("data: 1\n\n"); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> first = mailbox_.Take().responder;
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  RawClient idle = Connect();
  std::thread stopper([&] { server_->Stop(kPatience); });
  EXPECT_TRUE(idle.AtEnd());
  first->Post([=] { first->End(); });
  client.Write(kGet);
  const std::shared_ptr<Responder> second = mailbox_.Take().responder;
  second->Post([=] { second->End(); });
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  client.ReadToEnd();
  client.Close();
  stopper.join();
}

TEST_P(HttpServerTest, StopLetsOpenStreamsEndAndClosesIdleConnections) {
  options_.linger_timeout = milliseconds(50);
  ServeByHand([](Responder& responder) { responder.Send("data: 1\n\n"); });
  RawClient idle = Connect();
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  const std::uint16_t port = server_->port();
  std::thread stopper([&] { server_->Stop(kPatience); });
  EXPECT_TRUE(idle.AtEnd());
  responder->Post([=] {
    responder->Send("data: 2\n\n");
    responder->End();
  });
  const RawResponse response = client.ReadResponse();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_TRUE(client.AtEnd());
  client.Close();
  stopper.join();
  EXPECT_FALSE(RawClient(port).connected());
}

TEST_P(HttpServerTest, StopResetsWhatDoesNotEndInTime) {
  std::promise<void> closed;
  ServeByHand([&](Responder& responder) {
    responder.OnClosed([&] { closed.set_value(); });
    responder.Send("data: 1\n\n");
  });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  server_->Stop(milliseconds(1));
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(client.ReadResponse().complete);
  server_.reset();
  responder->Post([] { FAIL() << "the server is gone"; });
}

}  // namespace
}  // namespace roost
