// Functions that other threads have for a thread of the server, in the order in which they came. Private to
// common/http.
//
// Waking a thread costs more than most of these functions, so it is woken once for all that come together:
//
//   any thread    Put*  TakeRing: true ──► wakes the thread
//   the thread    Take ──► runs them
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace roost {

class Connection;

class PostBox {
 public:
  struct Letter {
    std::weak_ptr<Connection> connection;
    std::function<void()> function;
  };

  void Put(Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }

  // Takes the duty to wake the thread: true if letters wait and the thread was not woken for them. Then the caller must
  // wake it.
  [[nodiscard]] bool TakeRing() {
    const std::lock_guard lock(mutex_);
    return !letters_.empty() && !std::exchange(is_rung_, true);
  }
  // The caller could not wake it.
  void GiveRingBack() {
    const std::lock_guard lock(mutex_);
    is_rung_ = false;
  }

  [[nodiscard]] std::vector<Letter> Take() {
    const std::lock_guard lock(mutex_);
    is_rung_ = false;
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_, as the next
  bool is_rung_ = false;         // the thread will call Take
};

}  // namespace roost
