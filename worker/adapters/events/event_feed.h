// The cache of vLLM or SGLang, as seen from here: receives the engine's events, puts them in order (event_order.h),
// follows them in our terms (block_book.h), and gives out wire::CacheEvents.
//
//   engine ── SUB, DEALER ──→ EventSockets ──→ EventOrder ──→ decode ──→ BlockBook ──→ TakeEvents(), Snapshot()
//
// When the view starts from nothing (the engine has restarted, or messages are lost), the events remove all blocks that
// were visible, and store those that are found again. So who applies all events needs no other path.
//
// One thread: it waits on fds() until deadline(), calls Poll until that returns false, and takes the events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/events/block_book.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/event_order.h"
#include "worker/adapters/events/resume_points.h"

namespace roost::worker::adapters {

// The ZeroMQ connections to an engine's events: what the engine publishes (SUB), and at times its replay socket
// (DEALER). Both reconnect by themselves; nothing waits. No encryption: the engines have none.
//
//   published  topic │ number, u64 big-endian │ payload
//   asked      ""    │ first number
//   answered   ""    │ topic │ number │ payload          the last one: number ff × 8; older engines omit the topic
//
// One thread. The sockets are gone before the object is.
class EventSockets {
 public:
  struct Options {
    std::string events_endpoint;  // that the engine binds: tcp://host:port
    std::string replay_endpoint;  // likewise; empty: none
    std::string topic;            // empty: all topics
  };
  struct Message {
    std::uint64_t sequence = 0;
    std::string payload;
  };
  // The kind of a received message; kNothing: there was none.
  enum class Kind : std::uint8_t { kNothing, kMessage, kReplayEnd, kBad };
  struct Received {
    Kind kind = Kind::kNothing;
    Message message;  // kMessage
  };

  // kInvalidArgument: not an endpoint.
  [[nodiscard]] static Result<EventSockets> Connect(const Options& options);
  EventSockets(EventSockets&&) noexcept;
  EventSockets& operator=(EventSockets&&) noexcept;
  ~EventSockets();

  [[nodiscard]] Received TakePublished();
  // From the replay that was asked for last.
  [[nodiscard]] Received TakeAnswer();
  // On a new connection; there is a replay endpoint.
  void AskReplay(std::uint64_t first);
  void EndReplay();
  // Forgets what was published and not yet taken.
  void SubscribeAgain();

  // File descriptors for a poll. They are edge-triggered: a descriptor becomes readable when something changes, so take
  // all messages before waiting. AskReplay, EndReplay and SubscribeAgain change the list.
  [[nodiscard]] std::vector<int> fds() const;

 private:
  struct State;
  explicit EventSockets(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Finds out whether a view that began in the middle knows nearly all that requests find. All that it knows is there,
// and it learns of the rest as the engine stores it anew, or tells of it when a request finds it. So the share grows
// with the traffic, and falls only if clients come back to blocks that were idle since.
class ToldShare {
 public:
  // A request found `found` tokens of its prompt, of which `told` were known before.
  void Note(std::uint32_t told, std::uint32_t found);
  void Clear() { *this = ToldShare(); }

  // The share of the last window; 0: not known yet.
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool is_nearly_all() const { return is_nearly_all_; }

 private:
  std::uint32_t hit_count_ = 0;  // of the window
  std::uint64_t told_ = 0;
  std::uint64_t found_ = 0;
  double value_ = 0;
  bool is_nearly_all_ = false;
};

class EventFeed {
 public:
  struct Options {
    EventSockets::Options sockets;
    BlockBook::Options book;
    EventDecoder decode = nullptr;
    bool expects_groups = false;  // by the model's configuration; until the events show otherwise
    Duration replay_patience = EventOrder::Options().patience;
  };
  struct Counts {
    EventOrder::Counts order;
    std::uint64_t bad_messages = 0;  // of a wrong form
    std::uint64_t overflows = 0;     // see BlockBook::Outcome
    LeftOutCounts left_out{};
  };

  // Connects in the background. kInvalidArgument: not an endpoint.
  [[nodiscard]] static Result<std::unique_ptr<EventFeed>> Connect(const Options& options, Instant now);

  // Takes messages that are there, up to a bound; never waits. True: there may be more, call it again before waiting.
  [[nodiscard]] bool Poll(Instant now);
  // For a poll; edge-triggered, and different after a Poll or OnEngineRestart: see EventSockets::fds.
  [[nodiscard]] std::vector<int> fds() const { return sockets_.fds(); }
  // The time at which Poll has something to do without a message. Nothing: never.
  [[nodiscard]] std::optional<Instant> deadline() const { return order_.deadline(); }

  // The engine has restarted, as another sign than its events tells.
  void OnEngineRestart(Instant now);

  // Those since the last call.
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents();
  // All visible blocks, parents before children, after all events, taken or not: take them first.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const { return book_.Snapshot(); }

  // A request that was to find as much as `guess` says found `found` tokens in the engine's own cache.
  void NoteHit(const HitGuess& guess, std::uint32_t found);
  [[nodiscard]] HitGuess Guess(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const {
    return book_.Guess(hashes, prompt_tokens);
  }
  [[nodiscard]] std::uint32_t engine_block_tokens() const { return book_.engine_block_tokens(); }

  // Are these all blocks that the engine had at the last event that was applied, but for those that are left out, or
  // nearly all that its requests find?
  [[nodiscard]] bool exact() const { return (order_.exact() || told_share_.is_nearly_all()) && book_.can_follow(); }
  // Should the engine tell again of the blocks that a request finds? So a view that began in the middle comes to know
  // what is in use. Never where there may be several groups of layers: vLLM 0.32 dies of an IndexError when it tells of
  // a hit that ends inside a block.
  [[nodiscard]] bool wants_found_runs() const {
    return book_.looks_plain() && book_.can_follow() && !exact() && !is_replaying();
  }
  // While they are not all: see ToldShare.
  [[nodiscard]] double told_share() const { return order_.exact() ? 0 : told_share_.value(); }
  // Is what is missing under way?
  [[nodiscard]] bool is_replaying() const { return order_.is_replaying(); }
  [[nodiscard]] BlockHash digest() const { return book_.digest(); }
  [[nodiscard]] std::size_t block_count() const { return book_.block_count(); }
  // See wire::Hello::checkpoints.
  [[nodiscard]] bool has_checkpoints() const;
  [[nodiscard]] const ResumePoints& resume_points() const { return book_.resume_points(); }
  [[nodiscard]] Counts counts() const;

 private:
  // The troubles that are logged, each at most once a minute.
  enum class Trouble : std::uint8_t { kRestart, kLost, kReplay, kOverflow, kBadMessage };

  EventFeed(const Options& options, EventSockets sockets, Instant now);

  [[nodiscard]] bool TakePublished(Instant now);
  [[nodiscard]] bool TakeAnswer(Instant now);
  // Does what the order says.
  void RunSteps(Instant now);
  void Run(const EventOrder::Step& step, Instant now);
  // With nothing known of what the engine holds.
  void BeginAnew();
  void Decode(const std::string& payload, Instant now);
  void Apply(const CacheChange& change, Instant now);
  void NoteBadMessage(std::string_view error, Instant now);
  void LogOrder(const EventOrder::Counts& before, Instant now);
  [[nodiscard]] bool MayLog(Trouble trouble, Instant now);

  Options options_;
  EventSockets sockets_;
  EventOrder order_;
  BlockBook book_;
  ToldShare told_share_;  // since the book began in the middle
  std::uint64_t bad_messages_ = 0;
  std::uint64_t overflows_ = 0;
  std::array<std::optional<Instant>, 5> logged_;  // by Trouble: the last time
};

}  // namespace roost::worker::adapters
