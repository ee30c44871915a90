// Puts an engine's event messages in order: they have numbers from 0 on, may be lost on the way, and can be
// asked for again while the engine's buffer has them. Pure: no sockets, no clock.
//
//   live      0 1 2 · · 5 6        3 and 4 are missing: ask for a replay from 3; 5 and 6 wait
//   replay          3 4 5 6 end    apply 3 to 6; of those that waited, the ones from 7 on are next
//
// A number that falls tells of an engine that has restarted: start from nothing, and ask for a replay from 0 unless the
// message is number 0 itself. If a replay can not bring what is missing (the engine's buffer is too short, it does not
// answer, there is no replay socket), start from nothing at the first message there is.
//
//   exact     the messages applied since the start from nothing are all that the engine sent up to the last of them, or
//             all since it emptied its cache; so it stays while a replay mends a gap
//   partial   blocks that were stored before are not known
//
// Engines may lose answers to a slow reader, and then the end marker: an answer that jumps, or silence, is asked for
// again from there on, as long as that brings anything. Messages that arrive during a replay wait, up to a bound; those
// over it are asked for afterwards.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "common/base/clock.h"

namespace roost::worker::adapters {

class EventOrder {
 public:
  enum class Replay : std::uint8_t { kNone, kCanAsk };
  struct Options {
    Replay replay = Replay::kCanAsk;
    Duration patience = std::chrono::seconds(5);  // with an engine that does not answer, or stops in the middle
    std::size_t max_waiting_bytes = std::size_t{64} << 20U;
  };

  // The steps to take, in this order.
  struct StartFromNothing {
    bool operator==(const StartFromNothing&) const = default;
  };
  struct Apply {
    std::string payload;
    bool operator==(const Apply&) const = default;
  };
  // On a new connection, so that no answer to an earlier question comes.
  struct AskReplay {
    std::uint64_t first = 0;
    bool operator==(const AskReplay&) const = default;
  };
  // No answer is needed any more.
  struct EndReplay {
    bool operator==(const EndReplay&) const = default;
  };
  using Step = std::variant<StartFromNothing, Apply, AskReplay, EndReplay>;

  struct Counts {
    std::uint64_t gaps = 0;             // live messages with a number that was too large
    std::uint64_t replays = 0;          // that were asked for
    std::uint64_t replay_failures = 0;  // that did not bring what was missing
    std::uint64_t restarts = 0;         // of the engine
    std::uint64_t lost = 0;             // messages that will never come, as far as the numbers tell
    bool operator==(const Counts&) const = default;
  };

  // Begins with a replay from 0, if there is one.
  EventOrder(const Options& options, Instant now);

  void TakeLive(std::uint64_t sequence, std::string payload, Instant now);
  void TakeReplayed(std::uint64_t sequence, std::string payload, Instant now);
  void TakeReplayEnd(Instant now);
  // Time has passed.
  void Tick(Instant now);
  // The engine has restarted. The caller has made a new live connection if there is a replay, so that no message of the
  // earlier life comes.
  void OnEngineRestart(Instant now);
  // The step that was just taken emptied the engine's cache.
  void OnCleared() { exact_ = true; }
  // The step that was just taken makes no sense; the caller has started from nothing.
  void OnNonsense() { exact_ = false; }

  // Nothing: wait. Take all steps after each of the calls above.
  [[nodiscard]] std::optional<Step> Next();

  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] bool is_replaying() const { return replay_.has_value(); }
  // The time at which Tick has something to do.
  [[nodiscard]] std::optional<Instant> deadline() const;
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Message {
    std::uint64_t sequence = 0;
    std::string payload;
  };
  struct RunningReplay {
    std::uint64_t first = 0;  // that was asked for
    Instant last_heard;
  };
  // A step, or news of exactness, or both; the news holds once the step is taken.
  struct Item {
    std::optional<Step> step;
    std::optional<bool> exact;
  };

  void Restart();
  void StartAt(std::uint64_t sequence);
  void GiveUpBefore(std::uint64_t first);
  void Ask(Instant now);
  void EndReplaying();
  void ApplyNow(Message message);
  void Wait(Message message);
  // Applies what waits, as far as nothing is missing; then asks for what is.
  void Drain(Instant now);
  // Asks for what is missing before `first`, or gives it up.
  void Mend(std::uint64_t first, Instant now);
  // Are messages known to be missing, from next_ on?
  [[nodiscard]] bool IsMissing() const;
  // They are; and a replay did not bring them.
  void GiveUpMissing();
  [[nodiscard]] bool WasReplayed(const Message& message) const;

  Options options_;
  std::uint64_t next_ = 0;                  // the number of the message to be applied next
  std::optional<std::uint64_t> last_live_;  // the last number on the live connection
  std::optional<RunningReplay> replay_;
  std::deque<Message> waiting_;  // live messages, in order of their numbers
  std::size_t waiting_bytes_ = 0;
  // Digests of the messages before next_ that a replay brought, until the live ones have caught up: a live message that
  // has the number of one of them is either the same or of the engine's next life.
  std::deque<std::size_t> replayed_digests_;
  std::deque<Item> items_;
  bool exact_ = false;
  Counts counts_;
};

}  // namespace roost::worker::adapters
