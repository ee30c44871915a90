// The workers' answers to an operator's question or order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/messages.h"

namespace roost::router {

// The result of warming a prompt at one worker.
struct WarmOutcome {
  enum class Kind : std::uint8_t {
    kComputed,  // all of it is there now
    kHeld,      // all of it was there already, as the index says
    kRefused,   // the worker computed none or only a part of it: see `reason`
  };
  Kind kind = Kind::kHeld;
  std::uint32_t block_count = 0;      // the prompt's leading blocks that the worker has now
  std::uint64_t computed_tokens = 0;  // for this order
  std::string reason = {};

  bool operator==(const WarmOutcome&) const = default;
};

// Whether a worker takes requests, and what it still has to do, as its reports say.
struct ServiceState {
  bool is_cordoned = false;
  std::uint32_t running_requests = 0;  // of all routers
  std::uint32_t waiting_requests = 0;
  std::uint32_t in_flight_requests = 0;  // of this router

  [[nodiscard]] bool IsIdle() const { return running_requests + waiting_requests + in_flight_requests == 0; }

  bool operator==(const ServiceState&) const = default;
};

// The worker was not asked: its version does not know such orders.
struct NotSupported {
  bool operator==(const NotSupported&) const = default;
};

// Empty: the worker does not answer such messages, was lost, or took too long.
using WorkerReply = std::variant<std::monostate, wire::PinAnswer, wire::Prefixes, WarmOutcome, wire::EvictAnswer,
                                 ServiceState, NotSupported>;

struct WorkerAnswer {
  std::string worker_id;
  WorkerReply reply = {};
};

// Called once on the link thread, with one answer for each worker that was asked, in the same order. It must not block.
using AnswersDone = std::function<void(std::vector<WorkerAnswer>)>;

}  // namespace roost::router
