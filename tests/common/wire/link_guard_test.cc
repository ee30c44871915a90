#include "common/wire/link_guard.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "common/wire/handshakes.h"

namespace roost::wire {
namespace {

using namespace std::chrono_literals;

const std::string kOne = MakeLinkKeyPair().public_key;
const std::string kTwo = MakeLinkKeyPair().public_key;
const std::string kStranger = MakeLinkKeyPair().public_key;

LinkPeers PeersWith(const std::vector<LinkPeer>& peers) {
  std::string text;
  for (const LinkPeer& peer : peers) text += LinkPeerLine(peer) + "\n";
  return LinkPeers::Parse(text, "peers", PeersOf::kRouter).value();
}

struct LinkGuardTest : ::testing::Test {
  ManualClock clock;
  std::array<int, kPeerRefusalNames.size()> refused{};
  LinkGuard guard{PeersWith({{kOne, {"w1"}, {"*"}}, {kTwo, {"w2"}, {"demo"}}}), clock,
                  [this](PeerRefusal refusal) { ++refused[IndexOf(refusal)]; }};
};

using Standing = LinkGuard::Standing;

TEST_F(LinkGuardTest, LetsKnownKeysInAndNoOthers) {
  ASSERT_TRUE(guard.Connected("127.64.0.1", "10.0.0.1:4000"));
  ASSERT_TRUE(guard.Connected("127.64.0.2", "10.0.0.2:4000"));
  EXPECT_EQ(guard.StandingOf("127.64.0.1"), Standing::kHandshake);
  EXPECT_TRUE(guard.Admit("127.64.0.1", kOne));
  EXPECT_FALSE(guard.Admit("127.64.0.2", kStranger));
  EXPECT_EQ(guard.StandingOf("127.64.0.1"), Standing::kAdmitted);
  EXPECT_EQ(guard.StandingOf("127.64.0.2"), Standing::kRefused);
  EXPECT_EQ(refused[IndexOf(PeerRefusal::kUnknownKey)], 1);
}

TEST_F(LinkGuardTest, WhoGoesAroundTheGateIsRefusedWhateverItsKey) {
  EXPECT_FALSE(guard.Admit("127.0.0.1", kOne));
  EXPECT_EQ(refused[IndexOf(PeerRefusal::kUnknownKey)], 1);
}

TEST_F(LinkGuardTest, AnAddressIsOneConnectionsUntilItIsGone) {
  ASSERT_TRUE(guard.Connected("127.64.0.1", "10.0.0.1:4000"));
  EXPECT_FALSE(guard.Connected("127.64.0.1", "10.0.0.2:4000"));
  EXPECT_TRUE(guard.Admit("127.64.0.1", kOne));
  guard.Gone("127.64.0.1");
  ASSERT_TRUE(guard.Connected("127.64.0.1", "10.0.0.2:4000"));
  EXPECT_EQ(guard.StandingOf("127.64.0.1"), Standing::kHandshake) << "what it was let in for is over";
}

TEST_F(LinkGuardTest, AKeyThatIsRemovedOrHasOtherNamesIsWithdrawnAndOthersStay) {
  const std::string third = MakeLinkKeyPair().public_key;
  guard.Replace(PeersWith({{kOne, {"w1"}, {"*"}}, {kTwo, {"w2"}, {"demo"}}, {third, {"w3"}, {"*"}}}));
  for (const auto& [inner, key] : {std::pair{"127.64.0.1", kOne}, {"127.64.0.2", kTwo}, {"127.64.0.3", third}}) {
    ASSERT_TRUE(guard.Connected(inner, "10.0.0.1:4000"));
    ASSERT_TRUE(guard.Admit(inner, key));
  }
  guard.Replace(PeersWith({{kTwo, {"w2", "w4"}, {"demo"}}, {third, {"w3"}, {"*"}}}));
  EXPECT_EQ(guard.StandingOf("127.64.0.1"), Standing::kWithdrawn);
  EXPECT_EQ(guard.StandingOf("127.64.0.2"), Standing::kWithdrawn);
  EXPECT_EQ(guard.StandingOf("127.64.0.3"), Standing::kAdmitted);
  ASSERT_TRUE(guard.Connected("127.64.0.4", "10.0.0.1:4001"));
  EXPECT_FALSE(guard.Admit("127.64.0.4", kOne));
  ASSERT_TRUE(guard.Connected("127.64.0.5", "10.0.0.1:4002"));
  EXPECT_TRUE(guard.Admit("127.64.0.5", kTwo));
  EXPECT_TRUE(guard.CheckHello(kTwo, "w4", "demo").ok());
}

TEST_F(LinkGuardTest, AHelloHasTheNamesOfItsKey) {
  EXPECT_TRUE(guard.CheckHello(kOne, "w1", "any").ok());
  EXPECT_EQ(guard.CheckHello(kTwo, "w1", "demo").error().message, fmt::format("key {} may not be worker 'w1'", kTwo));
  EXPECT_FALSE(guard.CheckHello(kTwo, "w2", "other").ok());
  EXPECT_FALSE(guard.CheckHello(kStranger, "w1", "demo").ok());
  EXPECT_EQ(refused[IndexOf(PeerRefusal::kName)], 3);
}

TEST_F(LinkGuardTest, AnAdapterNeedsANameThatTheKeyMayServe) {
  std::vector<std::string> adapters{"poet", "demo", "clerk"};
  guard.KeepAllowed(kOne, adapters);
  EXPECT_EQ(adapters.size(), 3U);
  guard.KeepAllowed(kTwo, adapters);
  EXPECT_EQ(adapters, std::vector<std::string>{"demo"});
  EXPECT_EQ(refused[IndexOf(PeerRefusal::kName)], 2);
  guard.KeepAllowed(kStranger, adapters);
  EXPECT_TRUE(adapters.empty());
}

// ---- handshakes ----

TEST(HandshakesTest, ASourceWithTooManyLosesItsOldestAndOthersLoseNone) {
  Handshakes handshakes;
  const Instant now{};
  EXPECT_FALSE(handshakes.Enter(1000, "worker", now).has_value());
  for (std::uint64_t i = 0; i < Handshakes::kMaxOfASource; ++i) {
    EXPECT_FALSE(handshakes.Enter(i, "stranger", now).has_value());
  }
  for (std::uint64_t i = 0; i < 10 * Handshakes::kMost; ++i) {
    EXPECT_EQ(handshakes.Enter(Handshakes::kMaxOfASource + i, "stranger", now), i);
  }
  EXPECT_EQ(handshakes.size(), Handshakes::kMaxOfASource + 1);
  EXPECT_EQ(handshakes.TakeOldest(), 1000U) << "the worker's";
}

TEST(HandshakesTest, TooManyInAllLoseTheOldest) {
  Handshakes handshakes;
  for (std::uint64_t i = 0; i < Handshakes::kMost; ++i) {
    EXPECT_FALSE(handshakes.Enter(i, std::to_string(i), Instant{}).has_value());
  }
  handshakes.Leave(0);
  EXPECT_FALSE(handshakes.Enter(5000, "a", Instant{}).has_value()) << "one is through";
  EXPECT_EQ(handshakes.Enter(5001, "b", Instant{}), 1U);
  EXPECT_EQ(handshakes.size(), Handshakes::kMost);
}

TEST(HandshakesTest, WhoTakesTooLongIsLate) {
  Handshakes handshakes;
  const Instant now{};
  EXPECT_FALSE(handshakes.Enter(1, "a", now).has_value());
  EXPECT_FALSE(handshakes.Enter(2, "a", now + 1s).has_value());
  EXPECT_FALSE(handshakes.TakeLate(now + Handshakes::kTime - 1ms).has_value());
  EXPECT_EQ(handshakes.TakeLate(now + Handshakes::kTime), 1U);
  EXPECT_FALSE(handshakes.TakeLate(now + Handshakes::kTime).has_value());
  handshakes.Leave(2);
  EXPECT_FALSE(handshakes.TakeLate(now + 10 * Handshakes::kTime).has_value());
}

}  // namespace
}  // namespace roost::wire
