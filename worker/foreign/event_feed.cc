#include "worker/foreign/event_feed.h"

#include <span>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/log.h"

namespace roost::worker::foreign {
namespace {

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
  RunSteps(now);
}

std::vector<wire::CacheEvent> EventFeed::TakeEvents() {
  std::vector<wire::CacheEvent> events;
  book_.TakeEvents(events);
  return events;
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
    book_.Clear();
  }
}

void EventFeed::Decode(const std::string& payload, Instant now) {
  const auto changes = options_.decode(std::as_bytes(std::span(payload)));
  if (!changes.ok()) {
    // Blocks that the unread message removed would stay for ever.
    book_.Clear();
    order_.OnNonsense();
    return NoteBadMessage(changes.error().ToString(), now);
  }
  for (const CacheChange& change : changes.value()) Apply(change, now);
}

void EventFeed::Apply(const CacheChange& change, Instant now) {
  switch (book_.Apply(change)) {
    case BlockBook::Outcome::kFollowed: return;
    case BlockBook::Outcome::kEmptied: return order_.OnCleared();
    case BlockBook::Outcome::kOverflow: break;
  }
  ++overflows_;
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

}  // namespace roost::worker::foreign
