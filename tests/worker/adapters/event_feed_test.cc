// The feed over real sockets on loopback, with a fake engine that sends what vLLM 0.32 has sent.
#include "worker/adapters/events/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "tests/worker/adapters/event_tools.h"
#include "worker/adapters/events/cache_change.h"

namespace roost::worker::adapters {
namespace {

using testing::IsEmpty;
using testing_support::FramesOf;
using testing_support::Json;
using testing_support::PackedMessage;
using testing_support::Recording;

constexpr BlockHash kFeedDefault{81, 82};
constexpr std::uint32_t kFeedTokens = 4;
constexpr std::chrono::milliseconds kGlance{5};            // at what shows on no descriptor
constexpr std::chrono::milliseconds kLongestWait{20'000};  // of a test that fails
const std::string kTopic = "kv-events";
const std::string kMarker(8, '\xFF');

std::string Number(std::uint64_t number) {
  std::string bytes;
  for (unsigned shift = 64; shift > 0; shift -= 8) bytes += static_cast<char>((number >> (shift - 8)) & 0xFFU);
  return bytes;
}

// Publishes on one socket and answers replays on another, as vLLM does.
class FakeEngine {
 public:
  // Port 0: a free one.
  explicit FakeEngine(const std::string& events = "tcp://127.0.0.1:*",
                      const std::string& replay = "tcp://127.0.0.1:*") {
    for (zmq::socket_t* socket : {&published_, &replay_}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(kLongestWait).count()));
    }
    published_.bind(events);
    replay_.bind(replay);
  }

  [[nodiscard]] std::string events_endpoint() { return published_.get(zmq::sockopt::last_endpoint); }
  [[nodiscard]] std::string replay_endpoint() { return replay_.get(zmq::sockopt::last_endpoint); }

  // Has a subscription arrived since the last call?
  [[nodiscard]] bool TakeSubscription() {
    zmq::message_t subscription;
    if (!published_.recv(subscription, zmq::recv_flags::dontwait)) return false;
    EXPECT_EQ(subscription.to_string(), '\1' + kTopic);
    return true;
  }
  void Send(const std::vector<std::string>& frames) { SendOn(published_, frames); }
  void Publish(std::uint64_t number, const std::string& payload) { Send({kTopic, Number(number), payload}); }

  // The first number that is asked for.
  std::uint64_t TakeQuestion() {
    std::vector<std::string> frames;
    zmq::message_t frame;
    do {
      if (!replay_.recv(frame)) break;
      frames.push_back(frame.to_string());
    } while (frame.more());
    EXPECT_EQ(frames.size(), 3U);
    if (frames.size() != 3) return ~std::uint64_t{0};
    peer_ = frames[0];
    EXPECT_EQ(frames[1], "");
    return testing_support::NumberOf(frames[2]);
  }
  void Answer(std::vector<std::string> frames) {
    frames.insert(frames.begin(), peer_);
    SendOn(replay_, frames);
  }
  void AnswerWith(std::uint64_t number, const std::string& payload) { Answer({"", kTopic, Number(number), payload}); }
  void End() { Answer({"", "", kMarker, ""}); }

 private:
  static void SendOn(zmq::socket_t& socket, const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto flags = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      socket.send(zmq::buffer(frames[i]), flags);
    }
  }

  zmq::context_t context_;
  zmq::socket_t published_{context_, zmq::socket_type::xpub};
  zmq::socket_t replay_{context_, zmq::socket_type::router};
  std::string peer_;
};

// Stores a chain of blocks: number i holds tokens 4 i and so on.
std::string StoreMessage(std::uint32_t first, std::uint32_t count) {
  Json hashes = Json::array();
  Json tokens = Json::array();
  for (std::uint32_t i = first; i < first + count; ++i) hashes.push_back(i);
  for (std::uint32_t i = first * kFeedTokens; i < (first + count) * kFeedTokens; ++i) tokens.push_back(i);
  const Json parent = first == 0 ? Json() : Json(first - 1);
  return PackedMessage(Json::array({{{"type", "BlockStored"},
                                     {"block_hashes", hashes},
                                     {"parent_block_hash", parent},
                                     {"token_ids", tokens},
                                     {"block_size", kFeedTokens},
                                     {"medium", "GPU"}}}));
}

class EventFeedTest : public testing::Test {
 protected:
  enum class WithReplay { kYes, kNo };

  void Connect(WithReplay replay = WithReplay::kYes, std::uint32_t block_tokens = kFeedTokens) {
    engine_.emplace();
    events_endpoint_ = engine_->events_endpoint();
    replay_endpoint_ = engine_->replay_endpoint();
    EventFeed::Options options;
    options.sockets = {events_endpoint_, replay == WithReplay::kYes ? replay_endpoint_ : "", kTopic};
    options.book = {.block_tokens = block_tokens, .default_root = kFeedDefault, .max_blocks = 71};
    options.decode = DecodeVllmEvents;
    auto feed = EventFeed::Connect(options, clock_.Now());
    ASSERT_TRUE(feed.ok());
    feed_ = std::move(feed).value();
    WaitForSubscription();
  }
  // The engine's messages 0 to count - 1 are taken, and no replay is under way.
  void BeginWith(std::uint32_t count) {
    Connect();
    EXPECT_EQ(engine_->TakeQuestion(), 0U);
    engine_->End();
    Until([this] { return feed_->exact(); });
    for (std::uint32_t i = 0; i < count; ++i) engine_->Publish(i, StoreMessage(i, 1));
    Until([&] { return Blocks() == count; });
  }

  // ZeroMQ subscribes anew only while the feed is polled.
  void WaitForSubscription() {
    Until([this] { return engine_->TakeSubscription(); }, kGlance);
  }

  // Waits on the feed's descriptors, and polls it, until this is so.
  void Until(const std::function<bool()>& done, std::chrono::milliseconds wait = kLongestWait) {
    const auto end = std::chrono::steady_clock::now() + kLongestWait;
    Poll();
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it never comes";
      std::vector<pollfd> polled;
      for (const int fd : feed_->fds()) polled.push_back({fd, POLLIN, 0});
      ::poll(polled.data(), polled.size(), static_cast<int>(wait.count()));
      Poll();
    }
  }
  void Poll() {
    while (feed_->Poll(clock_.Now())) Take();
    Take();
  }
  void Take() {
    view_.Apply(feed_->TakeEvents());
    EXPECT_EQ(view_.digest(), feed_->digest());
    EXPECT_EQ(view_.positions().size(), feed_->block_count());
  }
  [[nodiscard]] std::size_t Blocks() const { return view_.positions().size(); }
  [[nodiscard]] bool HasChain(std::uint32_t blocks) const {
    std::vector<TokenId> tokens;
    for (TokenId i = 0; i < blocks * kFeedTokens; ++i) tokens.push_back(i);
    const auto hashes = HashBlocks(kFeedDefault, tokens, kFeedTokens);
    return view_.hashes() == std::set<BlockHash>(hashes.begin(), hashes.end());
  }

  ManualClock clock_;
  std::optional<FakeEngine> engine_;
  std::string events_endpoint_;
  std::string replay_endpoint_;
  std::unique_ptr<EventFeed> feed_;
  testing_support::Receiver view_;
};

TEST_F(EventFeedTest, FollowsFromTheFirstMessage) {
  BeginWith(3);
  EXPECT_TRUE(HasChain(3));
  EXPECT_TRUE(feed_->exact());
  EXPECT_EQ(feed_->counts().order, (EventOrder::Counts{.replays = 1}));
}

TEST_F(EventFeedTest, TakesARecordedReplay) {
  Connect(WithReplay::kYes, 128);
  engine_->TakeQuestion();
  for (const Json& line : Recording("replay-all.jsonl")) {
    if (line.contains("frames")) engine_->Answer(FramesOf(line.at("frames")));
  }
  Until([this] { return feed_->fds().size() == 1; });  // the replay is over
  EXPECT_EQ(Blocks(), 2U);
  EXPECT_TRUE(feed_->exact());
}

TEST_F(EventFeedTest, ALateRecordedReplayIsPartial) {
  // It begins at message 14, a new prompt of two blocks.
  Connect(WithReplay::kYes, 32);
  engine_->TakeQuestion();
  for (const Json& line : Recording("replay-tail.jsonl")) {
    if (line.contains("frames")) engine_->Answer(FramesOf(line.at("frames")));
  }
  Until([this] { return Blocks() == 2; });
  EXPECT_FALSE(feed_->exact());
  EXPECT_EQ(feed_->counts().order.lost, 14U);
}

TEST_F(EventFeedTest, RecordedEventsAreTaken) {
  Connect(WithReplay::kNo, 32);
  int messages = 0;
  for (const Json& line : Recording("events.jsonl")) {
    if (!line.contains("frames")) continue;
    engine_->Send(FramesOf(line.at("frames")));
    ++messages;
  }
  EXPECT_EQ(messages, 16);
  Until([this] { return Blocks() == 5; });  // after the reset: three blocks and two
  EXPECT_TRUE(feed_->exact());
  EXPECT_EQ(feed_->counts().bad_messages, 0U);
}

TEST_F(EventFeedTest, AGapIsMendedByAReplay) {
  BeginWith(2);
  engine_->Publish(4, StoreMessage(4, 1));
  Until([this] { return feed_->counts().order.gaps == 1; });
  EXPECT_EQ(feed_->fds().size(), 2U);
  EXPECT_EQ(engine_->TakeQuestion(), 2U);
  engine_->Publish(5, StoreMessage(5, 1));
  for (std::uint32_t i = 2; i < 5; ++i) engine_->AnswerWith(i, StoreMessage(i, 1));
  engine_->End();
  Until([this] { return Blocks() == 6; });
  EXPECT_TRUE(HasChain(6));
  EXPECT_TRUE(feed_->exact());
}

TEST_F(EventFeedTest, OlderEnginesAnswerWithoutATopic) {
  BeginWith(1);
  engine_->Publish(3, StoreMessage(3, 1));
  Until([this] { return feed_->counts().order.gaps == 1; });
  engine_->TakeQuestion();
  engine_->Answer({"", Number(1), StoreMessage(1, 1)});
  engine_->Answer({Number(2), StoreMessage(2, 1)});
  engine_->Answer({"", kMarker, ""});
  Until([this] { return Blocks() == 4; });
  EXPECT_TRUE(HasChain(4));
}

TEST_F(EventFeedTest, AnEndMarkerThatNeverComesIsAskedForAgain) {
  BeginWith(1);
  engine_->Publish(5, StoreMessage(5, 1));
  Until([this] { return feed_->counts().order.gaps == 1; });
  EXPECT_EQ(engine_->TakeQuestion(), 1U);
  engine_->AnswerWith(1, StoreMessage(1, 1));
  engine_->AnswerWith(2, StoreMessage(2, 1));
  Until([this] { return Blocks() == 3; });
  EXPECT_EQ(feed_->deadline(), clock_.Now() + std::chrono::seconds(5));
  clock_.Advance(std::chrono::seconds(5));
  Poll();
  EXPECT_EQ(engine_->TakeQuestion(), 3U) << "on a new connection";
  for (std::uint32_t i = 3; i < 5; ++i) engine_->AnswerWith(i, StoreMessage(i, 1));
  engine_->End();
  Until([this] { return Blocks() == 6; });
  EXPECT_TRUE(feed_->exact());
}

TEST_F(EventFeedTest, AReplaySocketThatIsSilentIsGivenUp) {
  BeginWith(2);
  engine_->Publish(4, StoreMessage(0, 3));
  Until([this] { return feed_->counts().order.gaps == 1; });
  clock_.Advance(std::chrono::seconds(5));
  Poll();
  EXPECT_FALSE(feed_->exact());
  EXPECT_TRUE(HasChain(3)) << "what the message stores, and no more";
  engine_->Publish(5, PackedMessage(Json::array({{{"type", "AllBlocksCleared"}}})));
  Until([this] { return feed_->exact(); });
  EXPECT_THAT(view_.hashes(), IsEmpty());
}

TEST_F(EventFeedTest, ANewLifeOfTheEngineStartsFromNothing) {
  BeginWith(3);
  engine_.reset();
  engine_.emplace(events_endpoint_, replay_endpoint_);
  WaitForSubscription();
  engine_->Publish(0, StoreMessage(0, 1));
  Until([this] { return feed_->counts().order.restarts == 1; });
  EXPECT_TRUE(HasChain(1));
  EXPECT_TRUE(feed_->exact());
}

TEST_F(EventFeedTest, ARestartThatSomebodyElseSees) {
  BeginWith(3);
  feed_->OnEngineRestart(clock_.Now());
  Take();
  EXPECT_THAT(view_.hashes(), IsEmpty());
  EXPECT_EQ(engine_->TakeQuestion(), 0U);
  engine_->AnswerWith(0, StoreMessage(0, 2));
  engine_->End();
  Until([this] { return feed_->exact(); });
  EXPECT_TRUE(HasChain(2));
}

TEST_F(EventFeedTest, AMessageThatCanNotBeReadStartsFromNothing) {
  BeginWith(2);
  engine_->Publish(2, "no MessagePack");
  Until([this] { return feed_->counts().bad_messages == 1; });
  EXPECT_THAT(view_.hashes(), IsEmpty());
  EXPECT_FALSE(feed_->exact());
  engine_->Publish(3, StoreMessage(0, 1));
  Until([this] { return Blocks() == 1; });
}

TEST_F(EventFeedTest, MessagesOfAnotherShapeAreCounted) {
  BeginWith(1);
  engine_->Send({kTopic, "short", StoreMessage(1, 1)});
  engine_->Send({kTopic, Number(1)});
  engine_->Send({kTopic + "-other", Number(1), StoreMessage(1, 1)});
  engine_->Send({kTopic, kMarker, ""});
  engine_->Send({kTopic, "2", "3", "4", "5", "6", "7", "8"});
  engine_->Publish(1, StoreMessage(1, 1));
  Until([this] { return Blocks() == 2; });
  EXPECT_EQ(feed_->counts().bad_messages, 5U);
  EXPECT_TRUE(feed_->exact());
}

TEST_F(EventFeedTest, MoreBlocksThanTheEngineHasStartFromNothing) {
  BeginWith(1);
  engine_->Publish(1, StoreMessage(1, 71));
  Until([this] { return feed_->counts().overflows == 1; });
  EXPECT_THAT(view_.hashes(), IsEmpty());
  EXPECT_FALSE(feed_->exact());
}

TEST_F(EventFeedTest, APollDoesABoundedAmountOfWork) {
  BeginWith(0);
  for (std::uint32_t i = 0; i < 70; ++i) engine_->Publish(i, StoreMessage(i, 1));
  std::size_t most = 0;
  Until([&] {
    const std::size_t before = Blocks();
    (void)feed_->Poll(clock_.Now());
    Take();
    most = std::max(most, Blocks() - before);
    return Blocks() == 70;
  });
  EXPECT_LE(most, 64U);
}

TEST_F(EventFeedTest, RefusesWhatIsNoEndpoint) {
  EventFeed::Options options;
  options.book = {.block_tokens = kFeedTokens, .default_root = kFeedDefault, .max_blocks = 1};
  options.decode = DecodeVllmEvents;
  options.sockets = {"nowhere", "", ""};
  EXPECT_EQ(EventFeed::Connect(options, clock_.Now()).error().field, "nowhere");
  options.sockets = {"tcp://127.0.0.1:1", "tcp://:x", ""};
  EXPECT_EQ(EventFeed::Connect(options, clock_.Now()).error().field, "tcp://:x");
}

TEST(ToldShareTest, NearlyAllIsKnownOnceHitsSayNothingNew) {
  ToldShare share;
  const auto window = [&share](std::uint32_t told, std::uint32_t found) {
    for (int i = 0; i < 64; ++i) share.Note(told, found);
    return share.is_nearly_all();
  };
  EXPECT_EQ(share.value(), 0);
  EXPECT_FALSE(window(0, 0)) << "misses say nothing";
  EXPECT_EQ(share.value(), 0);
  EXPECT_FALSE(window(32, 128));
  EXPECT_EQ(share.value(), 0.25);
  EXPECT_FALSE(window(96, 100));
  EXPECT_TRUE(window(200, 100)) << "more was known than is there now";
  EXPECT_EQ(share.value(), 1);
  EXPECT_TRUE(window(92, 100));
  EXPECT_FALSE(window(80, 100));
  EXPECT_FALSE(window(96, 100));
  EXPECT_TRUE(window(99, 100));
  share.Clear();
  EXPECT_FALSE(share.is_nearly_all());
}

}  // namespace
}  // namespace roost::worker::adapters
