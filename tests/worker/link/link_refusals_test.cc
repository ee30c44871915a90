// Routers that do not take the worker, or do not answer: what it knows and logs of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <sstream>
#include <string>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using wire::RefusalCause;

class LinkRefusalsTest : public LinkCoreTest {
 protected:
  void Refuse(PeerId peer, std::uint64_t epoch, RefusalCause cause, std::string reason = "a reason") {
    core_.OnMessage(peer, wire::Refused{.epoch = epoch, .reason = std::move(reason), .cause = cause});
  }
  std::uint64_t RefusalCount(RefusalCause cause) { return core_.counts().refusals[IndexOf(cause)]; }
  RouterStatus Status() { return core_.statuses().at(0); }
};

const RouterStatus kConnecting{"router", LinkStanding::kConnecting};
const RouterStatus kUp{"router", LinkStanding::kUp};
const RouterStatus kRefused{"router", LinkStanding::kRefused, "a reason"};

TEST_F(LinkRefusalsTest, ARouterIsConnectingUntilItAnswers) {
  EXPECT_TRUE(core_.statuses().empty());
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_EQ(Status(), kConnecting);
  Welcome(kPeer, epoch);
  EXPECT_EQ(Status(), kUp);
  Pass(seconds(3));  // silence
  EXPECT_EQ(Status(), kConnecting);
  core_.RemovePeer(kPeer);
  EXPECT_TRUE(core_.statuses().empty());
}

TEST_F(LinkRefusalsTest, ARefusalIsKnownUntilTheRouterTakesTheWorker) {
  const std::uint64_t epoch = Greet(kPeer);
  Refuse(kPeer, epoch, RefusalCause::kNameTaken);
  EXPECT_EQ(Status(), kRefused);
  Pass(seconds(1));
  Refuse(kPeer, epoch, RefusalCause::kNameTaken, "a later reason");
  EXPECT_EQ(Status().reason, "a later reason");
  EXPECT_EQ(RefusalCount(RefusalCause::kNameTaken), 2U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(Status(), kUp);
}

TEST_F(LinkRefusalsTest, ARefusalThatIsNotRepeatedIsForgotten) {
  Refuse(kPeer, Greet(kPeer), RefusalCause::kFull);
  Pass(milliseconds(9999));
  EXPECT_EQ(Status(), kRefused);
  Pass(milliseconds(1));
  EXPECT_EQ(Status(), kConnecting);
}

TEST_F(LinkRefusalsTest, EachRouterHasItsOwnStanding) {
  Refuse(kPeer, Greet(kPeer), RefusalCause::kKey);
  Welcome(kOther, Greet(kOther));
  EXPECT_THAT(core_.statuses(), ElementsAre(kRefused, kUp));
}

TEST_F(LinkRefusalsTest, ARefusalOfAnEarlierHelloSaysNothing) {
  const std::uint64_t epoch = Greet(kPeer);
  Refuse(kPeer, epoch + 1, RefusalCause::kOther);
  EXPECT_EQ(Status(), kConnecting);
  Welcome(kPeer, epoch);
  Refuse(kPeer, epoch, RefusalCause::kOther);
  EXPECT_EQ(Status(), kUp);
  EXPECT_EQ(RefusalCount(RefusalCause::kOther), 0U);
}

TEST_F(LinkRefusalsTest, AnotherMajorVersionIsARefusalOfTheWorkersOwn) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, wire::Welcome{1, epoch, {.major = wire::kProtocolMajor + 1, .minor = 0, .release = {}}});
  EXPECT_EQ(Status().standing, LinkStanding::kRefused);
  EXPECT_THAT(Status().reason, testing::HasSubstr("major versions must be equal"));
  EXPECT_EQ(RefusalCount(RefusalCause::kVersion), 1U);
}

TEST_F(LinkRefusalsTest, AHandshakeThatFailsIsARefusalToo) {
  core_.OnHandshakeFailure(kPeer, "nobody has this number");
  (void)Greet(kPeer);
  core_.OnHandshakeFailure(kPeer, "a reason");
  EXPECT_EQ(Status(), kRefused);
  EXPECT_EQ(core_.counts().refusals[kHandshakeRefusal], 1U);
}

TEST_F(LinkRefusalsTest, ChangesAreToldOnce) {
  (void)core_.TakeStatusChange();
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_TRUE(core_.TakeStatusChange());
  Pass(seconds(1));
  EXPECT_FALSE(core_.TakeStatusChange());
  Refuse(kPeer, epoch, RefusalCause::kOther);
  EXPECT_TRUE(core_.TakeStatusChange());
  Welcome(kPeer, epoch);
  EXPECT_TRUE(core_.TakeStatusChange());
  Report({});
  EXPECT_FALSE(core_.TakeStatusChange());
  Pass(seconds(3));
  EXPECT_TRUE(core_.TakeStatusChange());
}

// ---- routers that do not answer ----

// The lines that are logged while `act` runs and contain `text`.
template <typename Act>
std::ptrdiff_t CountLogged(std::string_view text, Act act) {
  testing::internal::CaptureStderr();
  act();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

TEST_F(LinkRefusalsTest, ARouterThatDoesNotAnswerIsLoggedSoonAndThenOnceAMinute) {
  const auto logged_in = [this](int count) {
    return CountLogged("no answer from a router", [this, count] {
      for (int i = 0; i < count; ++i) Pass(seconds(1));
    });
  };
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_EQ(logged_in(3), 1);
  EXPECT_EQ(logged_in(50), 0);
  EXPECT_EQ(logged_in(60), 1);
  Welcome(kPeer, epoch);
  EXPECT_EQ(logged_in(3), 1);  // silent anew
}

TEST_F(LinkRefusalsTest, ARouterThatRefusesAndThenIsSilentIsNotLoggedTwice) {
  const std::uint64_t epoch = Greet(kPeer);
  Refuse(kPeer, epoch, RefusalCause::kNameTaken);
  EXPECT_EQ(CountLogged("no answer from a router", [this] { Pass(seconds(3)); }), 0);
}

}  // namespace
}  // namespace roost::worker
