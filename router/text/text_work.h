// Runs the work on requests' text: JSON, templates, tokens, hashes. A job takes from microseconds to a second, too long
// for a thread that serves sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace roost::router {

class TextWork {
 public:
  virtual ~TextWork() = default;

  // May be called from any thread. Runs `job` later on another thread, or drops it if the pool stops first. `tenant`,
  // empty for none in particular, and `bytes`, the size of the text, decide its turn. False when too many jobs wait;
  // then the job is dropped at once.
  [[nodiscard]] virtual bool TryPost(std::string_view tenant, std::size_t bytes, std::function<void()> job) = 0;
};

}  // namespace roost::router
