// The ZeroMQ connections to a foreign engine's events: what the engine publishes (SUB), and at times its replay socket
// (DEALER). Both reconnect by themselves; nothing waits. No encryption: the engines have none.
//
//   published  topic │ number, u64 big-endian │ payload
//   asked      ""    │ first number
//   answered   ""    │ topic │ number │ payload          the last one: number ff × 8; older engines omit the topic
//
// One thread. The sockets are gone before the object is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace roost::worker::foreign {

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

}  // namespace roost::worker::foreign
