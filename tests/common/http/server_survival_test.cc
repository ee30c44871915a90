// Events that must not stop the server: connections over its limit, and handlers whose libraries fail.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/deferred_wakes.h"
#include "tests/common/http/raw_client.h"
#include "tests/common/http/server_fixture.h"

namespace roost {
namespace {

// Throws as a library does.
template <typename Exception>
[[noreturn]] void Raise(Exception exception) {
  std::rethrow_exception(std::make_exception_ptr(std::move(exception)));
}

TEST_F(PlainHttpServerTest, RefusesOneConnectionTooMany) {
  options_.max_connections = 1;
  ServeByHand();
  RawClient first = Connect();
  first.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  RawClient second = Connect();
  const RawResponse refused = second.ReadResponse();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.Header("retry-after"), "1");
  EXPECT_NE(refused.body.find("rate_limit_error"), std::string::npos);
  item.responder->Post([responder = item.responder] { responder->Respond(Text("ok")); });
  EXPECT_EQ(first.ReadResponse().body, "ok");
}

// Strangers who say nothing, who begin a head, and who were answered: none keeps another out, on any thread.
TEST_P(HttpServerTest, ANewConnectionTakesThePlaceOfTheOneThatWaitsLongest) {
  options_.max_connections = 4;
  options_.thread_count = 2;
  Serve(Echo);
  RawClient answered = Connect();
  answered.Write(kGet);
  EXPECT_EQ(answered.ReadResponse().status, 200);
  RawClient silent = Connect();
  RawClient slow = Connect();
  slow.Write("GET /x HTTP/1.1\r\nHos");
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 20; ++i) {
    RawClient probe = Connect();
    probe.Write(kGet);
    EXPECT_EQ(probe.ReadResponse().status, 200) << i;
    strangers.push_back(std::make_unique<RawClient>(server_->port(), 0, client_context_.get()));
  }
  EXPECT_TRUE(answered.AtEnd());
  EXPECT_TRUE(silent.AtEnd());
  EXPECT_TRUE(slow.AtEnd());
  EXPECT_LE(server_->connection_count(), options_.max_connections + 1);  // one may still be closing
}

// Takes all descriptors of this process but one, and gives them back at its end.
class OneDescriptorLeft {
 public:
  OneDescriptorLeft() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int highest = dup(STDERR_FILENO);
    const rlimit scarce{.rlim_cur = static_cast<rlim_t>(highest) + 1, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &scarce), 0);
    taken_.push_back(highest);
    for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) taken_.push_back(fd);
    close(taken_.front());
    taken_.erase(taken_.begin());
  }
  OneDescriptorLeft(const OneDescriptorLeft&) = delete;
  OneDescriptorLeft& operator=(const OneDescriptorLeft&) = delete;
  ~OneDescriptorLeft() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

// The sanitizer of undefined behaviour looks at objects through a pipe, for which no descriptor is left.
#ifdef __has_feature
constexpr bool kLooksThroughPipes = __has_feature(undefined_behavior_sanitizer);
#else
constexpr bool kLooksThroughPipes = false;
#endif

TEST_F(PlainHttpServerTest, WithoutDescriptorsTheConnectionThatWaitsLongestGoes) {
  if (kLooksThroughPipes) GTEST_SKIP() << "under this sanitizer";
  options_.thread_count = 2;
  Serve(Echo);
  RawClient oldest = Connect();
  oldest.Write(kGet);
  EXPECT_EQ(oldest.ReadResponse().status, 200);
  RawClient younger = Connect();
  younger.Write(kGet);
  EXPECT_EQ(younger.ReadResponse().status, 200);
  const OneDescriptorLeft scarcity;
  RawClient newcomer = Connect();  // has the last one: the server has none to accept it with
  for (int i = 0; i < 3; ++i) {    // the queue is empty now: it keeps its place
    newcomer.Write(kGet);
    EXPECT_EQ(newcomer.ReadResponse().status, 200) << i;
  }
}

TEST_F(PlainHttpServerTest, ARequestThatIsReadOrAnsweredKeepsItsPlace) {
  options_.max_connections = 2;
  ServeByHand();
  RawClient asks = Connect();
  asks.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  RawClient sends = Connect();
  sends.Write("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(sends.ReadUntil("\r\n\r\n"));
  EXPECT_EQ(Connect().ReadResponse().status, 429);
  item.responder->Post([responder = item.responder] { responder->Respond(Text("ok")); });
  EXPECT_EQ(asks.ReadResponse().body, "ok");
  sends.Write("hi");
  const Mailbox::Item sent = mailbox_.Take();
  sent.responder->Post([responder = sent.responder] { responder->Respond(Text("taken")); });
  EXPECT_EQ(sends.ReadResponse().body, "taken");
}

// More than the kernel keeps for a client that does not read.
TEST_F(PlainHttpServerTest, AnAnswerThatNobodyReadsKeepsNobodyOut) {
  options_.max_connections = 1;
  Serve([](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(std::string(request.path == "/large" ? 32'000'000 : 2, 'x')));
  });
  RawClient unread = Connect(4096);
  unread.Write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(unread.ReadUntil("\r\n\r\n"));
  int status = 0;
  while (status != 200 && !HasFailure()) {
    RawClient probe = Connect();
    probe.Write(kGet);
    status = probe.ReadResponse().status;
    EXPECT_TRUE(status == 200 || status == 429) << status;  // a client has a second to read
  }
}

// Its request is still arriving when the answer is written: if the server closed at once, it would reset the
// connection.
TEST_F(PlainHttpServerTest, OneConnectionTooManyReadsItsAnswerWhateverItSends) {
  options_.max_connections = 1;
  options_.linger_timeout = kPatience;
  std::atomic<int> refused = 0;
  options_.on_refused = [&](const Error&) { ++refused; };
  ServeByHand();
  RawClient first = Connect();
  first.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  RawClient second = Connect();
  const std::string body(4'000'000, 'a');
  EXPECT_TRUE(second.Write("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n" + body));
  const RawResponse answer = second.ReadResponse();
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.complete);
  EXPECT_TRUE(second.AtEnd());
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(server_->connection_count(), 1U);
}

TEST_F(PlainHttpServerTest, ConnectionsTooManyDoNotLingerForEver) {
  options_.max_connections = 1;
  options_.linger_timeout = milliseconds(20);
  ServeByHand();
  RawClient first = Connect();
  first.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  RawClient second = Connect();
  EXPECT_EQ(second.ReadResponse().status, 429);
  // The client stays connected; the server closes, and then resets what still arrives.
  while (second.Write("x")) std::this_thread::yield();
}

TEST_F(PlainHttpServerTest, ALoopThatStandsStillIsSeen) {
  options_.thread_count = 2;
  std::promise<void> entered;
  std::promise<void> go_on;
  Serve([&](HttpRequest request, const std::shared_ptr<Responder>& responder) {
    entered.set_value();
    go_on.get_future().wait();
    Echo(std::move(request), responder);
  });
  while (!server_->LoopsTurn()) std::this_thread::yield();
  RawClient client = Connect();
  client.Write(kGet);
  entered.get_future().wait();
  (void)server_->LoopsTurn();  // the turn that it was asked for before
  EXPECT_FALSE(server_->LoopsTurn());
  EXPECT_FALSE(server_->LoopsTurn());
  go_on.set_value();
  EXPECT_EQ(client.ReadResponse().status, 200);
  while (!server_->LoopsTurn()) std::this_thread::yield();
}

TEST_P(HttpServerTest, AHandlerThatThrowsEndsItsConnectionOnly) {
  Serve([](HttpRequest request, const std::shared_ptr<Responder>& responder) {
    if (request.path == "/bad_alloc") Raise(std::bad_alloc());
    if (request.path == "/int") Raise(7);
    if (request.path == "/after_headers") {
      responder->PrepareStream({});
      Raise(std::runtime_error("after the headers"));
    }
    if (request.path == "/mid_stream") {
      responder->Send("data: 1\n\n");
      Raise(std::runtime_error("in the stream"));
    }
    Echo(std::move(request), responder);
  });
  RawClient other = Connect();
  for (const char* path : {"/bad_alloc", "/int", "/after_headers"}) {
    RawClient client = Connect();
    client.Write(std::string("GET ") + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 500) << path;
    EXPECT_NE(response.body.find("server_error"), std::string::npos) << path;
    EXPECT_EQ(response.Header("connection"), "close");
    EXPECT_TRUE(client.AtEnd());
  }
  EXPECT_FALSE(Ask("GET /mid_stream HTTP/1.1\r\nHost: a\r\n\r\n").complete);
  other.Write(kGet);
  EXPECT_EQ(other.ReadResponse().status, 200);
}

// A function that throws ends its own connection, and no other one.
TEST_P(HttpServerTest, AnExceptionAmongPostedFunctionsEndsItsOwnConnection) {
  ServeByHand([](Responder&) {});
  RawClient bad = Connect();
  bad.Write(kGet);
  const std::shared_ptr<Responder> throws = mailbox_.Take().responder;
  RawClient good = Connect();
  good.Write(kGet);
  const std::shared_ptr<Responder> answers = mailbox_.Take().responder;
  {
    const DeferredWakes wakes;
    throws->Post([] { Raise(std::runtime_error("no")); });
    answers->Post([=] { answers->Respond(Text("yes")); });
  }
  EXPECT_EQ(bad.ReadResponse().status, 500);
  EXPECT_EQ(good.ReadResponse().body, "yes");
}

TEST_P(HttpServerTest, APostedFunctionThatThrowsEndsItsConnectionAndTellsItsOwner) {
  std::promise<void> closed;
  ServeByHand([&](Responder& responder) { responder.OnClosed([&] { closed.set_value(); }); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  responder->Post([] { Raise(std::bad_alloc()); });
  EXPECT_EQ(client.ReadResponse().status, 500);
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
  client.Close();
  // The connection is gone, but the loop continues.
  while (server_->connection_count() > 0) std::this_thread::yield();
  responder->Post([] { Raise(std::runtime_error("nobody is there")); });
  RawClient next = Connect();
  next.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  item.responder->Post([responder = item.responder] { responder->Respond(Text("ok")); });
  EXPECT_EQ(next.ReadResponse().body, "ok");
}

}  // namespace
}  // namespace roost
