// Sockets with keys, over real loopback: who comes in, and who does not.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/wire/endpoint.h"
#include "common/wire/handshakes.h"
#include "common/wire/socket.h"

namespace roost::wire {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kWait{20};

Bytes BytesOf(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

LinkPeers PeersOfRouter(const std::vector<LinkPeer>& peers) {
  std::string text;
  for (const LinkPeer& peer : peers) text += LinkPeerLine(peer) + "\n";
  return LinkPeers::Parse(text, "peers", PeersOf::kRouter).value();
}

// A connection of bytes.
class RawPeer {
 public:
  explicit RawPeer(const std::string& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(ParseEndpoint(endpoint)->port);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() {
    if (fd_ >= 0) close(fd_);
  }

  void Send(std::string_view bytes) const { static_cast<void>(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
  // The bytes that come until the connection ends.
  [[nodiscard]] std::string ReadToEnd() const {
    std::string all;
    std::array<char, 4096> buffer{};
    for (ssize_t size = 0; (size = recv(fd_, buffer.data(), buffer.size(), 0)) > 0;) {
      all.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return all;
  }

 private:
  int fd_;
};

std::string GreetingOf(std::string_view mechanism) {
  std::string greeting = "\xFF" + std::string(8, '\0') + "\x7F\x03" + std::string(1, '\0') + std::string(mechanism);
  greeting.resize(64, '\0');
  return greeting;
}

struct ProtectedSocketTest : ::testing::Test {
  const LinkKeyPair router_key = MakeLinkKeyPair();
  const LinkKeyPair one = MakeLinkKeyPair();
  const LinkKeyPair two = MakeLinkKeyPair();
  const LinkKeyPair stranger = MakeLinkKeyPair();
  SteadyClock clock;
  std::array<std::atomic<int>, kPeerRefusalNames.size()> refused{};
  std::shared_ptr<LinkGuard> guard =
      std::make_shared<LinkGuard>(PeersOfRouter({{one.public_key, {"w1"}, {"*"}}, {two.public_key, {"w2"}, {"*"}}}),
                                  clock, [this](PeerRefusal refusal) { ++refused[IndexOf(refusal)]; });
  Context context;
  Context others;
  Waker waker;
  RouterSocket router =
      RouterSocket::Bind(context, "tcp://127.0.0.1:0", InsecureBind::kRefuse, nullptr, ServerKeys{router_key, guard})
          .value();

  DealerSocket Connect(const std::optional<ClientKeys>& keys) {
    return DealerSocket::Connect(others, router.endpoint(), keys).value();
  }
  DealerSocket ConnectAs(const LinkKeyPair& own) { return Connect(ClientKeys{own, router_key.public_key}); }

  bool WaitUntil(const std::function<bool()>& done) {
    const auto deadline = steady_clock::now() + kWait;
    while (!done()) {
      if (steady_clock::now() > deadline) return false;
      WaitForMessages(std::array<const Socket*, 1>{&router}, waker, std::chrono::milliseconds(5));
    }
    return true;
  }
  bool Sends(DealerSocket& dealer, std::string_view text) {
    return WaitUntil([&] { return dealer.Send(BytesOf(text)) == SendOutcome::kSent; });
  }
  std::optional<Received> Receive() {
    std::optional<Received> received;
    EXPECT_TRUE(WaitUntil([&] { return (received = router.TryReceive()).has_value(); }));
    return received;
  }
  // The failure, and that nothing of what it sends ever arrives.
  std::optional<HandshakeFailure> FailureOf(DealerSocket& dealer) {
    std::optional<HandshakeFailure> failure;
    EXPECT_TRUE(WaitUntil([&] {
      EXPECT_EQ(dealer.Send(BytesOf("from nobody")), SendOutcome::kFull);
      EXPECT_FALSE(router.TryReceive().has_value());
      return (failure = dealer.TakeHandshakeFailure()).has_value();
    }));
    return failure;
  }
  int Refused(PeerRefusal refusal) const { return refused[IndexOf(refusal)]; }
};

TEST_F(ProtectedSocketTest, CarriesFramesBothWaysAndTellsWhoseTheyAre) {
  DealerSocket first = ConnectAs(one);
  DealerSocket second = ConnectAs(two);
  ASSERT_TRUE(Sends(first, "of one"));
  const std::optional<Received> received = Receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->frame, BytesOf("of one"));
  EXPECT_EQ(received->public_key, one.public_key);
  ASSERT_TRUE(Sends(second, "of two"));
  EXPECT_EQ(Receive()->public_key, two.public_key);
  EXPECT_EQ(router.Send(received->identity, BytesOf("answer")), SendOutcome::kSent);
  std::optional<Bytes> answer;
  ASSERT_TRUE(WaitUntil([&] { return (answer = first.TryReceive()).has_value(); }));
  EXPECT_EQ(*answer, BytesOf("answer"));
  EXPECT_FALSE(second.TryReceive().has_value());
  EXPECT_FALSE(first.TakeHandshakeFailure().has_value());
}

TEST_F(ProtectedSocketTest, TheLargestFrameFits) {
  DealerSocket dealer = ConnectAs(one);
  ASSERT_TRUE(Sends(dealer, "hello"));
  static_cast<void>(Receive());
  const Bytes large(WireLimits::kMaxFrameBytes, std::byte{7});
  ASSERT_EQ(dealer.Send(large), SendOutcome::kSent);
  EXPECT_TRUE(Receive()->frame == large);
}

TEST_F(ProtectedSocketTest, AnUnknownKeyIsRefusedAndTold) {
  DealerSocket dealer = ConnectAs(stranger);
  EXPECT_EQ(FailureOf(dealer), HandshakeFailure::kRefused);
  EXPECT_GE(Refused(PeerRefusal::kUnknownKey), 1);
  EXPECT_EQ(Refused(PeerRefusal::kHandshake), 0) << "counted once, for its reason";
}

TEST_F(ProtectedSocketTest, APeerWithoutAKeyIsRefusedAtItsGreeting) {
  DealerSocket dealer = Connect(std::nullopt);
  EXPECT_TRUE(FailureOf(dealer).has_value());
  // The router counts on a thread of its own, perhaps after the peer has heard.
  EXPECT_TRUE(WaitUntil([&] { return Refused(PeerRefusal::kMechanism) >= 1; }));
  const RawPeer raw(router.endpoint());
  const int before = Refused(PeerRefusal::kMechanism);
  raw.Send(GreetingOf("NULL"));
  static_cast<void>(raw.ReadToEnd());
  EXPECT_TRUE(WaitUntil([&] { return Refused(PeerRefusal::kMechanism) == before + 1; }));
}

// It has seen in the router's greeting that it needs a key, before its own has left.
TEST_F(ProtectedSocketTest, APeerWithoutAKeyMayLeaveByItself) {
  { const RawPeer silent(router.endpoint()); }  // one that only looks whether the port is open is no peer
  {
    const RawPeer raw(router.endpoint());
    raw.Send(std::string_view(GreetingOf("NULL")).substr(0, 11));
  }
  EXPECT_TRUE(WaitUntil([&] { return Refused(PeerRefusal::kMechanism) == 1; }));
}

TEST_F(ProtectedSocketTest, WhoTakesTheRouterForAnotherOneFindsOut) {
  DealerSocket dealer = Connect(ClientKeys{one, MakeLinkKeyPair().public_key});
  EXPECT_EQ(FailureOf(dealer), HandshakeFailure::kCut);
  EXPECT_TRUE(WaitUntil([&] { return Refused(PeerRefusal::kHandshake) >= 1; }));
}

TEST_F(ProtectedSocketTest, AKeyIsOfNoUseWithoutItsSecretHalf) {
  DealerSocket dealer = ConnectAs({one.public_key, stranger.secret_key});
  EXPECT_EQ(FailureOf(dealer), HandshakeFailure::kCut);
}

TEST_F(ProtectedSocketTest, AWorkerWithKeysSpeaksToNoRouterWithoutThem) {
  Context open_context;
  RouterSocket open = RouterSocket::Bind(open_context, "tcp://127.0.0.1:0", InsecureBind::kRefuse).value();
  DealerSocket dealer = DealerSocket::Connect(others, open.endpoint(), ClientKeys{one, router_key.public_key}).value();
  EXPECT_TRUE(FailureOf(dealer).has_value());
  EXPECT_FALSE(open.TryReceive().has_value());
}

TEST_F(ProtectedSocketTest, MessagesBeforeTheHandshakeIsOverAreCutOff) {
  const RawPeer raw(router.endpoint());
  raw.Send(GreetingOf("CURVE") + std::string("\x00\x05hello", 7));
  static_cast<void>(raw.ReadToEnd());
  EXPECT_FALSE(router.TryReceive().has_value());
  EXPECT_EQ(Refused(PeerRefusal::kHandshake), 1);
}

// Without the key at the front of the identity, the router's answers and what it knows of "one" would be the other's.
TEST_F(ProtectedSocketTest, AnIdentityThatAnotherPeerHadIsNotTheSame) {
  zmq::context_t raw_context;
  const auto connect_as = [&](const LinkKeyPair& own) {
    zmq::socket_t socket(raw_context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, "chosen");
    socket.set(zmq::sockopt::curve_serverkey, router_key.public_key);
    socket.set(zmq::sockopt::curve_publickey, own.public_key);
    socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
    socket.connect(router.endpoint());
    socket.send(zmq::str_buffer("hello"), zmq::send_flags::none);
    return socket;
  };
  zmq::socket_t first = connect_as(one);
  const std::string of_one = Receive()->identity;
  first.close();
  ASSERT_TRUE(WaitUntil([&] { return router.Send(of_one, BytesOf("x")) == SendOutcome::kUnreachable; }));
  const zmq::socket_t second = connect_as(two);
  const std::optional<Received> received = Receive();
  EXPECT_NE(received->identity, of_one);
  EXPECT_EQ(received->public_key, two.public_key);
}

TEST_F(ProtectedSocketTest, AKeyThatIsWithdrawnLosesItsLinkAndComesBackWhenItIsThereAgain) {
  DealerSocket first = ConnectAs(one);
  DealerSocket second = ConnectAs(two);
  ASSERT_TRUE(Sends(first, "one"));
  ASSERT_TRUE(Sends(second, "two"));
  std::string of_one;
  std::string of_two;
  for (int i = 0; i < 2; ++i) {
    const std::optional<Received> received = Receive();
    (received->public_key == one.public_key ? of_one : of_two) = received->identity;
  }
  guard->Replace(PeersOfRouter({{two.public_key, {"w2"}, {"*"}}}));
  ASSERT_TRUE(WaitUntil([&] { return router.Send(of_one, BytesOf("x")) == SendOutcome::kUnreachable; }));
  const auto knows_it = [&] { return first.Send(BytesOf("from nobody")) == SendOutcome::kFull; };
  ASSERT_TRUE(WaitUntil(knows_it)) << "until then what it sends is lost with its link";
  EXPECT_EQ(FailureOf(first), HandshakeFailure::kRefused);
  EXPECT_EQ(router.Send(of_two, BytesOf("x")), SendOutcome::kSent) << "others keep theirs";
  // Rotation: the old key goes once the new one is in use.
  const LinkKeyPair next = MakeLinkKeyPair();
  guard->Replace(PeersOfRouter({{two.public_key, {"w2"}, {"*"}}, {next.public_key, {"w1"}, {"*"}}}));
  DealerSocket again = ConnectAs(next);
  ASSERT_TRUE(Sends(again, "one again"));
  EXPECT_EQ(Receive()->public_key, next.public_key);
}

TEST_F(ProtectedSocketTest, IdleStrangersKeepNoWorkerOut) {
  std::vector<RawPeer> idle;
  for (std::size_t i = 0; i < 2 * Handshakes::kMost; ++i) idle.emplace_back(router.endpoint());
  DealerSocket dealer = ConnectAs(one);
  EXPECT_TRUE(Sends(dealer, "hello"));
  EXPECT_EQ(Receive()->public_key, one.public_key);
  EXPECT_GE(Refused(PeerRefusal::kHandshake), 1) << "of these, too many come from one address";
}

TEST_F(ProtectedSocketTest, BindsBeyondLoopbackWithKeys) {
  Context other;
  EXPECT_TRUE(
      RouterSocket::Bind(other, "tcp://0.0.0.0:0", InsecureBind::kRefuse, nullptr, ServerKeys{router_key, guard}).ok());
}

}  // namespace
}  // namespace roost::wire
