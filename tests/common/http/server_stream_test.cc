// Streams, clients that leave or do not read, and a server that stops meanwhile. server_test.cc names the wires over
// which HttpServerTest runs.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/deferred_wakes.h"
#include "tests/common/http/raw_client.h"
#include "tests/common/http/server_fixture.h"

namespace roost {
namespace {

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

// ---- bytes ----

TEST_P(HttpServerTest, BytesHaveAnyStatusAndTypeAndTellWhatHasLeft) {
  std::atomic<std::size_t> written = 0;
  ServeByHand();
  RawClient client = Connect();
  for (int turn = 0; turn < 2; ++turn) {  // on one connection
    client.Write(kGet);
    const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
    responder->Post([&, responder] {
      responder->BeginBytes({.status = 206,
                             .content_type = "audio/wav",
                             .headers = {{"x-roost-worker", "w1"}},
                             .on_written = [&](std::size_t bytes) { written += bytes; }});
      responder->Send("RIFF");
    });
    EXPECT_NE(client.ReadUntil("RIFF\r\n").value().find("HTTP/1.1 206 "), std::string::npos);
    responder->Post([responder] {
      responder->Send("more");
      responder->End();
    });
    EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "4\r\nmore\r\n0\r\n\r\n");
  }
  // The callback of a write comes after its bytes.
  client.Write(kGet);
  const std::shared_ptr<Responder> last = mailbox_.Take().responder;
  last->Post([last] { last->Respond(Text("next")); });
  EXPECT_EQ(client.ReadResponse().body, "next");
  EXPECT_EQ(written, 16U);
}

TEST_P(HttpServerTest, AClientThatReadsBytesSlowlyIsNotCutOff) {
  options_.stream_buffer_bytes = 1024;
  std::atomic<std::size_t> written = 0;
  ServeByHand();
  RawClient client = Connect(4096);
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  constexpr int kPieces = 40;
  const std::string piece(100'000, 'x');
  responder->Post([&, responder] {
    responder->BeginBytes({.content_type = "text/plain", .on_written = [&](std::size_t bytes) { written += bytes; }});
  });
  for (int i = 0; i < kPieces; ++i) responder->Post([=] { responder->Send(piece); });
  responder->Post([=] { responder->End(); });
  const RawResponse response = client.ReadResponse();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body.size(), kPieces * piece.size());
  EXPECT_EQ(response.Header("content-type"), "text/plain");
}

TEST_P(HttpServerTest, BytesThatFailAreCutOff) {
  ServeByHand();
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  std::promise<FailureShape> shape;
  responder->Post([&, responder] {
    responder->BeginBytes({.content_type = "text/plain", .on_written = [](std::size_t) {}});
    responder->Send("half");
  });
  EXPECT_TRUE(client.ReadUntil("half\r\n").has_value());
  responder->Post([&, responder] { shape.set_value(responder->Fail(Text("no"), "frames")); });
  EXPECT_EQ(shape.get_future().get(), FailureShape::kFrames);
  EXPECT_EQ(client.ReadToEnd(), "");
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

TEST_P(HttpServerTest, WhatIsPostedTogetherLeavesInOneWrite) {
  ServeByHand([](Responder& responder) { responder.PrepareStream({}); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  responder->Post([=] { responder->Send("data: 1\n\n"); });
  EXPECT_TRUE(client.ReadUntil("data: 1\n\n\r\n").has_value());
  std::promise<bool> left_early;
  {
    const DeferredWakes wakes;
    responder->Post([=] { responder->Send("data: 2\n\n"); });
    responder->Post([&] {
      left_early.set_value(client.HasInput());
      responder->Send("data: 3\n\n");
    });
  }
  EXPECT_FALSE(left_early.get_future().get());
  EXPECT_TRUE(client.ReadUntil("data: 3\n\n\r\n").has_value());
}

TEST_P(HttpServerTest, AnotherThreadsPostDoesNotWaitForADeferredWake) {
  ServeByHand([](Responder& responder) { responder.PrepareStream({}); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  const DeferredWakes wakes;
  responder->Post([=] { responder->Send("data: 1\n\n"); });
  std::thread([=] { responder->Post([=] { responder->End(); }); }).join();
  const RawResponse response = client.ReadResponse();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "data: 1\n\n");
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
