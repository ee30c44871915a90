// What workers say to an operator's question or order, as whoever asked gets to see it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/messages.h"

namespace roost::router {

// What became of a prompt that a worker was to hold.
struct WarmOutcome {
  enum class Kind : std::uint8_t {
    kComputed,  // all of it is there now
    kHeld,      // all of it was there already, as the index says
    kRefused,   // the worker did not compute it, or not to its end: `reason`
  };
  Kind kind = Kind::kHeld;
  std::uint32_t block_count = 0;      // of its blocks, front to back, that are there now
  std::uint64_t computed_tokens = 0;  // for this order
  std::string reason = {};

  bool operator==(const WarmOutcome&) const = default;
};

// Nothing: the worker does not answer, was lost, or took too long.
using WorkerReply = std::variant<std::monostate, wire::PinAnswer, wire::Prefixes, WarmOutcome>;

struct WorkerAnswer {
  std::string worker_id;
  WorkerReply reply = {};
};

// Called once, with one answer for each worker that was asked, in the order in which they were. From the link thread:
// it hands over and returns.
using AnswersDone = std::function<void(std::vector<WorkerAnswer>)>;

}  // namespace roost::router
