#include "common/wire/zmtp_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace roost::wire {
namespace {

constexpr Instant kWatched{};
constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20U;

std::string Greeting(char major_version = 3, std::string_view mechanism = "NULL") {
  std::string greeting = "\xFF" + std::string(8, '\0') + "\x7F" + std::string(1, major_version);
  greeting += std::string(1, '\0') + std::string(mechanism);
  greeting.resize(64, '\0');
  return greeting;
}

enum class Kind : char { kMessage = 0, kPart = 1, kCommand = 4 };

std::string Head(Kind kind, std::uint64_t size) {
  std::string head(1, static_cast<char>(static_cast<char>(kind) | 2));
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(size >> static_cast<unsigned>(shift));
  return head;
}
std::string Frame(Kind kind, std::string_view body) { return Head(kind, body.size()) + std::string(body); }
std::string ShortFrame(Kind kind, std::string_view body) {
  return std::string{static_cast<char>(kind), static_cast<char>(body.size())} + std::string(body);
}

std::string Property(std::string_view name, std::string_view value) {
  const std::string size{'\0', '\0', '\0', static_cast<char>(value.size())};
  return std::string(1, static_cast<char>(name.size())) + std::string(name) + size + std::string(value);
}
std::string Ready(std::string_view identity) {
  return "\x05READY" + Property("Socket-Type", "DEALER") + Property("Identity", identity);
}

struct Outcome {
  std::string refusal;  // empty: the peer may continue
  std::string passed;   // bytes that are passed on
};

// The outcome for a peer that sends `bytes` in pieces of `piece_size`.
Outcome Watch(std::string bytes, std::size_t piece_size) {
  ZmtpWatch watch(kMaxFrameBytes, nullptr);
  for (std::size_t i = 0; i < bytes.size(); i += piece_size) {
    const Result<void> taken =
        watch.Take(std::span(bytes).subspan(i, std::min(piece_size, bytes.size() - i)), kWatched);
    if (!taken.ok()) return {taken.error().message, ""};
  }
  return {"", bytes};
}

// For a watch that is used more than once.
Result<void> Take(ZmtpWatch& watch, std::string bytes, Instant now = kWatched) { return watch.Take(bytes, now); }

// Checks that the answer is the same however the bytes are cut.
std::string Refusal(std::string_view bytes) {
  const Outcome whole = Watch(std::string(bytes), bytes.size());
  for (const std::size_t piece_size : {1U, 2U, 7U, 64U}) {
    const Outcome cut = Watch(std::string(bytes), piece_size);
    EXPECT_EQ(cut.refusal, whole.refusal);
    EXPECT_EQ(cut.passed, whole.passed);
  }
  return whole.refusal;
}

TEST(ZmtpWatchTest, PassesWhatWorkersSend) {
  EXPECT_EQ(Refusal(Greeting() + ShortFrame(Kind::kCommand, Ready("")) + ShortFrame(Kind::kMessage, "hello") +
                    Frame(Kind::kMessage, std::string(70'000, 'x')) + ShortFrame(Kind::kMessage, "") +
                    ShortFrame(Kind::kCommand, "\x04PING") + Frame(Kind::kMessage, std::string(kMaxFrameBytes, 'x'))),
            "");
}

TEST(ZmtpWatchTest, RefusesMessagesOfSeveralParts) {
  EXPECT_NE(Refusal(Greeting() + ShortFrame(Kind::kPart, "part")), "");
  EXPECT_NE(Refusal(Greeting() + Frame(Kind::kMessage, "whole") + Head(Kind::kPart, 50'000'000)), "");
}

TEST(ZmtpWatchTest, MakesAnIdentityVoidThatAConnectionChooses) {
  for (const Kind kind : {Kind::kCommand, Kind::kMessage}) {
    for (const std::size_t piece_size : {1U, 7U, 1000U}) {
      const std::string sent = Greeting() + ShortFrame(kind, Ready("nobody")) + Frame(kind, Ready("Identity"));
      const std::string passed = Watch(sent, piece_size).passed;
      ASSERT_EQ(passed.size(), sent.size());
      // "Identity" as a value also has its length before it, and is changed too.
      EXPECT_EQ(passed.find("\x08Identity") == std::string::npos, kind == Kind::kCommand);
      EXPECT_EQ(passed == sent, kind == Kind::kMessage);
    }
  }
}

TEST(ZmtpWatchTest, RefusesWhatIsNoZmtp3) {
  EXPECT_NE(Refusal("GET / HTTP/1.1\r\n"), "");
  EXPECT_NE(Refusal(Greeting(1)), "");
  EXPECT_NE(Refusal(Greeting() + "\x40"), "");
}

// ---- under CURVE ----

std::string CurveGreeting() { return Greeting(3, "CURVE"); }
const std::string kCurveHello = ShortFrame(Kind::kCommand, "\x05HELLO" + std::string(194, 'x'));
const std::string kInitiate = Frame(Kind::kCommand, "\x08INITIATE" + std::string(500, 'x'));
std::string Box(std::size_t size) { return Frame(Kind::kMessage, std::string(size + kCurveBoxBytes, 'x')); }

TEST(ZmtpWatchTest, EveryMechanismButTheWantedOneIsRefusedAtTheGreeting) {
  for (const std::string_view name : {"NULL", "PLAIN", "CURVE", "CURVE2", "NUL", "", "GSSAPI"}) {
    for (const Mechanism wanted : {Mechanism::kNull, Mechanism::kCurve}) {
      const std::string_view wanted_name = wanted == Mechanism::kCurve ? "CURVE" : "NULL";
      ZmtpWatch watch(kMaxFrameBytes, nullptr, wanted);
      const std::string greeting = Greeting(3, name);
      // The mechanism's name and its zeros: nothing of ours comes after them.
      EXPECT_TRUE(Take(watch, greeting.substr(0, 31)).ok());
      const Result<void> taken = Take(watch, greeting.substr(31, 1));
      EXPECT_EQ(taken.ok(), name == wanted_name) << name;
      if (!taken.ok()) {
        EXPECT_EQ(taken.error().code, ErrorCode::kUnauthenticated);
      }
    }
  }
}

TEST(ZmtpWatchTest, UnderCurveMessagesComeAfterTheKeyIsLetIn) {
  ZmtpWatch watch(kMaxFrameBytes, nullptr, Mechanism::kCurve);
  ASSERT_TRUE(Take(watch, CurveGreeting() + kCurveHello + kInitiate).ok());
  EXPECT_FALSE(watch.is_through()) << "a handshake that has been sent is not one that was answered";
  watch.Admit();
  EXPECT_TRUE(watch.is_through());
  EXPECT_TRUE(Take(watch, Box(0) + Box(kMaxFrameBytes)).ok()) << "the box around the largest message";
  EXPECT_FALSE(Take(watch, Head(Kind::kMessage, kMaxFrameBytes + kCurveBoxBytes + 1)).ok());

  ZmtpWatch stranger(kMaxFrameBytes, nullptr, Mechanism::kCurve);
  ASSERT_TRUE(Take(stranger, CurveGreeting() + kCurveHello).ok());
  EXPECT_FALSE(Take(stranger, Box(10)).ok()) << "of a key that nobody knows";
}

TEST(ZmtpWatchTest, UnderCurveNoByteIsChangedOnItsWay) {
  std::string sent = CurveGreeting() + kCurveHello + Frame(Kind::kCommand, Ready("nobody"));
  const std::string before = sent;
  ZmtpWatch watch(kMaxFrameBytes, nullptr, Mechanism::kCurve);
  ASSERT_TRUE(watch.Take(sent, kWatched).ok());
  EXPECT_EQ(sent, before);
}

TEST(ZmtpWatchTest, AHandshakeWithoutKeysIsOverWithTheReady) {
  ZmtpWatch watch(kMaxFrameBytes, nullptr);
  ASSERT_TRUE(Take(watch, Greeting()).ok());
  const std::string ready = ShortFrame(Kind::kCommand, Ready(""));
  ASSERT_TRUE(Take(watch, ready.substr(0, ready.size() - 1)).ok());
  EXPECT_FALSE(watch.is_through());
  ASSERT_TRUE(Take(watch, ready.substr(ready.size() - 1)).ok());
  EXPECT_TRUE(watch.is_through());
}

// ---- bounds ----

TEST(ZmtpWatchTest, RefusesFramesOverTheLimitAtTheirHead) {
  EXPECT_NE(Refusal(Greeting() + Head(Kind::kMessage, kMaxFrameBytes + 1)), "");
  EXPECT_NE(Refusal(Greeting() + Head(Kind::kCommand, ZmtpWatch::kMaxCommandBytes + 1)), "");
}

TEST(ZmtpWatchTest, ALargeFrameHasItsBytesOfTheBudgetUntilItIsWhole) {
  constexpr std::size_t kLarge = ZmtpWatch::kFreeFrameBytes + 1;
  const auto budget = std::make_shared<ByteBudget>(2 * kLarge);
  ZmtpWatch watch(kMaxFrameBytes, budget);
  ASSERT_TRUE(Take(watch, Greeting(), kWatched).ok());
  ASSERT_TRUE(Take(watch, Head(Kind::kMessage, ZmtpWatch::kFreeFrameBytes), kWatched).ok());
  EXPECT_EQ(budget->used(), 0U) << "a small one has none";
  ASSERT_TRUE(Take(watch, std::string(ZmtpWatch::kFreeFrameBytes, 'x'), kWatched).ok());
  ASSERT_TRUE(Take(watch, Head(Kind::kMessage, kLarge), kWatched).ok());
  EXPECT_EQ(budget->used(), kLarge);
  ASSERT_TRUE(Take(watch, std::string(kLarge - 1, 'x'), kWatched).ok());
  EXPECT_EQ(budget->used(), kLarge);
  ASSERT_TRUE(Take(watch, std::string("x"), kWatched).ok());
  EXPECT_EQ(budget->used(), 0U);
}

TEST(ZmtpWatchTest, ALargeFrameThatFindsNoRoomIsRefusedAndOneThatIsCutOffGivesItsBytesBack) {
  constexpr std::size_t kLarge = ZmtpWatch::kFreeFrameBytes + 1;
  const auto budget = std::make_shared<ByteBudget>(kLarge);
  {
    ZmtpWatch first(kMaxFrameBytes, budget);
    ASSERT_TRUE(Take(first, Greeting() + Head(Kind::kMessage, kLarge), kWatched).ok());
    ZmtpWatch second(kMaxFrameBytes, budget);
    const Result<void> refused = Take(second, Greeting() + Head(Kind::kMessage, kLarge), kWatched);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  }
  EXPECT_EQ(budget->used(), 0U);
}

TEST(ZmtpWatchTest, ALargeFrameThatDoesNotEndIsLateAndASmallOneMayTakeItsTime) {
  constexpr std::size_t kLarge = ZmtpWatch::kFreeFrameBytes + 1;
  const Instant late = kWatched + ZmtpWatch::kFrameTime + std::chrono::seconds(1);
  ZmtpWatch watch(kMaxFrameBytes, nullptr);
  ASSERT_TRUE(Take(watch, Greeting() + Head(Kind::kMessage, kLarge), kWatched).ok());
  ASSERT_TRUE(Take(watch, std::string(kLarge - 1, 'x'), late - std::chrono::seconds(2)).ok());
  EXPECT_FALSE(watch.IsLate(late - std::chrono::seconds(2)));
  EXPECT_TRUE(watch.IsLate(late));
  ASSERT_TRUE(Take(watch, std::string("x") + Head(Kind::kMessage, 100), late).ok());
  EXPECT_FALSE(watch.IsLate(late + 2 * ZmtpWatch::kFrameTime));
}

}  // namespace
}  // namespace roost::wire
