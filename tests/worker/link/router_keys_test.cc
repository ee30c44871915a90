#include "worker/link/router_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace roost::worker {
namespace {

using wire::HandshakeFailure;

struct RouterKeysTest : ::testing::Test {
  RouterKeysTest() {
    std::filesystem::create_directories(folder);
    Write("own", wire::LinkKeyFile(own, "w1"));
    Write("peers", LineOf(first) + LineOf(second));
  }
  ~RouterKeysTest() override { std::filesystem::remove_all(folder); }

  void Write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }
  static std::string LineOf(const wire::LinkKeyPair& pair) {
    return wire::LinkPeerLine({pair.public_key, {}, {}}) + "\n";
  }
  [[nodiscard]] LinkKeyFiles Files() const { return {folder / "own", folder / "peers"}; }

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("router_keys_{}", getpid());
  const wire::LinkKeyPair own = wire::MakeLinkKeyPair();
  const wire::LinkKeyPair first = wire::MakeLinkKeyPair();
  const wire::LinkKeyPair second = wire::MakeLinkKeyPair();
};

TEST_F(RouterKeysTest, EachTurnHasTheNextKey) {
  RouterKeys keys = RouterKeys::Open(Files()).value();
  EXPECT_EQ(keys.CountRouterKeys(), 2U);
  EXPECT_EQ(keys.ForTurn(0).router_public_key, first.public_key);
  EXPECT_EQ(keys.ForTurn(1).router_public_key, second.public_key);
  EXPECT_EQ(keys.ForTurn(2).router_public_key, first.public_key);
  EXPECT_EQ(keys.ForTurn(0).own.secret_key, own.secret_key);
}

TEST_F(RouterKeysTest, ChangedFilesAreReadAndBrokenOnesAreNot) {
  RouterKeys keys = RouterKeys::Open(Files()).value();
  const wire::LinkKeyPair next = wire::MakeLinkKeyPair();
  Write("own", wire::LinkKeyFile(next, "w1"));
  Write("peers", LineOf(second));
  EXPECT_EQ(keys.CountRouterKeys(), 1U) << "or a key that was added would not be tried";
  EXPECT_EQ(keys.ForTurn(0).own.public_key, next.public_key);
  EXPECT_EQ(keys.ForTurn(0).router_public_key, second.public_key);
  Write("peers", "{");
  EXPECT_EQ(keys.ForTurn(0).router_public_key, second.public_key);
}

TEST_F(RouterKeysTest, AFileThatIsWrongAtTheStartIsNamed) {
  Write("peers", "{");
  EXPECT_EQ(RouterKeys::Open(Files()).error().ToString(), (folder / "peers").string() + ":1: is no JSON object");
  Write("own", "");
  EXPECT_EQ(RouterKeys::Open(Files()).error().ToString(), (folder / "own").string() + ": holds no key");
}

TEST(KeyTurnTest, TriesTheNextKeyAtOnceAndPausesAfterTheLast) {
  KeyTurn turn;
  Instant now{};
  EXPECT_FALSE(turn.TakeRedial(now));
  EXPECT_FALSE(turn.OnFailure(HandshakeFailure::kCut, 2, now)) << "another key is left";
  EXPECT_TRUE(turn.TakeRedial(now));
  EXPECT_FALSE(turn.TakeRedial(now));
  EXPECT_EQ(turn.turn(), 1U);
  EXPECT_TRUE(turn.OnFailure(HandshakeFailure::kCut, 2, now));
  EXPECT_FALSE(turn.TakeRedial(now));
  EXPECT_FALSE(turn.OnFailure(HandshakeFailure::kCut, 2, now)) << "ZeroMQ's own attempts are none";
  now += KeyTurn::kPause;
  EXPECT_TRUE(turn.TakeRedial(now));
  EXPECT_EQ(turn.turn(), 2U);
}

TEST(KeyTurnTest, AKeyThatTheRouterHasIsKept) {
  KeyTurn turn;
  const Instant now{};
  EXPECT_FALSE(turn.OnFailure(HandshakeFailure::kCut, 2, now));
  EXPECT_TRUE(turn.TakeRedial(now));
  EXPECT_TRUE(turn.OnFailure(HandshakeFailure::kRefused, 2, now)) << "the router proved its key, and refused ours";
  EXPECT_EQ(turn.turn(), 1U);
  EXPECT_TRUE(turn.TakeRedial(now + KeyTurn::kPause));
  turn.OnUp();
  EXPECT_FALSE(turn.OnFailure(HandshakeFailure::kCut, 2, now)) << "counted anew since it was up";
}

}  // namespace
}  // namespace roost::worker
