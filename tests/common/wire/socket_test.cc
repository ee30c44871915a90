#include "common/wire/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "tests/support/loopback_socket.h"
#include "tests/support/sanitized.h"

namespace roost::wire {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};

Bytes ToBytes(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

class SocketTest : public ::testing::Test {
 protected:
  RouterSocket Bind() {
    auto bound = RouterSocket::Bind(context_, "tcp://127.0.0.1:0", InsecureBind::kRefuse);
    EXPECT_TRUE(bound.ok());
    return std::move(bound).value();
  }

  DealerSocket Connect(const RouterSocket& router) {
    auto connected = DealerSocket::Connect(context_, router.endpoint());
    EXPECT_TRUE(connected.ok());
    return std::move(connected).value();
  }

  // Waits on `sockets` until `done`, or until the test's patience ends.
  bool WaitUntil(std::initializer_list<const Socket*> sockets, const std::function<bool()>& done) {
    const auto deadline = steady_clock::now() + kPatience;
    while (steady_clock::now() < deadline) {
      if (done()) return true;
      WaitForMessages(sockets, waker_, std::chrono::milliseconds(5));
    }
    return false;
  }

  // Sends as soon as there is a connection.
  void SendFirst(DealerSocket& dealer, std::string_view text) {
    ASSERT_TRUE(WaitUntil({&dealer}, [&] { return dealer.Send(ToBytes(text)) == SendOutcome::kSent; }));
  }

  Received ReceiveOne(RouterSocket& router) {
    std::optional<Received> received;
    EXPECT_TRUE(WaitUntil({&router}, [&] { return (received = router.TryReceive()).has_value(); }));
    return received.value_or(Received{});
  }

  Context context_;
  Waker waker_;
};

TEST_F(SocketTest, CarriesFramesBothWays) {
  RouterSocket router = Bind();
  DealerSocket dealer = Connect(router);
  SendFirst(dealer, "hello");
  const Received received = ReceiveOne(router);
  EXPECT_EQ(received.frame, ToBytes("hello"));
  EXPECT_EQ(router.Send(received.identity, ToBytes("welcome")), SendOutcome::kSent);
  std::optional<Bytes> answer;
  ASSERT_TRUE(WaitUntil({&dealer}, [&] { return (answer = dealer.TryReceive()).has_value(); }));
  EXPECT_EQ(*answer, ToBytes("welcome"));
}

// The shortest of 25 runs.
steady_clock::duration FastestOf(const std::function<void()>& run) {
  steady_clock::duration fastest = steady_clock::duration::max();
  for (int i = 0; i < 25; ++i) {
    const auto began = steady_clock::now();
    run();
    fastest = std::min(fastest, steady_clock::now() - began);
  }
  return fastest;
}

// The gate lets small messages gather for a millisecond. If the parts of a large one waited too, it would take 25 times
// as long as without a gate.
TEST_F(SocketTest, ThePartsOfALargeMessageDoNotWaitForEachOther) {
  if (testing_support::kSanitizedThread) GTEST_SKIP() << "under this sanitizer";
  const Bytes large(512 * Gate::kReadBytes);
  RouterSocket router = Bind();
  DealerSocket dealer = Connect(router);
  SendFirst(dealer, "hello");
  const std::string identity = ReceiveOne(router).identity;
  const auto through_gate = FastestOf([&] {
    ASSERT_EQ(router.Send(identity, large), SendOutcome::kSent);
    ASSERT_TRUE(WaitUntil({&dealer}, [&] { return dealer.TryReceive().has_value(); }));
  });
  zmq::context_t context;
  zmq::socket_t from(context, zmq::socket_type::pair);
  zmq::socket_t to(context, zmq::socket_type::pair);
  from.bind("tcp://127.0.0.1:*");
  to.connect(from.get(zmq::sockopt::last_endpoint));
  const auto direct = FastestOf([&] {
    from.send(zmq::buffer(large), zmq::send_flags::none);
    zmq::message_t received;
    ASSERT_TRUE(to.recv(received).has_value());
  });
  EXPECT_LT(through_gate, 12 * direct);
}

TEST_F(SocketTest, SendingToAnUnknownPeerIsAnAnswer) {
  RouterSocket router = Bind();
  EXPECT_EQ(router.Send("nobody", ToBytes("x")), SendOutcome::kUnreachable);
}

TEST_F(SocketTest, DealerWithoutConnectionIsFull) {
  // A port that is taken but not listened on.
  const testing_support::LoopbackSocket taken;
  auto dealer = DealerSocket::Connect(context_, Endpoint{"127.0.0.1", taken.port()}.ToString());
  ASSERT_TRUE(dealer.ok());
  EXPECT_EQ(dealer->Send(ToBytes("x")), SendOutcome::kFull);
}

TEST_F(SocketTest, PeerThatTakesNothingBecomesFull) {
  RouterSocket router = Bind();
  DealerSocket dealer = Connect(router);
  SendFirst(dealer, "hello");
  const std::string identity = ReceiveOne(router).identity;
  const Bytes large(64 << 10U);
  int sent = 0;
  while (router.Send(identity, large) == SendOutcome::kSent && sent < 100 * kHighWaterMark) ++sent;
  EXPECT_LT(sent, 100 * kHighWaterMark);
}

TEST_F(SocketTest, EachConnectionHasAnIdentityOfItsOwn) {
  RouterSocket router = Bind();
  DealerSocket first = Connect(router);
  SendFirst(first, "first");
  const std::string first_identity = ReceiveOne(router).identity;
  DealerSocket second = Connect(router);
  SendFirst(second, "second");
  const std::string second_identity = ReceiveOne(router).identity;
  EXPECT_NE(first_identity, second_identity);
  ASSERT_EQ(router.Send(second_identity, ToBytes("answer")), SendOutcome::kSent);
  std::optional<Bytes> answer;
  ASSERT_TRUE(WaitUntil({&second}, [&] { return (answer = second.TryReceive()).has_value(); }));
  EXPECT_EQ(*answer, ToBytes("answer"));
  EXPECT_FALSE(first.TryReceive().has_value());
}

// ---- misbehaving peers ----

class StrangersTest : public SocketTest {
 protected:
  static zmq::socket_t Stranger(zmq::context_t& context) {
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    return socket;
  }

  // Checks that other peers are still served.
  void ExpectServes(RouterSocket& router) {
    DealerSocket dealer = Connect(router);
    SendFirst(dealer, "hello");
    EXPECT_EQ(ReceiveOne(router).frame, ToBytes("hello"));
  }

  // True when a raw connection has been closed.
  static bool IsCutOff(int fd) {
    char byte = 0;
    while (recv(fd, &byte, 1, 0) > 0) {
    }
    return true;
  }

  zmq::context_t strangers_;
};

// Otherwise libzmq would keep what the second peer sends.
TEST_F(StrangersTest, WhoChoosesAnIdentityGetsARandomOneAllTheSame) {
  RouterSocket router = Bind();
  std::vector<zmq::socket_t> named;
  std::set<std::string> identities;
  for (int i = 0; i < 3; ++i) {
    named.push_back(Stranger(strangers_));
    named.back().set(zmq::sockopt::routing_id, "nobody");
    named.back().connect(router.endpoint());
    named.back().send(zmq::str_buffer("x"), zmq::send_flags::none);
    identities.insert(ReceiveOne(router).identity);
  }
  EXPECT_EQ(identities.size(), named.size());
  EXPECT_EQ(router.Send("nobody", ToBytes("answer")), SendOutcome::kUnreachable);
  ExpectServes(router);
}

// libzmq keeps the parts of a message until the last one arrives, and would keep these forever.
TEST_F(StrangersTest, AMessageOfSeveralPartsIsCutOff) {
  RouterSocket router = Bind();
  zmq::socket_t stranger = Stranger(strangers_);
  stranger.connect(router.endpoint());
  stranger.send(zmq::str_buffer("a part"), zmq::send_flags::sndmore);
  stranger.send(zmq::str_buffer("the end"), zmq::send_flags::none);
  DealerSocket dealer = Connect(router);
  for (int i = 0; i < 3; ++i) {
    SendFirst(dealer, "hello");
    EXPECT_EQ(ReceiveOne(router).frame, ToBytes("hello"));
  }
}

TEST_F(StrangersTest, AFrameThatFindsNoRoomIsCutOffAndTheWorkerComesAgain) {
  constexpr std::size_t kLarge = std::size_t{1} << 20U;
  const auto budget = std::make_shared<ByteBudget>(kLarge);
  auto bound = RouterSocket::Bind(context_, "tcp://127.0.0.1:0", InsecureBind::kRefuse, budget);
  ASSERT_TRUE(bound.ok());
  RouterSocket router = std::move(bound).value();
  DealerSocket dealer = Connect(router);
  SendFirst(dealer, "hello");
  EXPECT_EQ(ReceiveOne(router).frame, ToBytes("hello"));
  EXPECT_EQ(dealer.Send(Bytes(2 * kLarge)), SendOutcome::kSent);
  // Messages that are sent before the dealer has noticed are lost with the connection.
  const auto comes_again = [&] {
    static_cast<void>(dealer.Send(ToBytes("here again")));
    return router.TryReceive().has_value();
  };
  ASSERT_TRUE(WaitUntil({&router}, comes_again));
  EXPECT_EQ(dealer.Send(Bytes(kLarge)), SendOutcome::kSent);
  std::optional<Received> large;
  EXPECT_TRUE(WaitUntil({&router}, [&] {
    large = router.TryReceive();
    return large && large->frame.size() == kLarge;
  }));
  EXPECT_TRUE(WaitUntil({&router}, [&] { return budget->used() == 0; }));
}

TEST_F(StrangersTest, WhatIsNoZmtpIsCutOff) {
  RouterSocket router = Bind();
  const Endpoint endpoint = ParseEndpoint(router.endpoint()).value();
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(endpoint.port);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  EXPECT_TRUE(IsCutOff(fd));
  close(fd);
  ExpectServes(router);
}

// ---- the end ----

TEST_F(SocketTest, WhatWasSentBeforeTheEndArrives) {
  zmq::context_t peers;
  zmq::socket_t peer(peers, zmq::socket_type::dealer);
  peer.set(zmq::sockopt::linger, 0);
  peer.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
  const Bytes large(std::size_t{4} << 20U);
  {
    Context context;
    RouterSocket router = RouterSocket::Bind(context, "tcp://127.0.0.1:0", InsecureBind::kRefuse).value();
    peer.connect(router.endpoint());
    peer.send(zmq::str_buffer("hello"), zmq::send_flags::none);
    const std::string identity = ReceiveOne(router).identity;
    ASSERT_EQ(router.Send(identity, large), SendOutcome::kSent);
    ASSERT_EQ(router.Send(identity, ToBytes("the last")), SendOutcome::kSent);
  }
  zmq::message_t message;
  ASSERT_TRUE(peer.recv(message).has_value());
  EXPECT_EQ(message.size(), large.size());
  ASSERT_TRUE(peer.recv(message).has_value());
  EXPECT_EQ(message.to_string(), "the last");
}

TEST_F(SocketTest, APortIsFreeOnceItsSocketIsGone) {
  std::string endpoint;
  {
    const RouterSocket router = Bind();
    endpoint = router.endpoint();
  }
  EXPECT_TRUE(RouterSocket::Bind(context_, endpoint, InsecureBind::kRefuse).ok());
}

TEST_F(SocketTest, WhatAFrameHoldsIsLetGoOnceItIsSentOrDropped) {
  RouterSocket router = Bind();
  DealerSocket dealer = Connect(router);
  SendFirst(dealer, "hello");
  const std::string identity = ReceiveOne(router).identity;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  ASSERT_EQ(router.Send(identity, ToBytes("answer"), std::move(held)), SendOutcome::kSent);
  ASSERT_TRUE(WaitUntil({&dealer}, [&] { return dealer.TryReceive().has_value(); }));
  EXPECT_TRUE(WaitUntil({&dealer}, [&] { return watch.expired(); }));
  held = std::make_shared<int>(2);
  const std::weak_ptr<int> dropped = held;
  EXPECT_EQ(router.Send("nobody", ToBytes("answer"), std::move(held)), SendOutcome::kUnreachable);
  EXPECT_TRUE(dropped.expired());
}

TEST_F(SocketTest, WakerEndsAWaitFromAnotherThread) {
  RouterSocket router = Bind();
  const Socket* sockets[] = {&router};
  const auto begin = steady_clock::now();
  std::thread ringer([this] { waker_.Wake(); });
  WaitForMessages(sockets, waker_, kPatience);
  ringer.join();
  EXPECT_LT(steady_clock::now() - begin, kPatience);
}

TEST_F(SocketTest, BindsBeyondLoopbackOnlyWhenToldTo) {
  for (const char* endpoint : {"tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0"}) {
    const auto refused = RouterSocket::Bind(context_, endpoint, InsecureBind::kRefuse);
    ASSERT_FALSE(refused.ok()) << endpoint;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(RouterSocket::Bind(context_, endpoint, InsecureBind::kAllow).ok()) << endpoint;
  }
}

TEST_F(SocketTest, RefusesWhatIsNoEndpoint) {
  for (const char* endpoint : {"", "127.0.0.1:7001", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:port", "tcp://:7001",
                               "tcp://127.0.0.1:70000", "ipc:///tmp/x"}) {
    EXPECT_EQ(RouterSocket::Bind(context_, endpoint, InsecureBind::kAllow).error().code, ErrorCode::kInvalidArgument)
        << endpoint;
    EXPECT_FALSE(DealerSocket::Connect(context_, endpoint).ok()) << endpoint;
  }
}

TEST_F(SocketTest, PortInUseIsAnError) {
  const RouterSocket router = Bind();
  const auto second = RouterSocket::Bind(context_, router.endpoint(), InsecureBind::kRefuse);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().field, router.endpoint());
}

}  // namespace
}  // namespace roost::wire
