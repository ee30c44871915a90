// The link thread's interface to an engine: the engine of this process (engine_thread.h) or another program behind it
// (worker/adapters).
//
// Threads: the owner calls Start and Stop; only the link thread calls TryPost, HasRoomForRequest and TryTake. The waker
// that the host was made with is rung after each output.
#pragma once

#include <cstddef>
#include <optional>

#include "worker/engine_api/exchange.h"
#include "worker/engine_api/stall_watch.h"

namespace roost::worker {

inline constexpr std::size_t kInboxCapacity = 2048;
// The limit for requests; the rest of the inbox is left for cancels and snapshots.
inline constexpr std::size_t kInboxRequestLimit = 1024;
inline constexpr std::size_t kOutboxCapacity = 1024;

class EngineHost {
 public:
  virtual ~EngineHost() = default;

  virtual void Start() = 0;
  // Ends after what runs now. Idempotent.
  virtual void Stop() = 0;

  // False when the inbox is full; then `command` is unchanged.
  [[nodiscard]] virtual bool TryPost(EngineCommand&& command) = 0;
  [[nodiscard]] virtual bool HasRoomForRequest() const = 0;
  [[nodiscard]] virtual std::optional<EngineOutput> TryTake() = 0;
  // From any thread.
  [[nodiscard]] virtual const StallWatch& stall_watch() const = 0;
  // At this time; none where blocks stay.
  [[nodiscard]] virtual TravellingBytes travelling_bytes() const { return {}; }
};

}  // namespace roost::worker
