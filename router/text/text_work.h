// Where work on requests' text is done: JSON, templates, tokens, hashes. It takes from microseconds to a second, so it
// has no place on a thread that serves sockets.
#pragma once

#include <cstddef>
#include <functional>

namespace roost::router {

class TextWork {
 public:
  virtual ~TextWork() = default;

  // From any thread. Does `job` later, on a thread of its own, or drops it when it stops before. `bytes` is the size of
  // what the job reads, by which it gets its turn. False when too many wait; then the job is dropped at once.
  [[nodiscard]] virtual bool TryPost(std::size_t bytes, std::function<void()> job) = 0;
};

}  // namespace roost::router
