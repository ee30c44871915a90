#include "worker/adapters/events/event_feed.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <zmq.hpp>

#include "common/base/check.h"
#include "common/base/log.h"
#include "worker/adapters/events/message_pack.h"

namespace roost::worker::adapters {
namespace {

constexpr int kMaxUntaken = 16384;  // published messages in memory; more are lost, and asked for again
constexpr std::size_t kMaxFrames = 4;
constexpr std::size_t kSequenceBytes = 8;
constexpr std::uint64_t kEndMarker = ~std::uint64_t{0};

using Milliseconds = std::chrono::milliseconds;
constexpr Milliseconds kFirstReconnect{100};
constexpr Milliseconds kSlowestReconnect{2000};
// An engine's machine that vanishes closes no connection.
constexpr Milliseconds kHeartbeat{10'000};
constexpr Milliseconds kHeartbeatTimeout{30'000};

int Count(Milliseconds time) { return static_cast<int>(time.count()); }

void SetEventOptions(zmq::socket_t& socket, const std::string& endpoint, int receive_mark) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvhwm, receive_mark);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxPackedBytes));
  socket.set(zmq::sockopt::reconnect_ivl, Count(kFirstReconnect));
  socket.set(zmq::sockopt::reconnect_ivl_max, Count(kSlowestReconnect));
  socket.set(zmq::sockopt::heartbeat_ivl, Count(kHeartbeat));
  socket.set(zmq::sockopt::heartbeat_timeout, Count(kHeartbeatTimeout));
  socket.set(zmq::sockopt::ipv6, endpoint.find('[') != std::string::npos);
}

// False when none is there now.
bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& frame) {
  while (true) {
    try {
      return socket.recv(frame, zmq::recv_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      ROOST_CHECK(error.num() == EINTR, "zmq recv: {}", error.what());
    }
  }
}

// All frames of one message, but only the first kMaxFrames + 1 are kept. Empty: there is no message.
std::vector<zmq::message_t> ReceiveFrames(zmq::socket_t& socket) {
  std::vector<zmq::message_t> frames;
  zmq::message_t frame;
  while (ReceiveFrame(socket, frame)) {
    const bool more = frame.more();
    if (frames.size() <= kMaxFrames) frames.push_back(std::move(frame));
    if (!more) break;
  }
  return frames;
}

std::optional<std::uint64_t> SequenceOf(std::string_view frame) {
  if (frame.size() != kSequenceBytes) return std::nullopt;
  std::uint64_t value = 0;
  for (const char byte : frame) value = (value << 8U) | static_cast<unsigned char>(byte);
  return value;
}

// The last two frames of a message are its number and its payload.
EventSockets::Received ReadFrames(const std::vector<zmq::message_t>& frames) {
  using Kind = EventSockets::Kind;
  if (frames.empty()) return {};
  if (frames.size() < 2 || frames.size() > kMaxFrames) return {Kind::kBad, {}};
  const std::optional<std::uint64_t> sequence = SequenceOf(frames[frames.size() - 2].to_string_view());
  if (!sequence) return {Kind::kBad, {}};
  if (*sequence == kEndMarker) return {Kind::kReplayEnd, {}};
  return {Kind::kMessage, {*sequence, frames.back().to_string()}};
}

}  // namespace

struct EventSockets::State {
  explicit State(const Options& given) : options(given) {}

  // May throw zmq::error_t.
  void Subscribe() {
    published = zmq::socket_t(context, zmq::socket_type::sub);
    SetEventOptions(published, options.events_endpoint, kMaxUntaken);
    published.set(zmq::sockopt::subscribe, options.topic);
    published.connect(options.events_endpoint);
  }
  void ConnectReplay() {
    replay = zmq::socket_t(context, zmq::socket_type::dealer);
    SetEventOptions(replay, options.replay_endpoint, 0);  // no limit: the engine drops what does not fit
    replay.connect(options.replay_endpoint);
  }

  Options options;
  zmq::context_t context{1};
  zmq::socket_t published;
  zmq::socket_t replay;  // without a handle between replays
};

EventSockets::EventSockets(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventSockets::EventSockets(EventSockets&&) noexcept = default;
EventSockets& EventSockets::operator=(EventSockets&&) noexcept = default;
EventSockets::~EventSockets() = default;

Result<EventSockets> EventSockets::Connect(const Options& options) {
  const std::string* tried = &options.events_endpoint;
  try {
    auto state = std::make_unique<State>(options);
    state->Subscribe();
    tried = &options.replay_endpoint;
    if (!options.replay_endpoint.empty()) state->ConnectReplay();
    state->replay = zmq::socket_t();
    return EventSockets(std::move(state));
  } catch (const zmq::error_t& error) {
    return InvalidArgument(*tried, "is not an address of an engine's events: {}", error.what());
  }
}

EventSockets::Received EventSockets::TakePublished() {
  const std::vector<zmq::message_t> frames = ReceiveFrames(state_->published);
  if (frames.empty()) return {};
  const std::string& topic = state_->options.topic;
  // A subscription is to all topics that begin so.
  const bool is_ours = frames.size() == 3 && (topic.empty() || frames.front().to_string_view() == topic);
  const Received received = is_ours ? ReadFrames(frames) : Received{Kind::kBad, {}};
  return received.kind == Kind::kReplayEnd ? Received{Kind::kBad, {}} : received;
}

EventSockets::Received EventSockets::TakeAnswer() {
  if (state_->replay.handle() == nullptr) return {};
  return ReadFrames(ReceiveFrames(state_->replay));
}

void EventSockets::AskReplay(std::uint64_t first) {
  std::array<unsigned char, kSequenceBytes> bytes;
  for (unsigned i = 0; i < kSequenceBytes; ++i)
    bytes[i] = static_cast<unsigned char>((first >> (56U - 8U * i)) & 0xFFU);
  try {
    state_->ConnectReplay();
    state_->replay.send(zmq::message_t(), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    state_->replay.send(zmq::buffer(bytes), zmq::send_flags::dontwait);
  } catch (const zmq::error_t& error) {
    ROOST_CHECK(false, "zmq replay: {}", error.what());  // Connect has tried the endpoint
  }
}

void EventSockets::EndReplay() { state_->replay = zmq::socket_t(); }

void EventSockets::SubscribeAgain() {
  try {
    state_->Subscribe();
  } catch (const zmq::error_t& error) {
    ROOST_CHECK(false, "zmq subscribe: {}", error.what());  // Connect has tried the endpoint
  }
}

std::vector<int> EventSockets::fds() const {
  std::vector<int> fds{state_->published.get(zmq::sockopt::fd)};
  if (state_->replay.handle() != nullptr) fds.push_back(state_->replay.get(zmq::sockopt::fd));
  return fds;
}

namespace {

// A view is judged by so many hits at a time.
constexpr std::uint32_t kHitsPerWindow = 64;
constexpr double kNearlyAll = 0.98;
constexpr double kTooLittle = 0.9;  // of a view that knew nearly all

// The most messages that one call takes from each of the two connections.
constexpr int kMessagesPerPoll = 64;
constexpr Duration kLogPause = std::chrono::minutes(1);

EventOrder::Options OrderOptions(const EventFeed::Options& options) {
  EventOrder::Options order;
  order.replay = options.sockets.replay_endpoint.empty() ? EventOrder::Replay::kNone : EventOrder::Replay::kCanAsk;
  order.patience = options.replay_patience;
  return order;
}

}  // namespace

void ToldShare::Note(std::uint32_t told, std::uint32_t found) {
  if (found == 0) return;
  told_ += std::min(told, found);
  found_ += found;
  if (++hit_count_ < kHitsPerWindow) return;
  value_ = static_cast<double>(told_) / static_cast<double>(found_);
  is_nearly_all_ = value_ >= (is_nearly_all_ ? kTooLittle : kNearlyAll);
  hit_count_ = 0;
  told_ = 0;
  found_ = 0;
}

Result<std::unique_ptr<EventFeed>> EventFeed::Connect(const Options& options, Instant now) {
  ROOST_CHECK(options.decode != nullptr);
  ROOST_ASSIGN_OR_RETURN(EventSockets sockets, EventSockets::Connect(options.sockets));
  return std::unique_ptr<EventFeed>(new EventFeed(options, std::move(sockets), now));
}

EventFeed::EventFeed(const Options& options, EventSockets sockets, Instant now)
    : options_(options), sockets_(std::move(sockets)), order_(OrderOptions(options), now), book_(options.book) {
  RunSteps(now);
}

bool EventFeed::Poll(Instant now) {
  const EventOrder::Counts before = order_.counts();
  order_.Tick(now);
  RunSteps(now);
  bool more = true;
  for (int round = 0; more && round < kMessagesPerPoll; ++round) {
    const bool published = TakePublished(now);
    const bool answered = TakeAnswer(now);
    more = published || answered;
  }
  LogOrder(before, now);
  return more;
}

void EventFeed::OnEngineRestart(Instant now) {
  if (!options_.sockets.replay_endpoint.empty()) sockets_.SubscribeAgain();
  order_.OnEngineRestart(now);
  book_.ExpectFoundRuns(false);
  RunSteps(now);
}

void EventFeed::NoteHit(const HitGuess& guess, std::uint32_t found) {
  if (!order_.exact()) told_share_.Note(guess.tokens, found);
}

std::vector<wire::CacheEvent> EventFeed::TakeEvents() {
  std::vector<wire::CacheEvent> events;
  book_.TakeEvents(events);
  return events;
}

bool EventFeed::has_checkpoints() const {
  return book_.has_checkpoints() || (options_.expects_groups && !book_.looks_plain());
}

EventFeed::Counts EventFeed::counts() const { return {order_.counts(), bad_messages_, overflows_, book_.left_out()}; }

bool EventFeed::TakePublished(Instant now) {
  EventSockets::Received received = sockets_.TakePublished();
  if (received.kind == EventSockets::Kind::kNothing) return false;
  if (received.kind == EventSockets::Kind::kMessage) {
    order_.TakeLive(received.message.sequence, std::move(received.message.payload), now);
    RunSteps(now);
  } else {
    NoteBadMessage("its frames are not a topic, a number and a payload", now);
  }
  return true;
}

bool EventFeed::TakeAnswer(Instant now) {
  EventSockets::Received received = sockets_.TakeAnswer();
  switch (received.kind) {
    case EventSockets::Kind::kNothing: return false;
    case EventSockets::Kind::kBad: NoteBadMessage("its frames are no answer to a replay", now); return true;
    case EventSockets::Kind::kReplayEnd: order_.TakeReplayEnd(now); break;
    case EventSockets::Kind::kMessage:
      order_.TakeReplayed(received.message.sequence, std::move(received.message.payload), now);
      break;
  }
  RunSteps(now);
  return true;
}

void EventFeed::RunSteps(Instant now) {
  while (const std::optional<EventOrder::Step> step = order_.Next()) Run(*step, now);
}

void EventFeed::Run(const EventOrder::Step& step, Instant now) {
  if (const auto* apply = std::get_if<EventOrder::Apply>(&step)) {
    Decode(apply->payload, now);
  } else if (const auto* ask = std::get_if<EventOrder::AskReplay>(&step)) {
    sockets_.AskReplay(ask->first);
  } else if (std::holds_alternative<EventOrder::EndReplay>(step)) {
    sockets_.EndReplay();
  } else {
    BeginAnew();
  }
}

void EventFeed::BeginAnew() {
  book_.Clear();
  told_share_.Clear();
}

void EventFeed::Decode(const std::string& payload, Instant now) {
  const auto changes = options_.decode(std::as_bytes(std::span(payload)));
  if (!changes.ok()) {
    // Blocks that the unread message removed would stay for ever.
    BeginAnew();
    order_.OnNonsense();
    return NoteBadMessage(changes.error().ToString(), now);
  }
  // The engine may be asked to, and goes on telling for a while.
  if (!order_.exact() && !is_replaying()) book_.ExpectFoundRuns(true);
  for (const CacheChange& change : changes.value()) Apply(change, now);
  book_.Settle();
}

void EventFeed::Apply(const CacheChange& change, Instant now) {
  switch (book_.Apply(change)) {
    case BlockBook::Outcome::kFollowed: return;
    case BlockBook::Outcome::kEmptied: book_.ExpectFoundRuns(false); return order_.OnCleared();
    case BlockBook::Outcome::kOverflow: break;
  }
  ++overflows_;
  told_share_.Clear();
  order_.OnNonsense();
  if (!MayLog(Trouble::kOverflow, now)) return;
  LogWarning("the engine's events store more blocks than it has; the view of its cache starts from nothing",
             {{"blocks", options_.book.max_blocks}});
}

void EventFeed::NoteBadMessage(std::string_view error, Instant now) {
  ++bad_messages_;
  if (!MayLog(Trouble::kBadMessage, now)) return;
  LogWarning("an event message of the engine can not be read",
             {{"engine", options_.sockets.events_endpoint}, {"error", std::string(error)}});
}

void EventFeed::LogOrder(const EventOrder::Counts& before, Instant now) {
  const EventOrder::Counts& after = order_.counts();
  const LogField engine{"engine", options_.sockets.events_endpoint};
  if (after.restarts > before.restarts && MayLog(Trouble::kRestart, now)) {
    LogWarning("the engine has restarted; the view of its cache starts from nothing", {engine});
  }
  if (after.lost > before.lost && MayLog(Trouble::kLost, now)) {
    LogWarning("events of the engine are lost; the view of its cache starts from nothing and is partial",
               {engine, {"lost", after.lost - before.lost}});
  }
  if (after.replay_failures > before.replay_failures && MayLog(Trouble::kReplay, now)) {
    LogWarning("a replay of the engine's events did not bring what is missing",
               {engine, {"replay", options_.sockets.replay_endpoint}});
  }
}

bool EventFeed::MayLog(Trouble trouble, Instant now) {
  std::optional<Instant>& last = logged_[static_cast<std::size_t>(trouble)];
  if (last && now - *last < kLogPause) return false;
  last = now;
  return true;
}

}  // namespace roost::worker::adapters
