// The fate of blocks that a worker computed for an earlier request of the same conversation.
#pragma once

#include <cstdint>
#include <string>

namespace roost::router {

struct BlockLoss {
  enum class Worker : std::uint8_t {
    kUnknown,
    kThere,      // it is there, and lacks them
    kClosed,     // it holds them, and takes no requests: it is cordoned, full, or about to leave
    kRestarted,  // another process has its name
    kLeft,       // it said so
    kLost,
  } worker = Worker::kUnknown;
  enum class Level : std::uint8_t {
    kMemory,    // its pool made room for others
    kDisk,      // and so did its disk
    kEngine,    // an engine of another program, which keeps what it likes
    kOperator,  // an order erased them
  } level = Level::kMemory;
  std::string worker_id;  // empty: it is not known
};

}  // namespace roost::router
