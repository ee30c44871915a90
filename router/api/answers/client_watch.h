// Tells that the client of a request is gone. The connection's thread sets it, the thread that does the work
// reads it.
//
// Threads: OnGone on the connection's thread, Watch and gone from any.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace roost::router {

class ClientWatch {
 public:
  // The client went away. Called at most once.
  void OnGone() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }

  [[nodiscard]] bool gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }

  // Makes OnGone run `callback`. False, without a call, if OnGone has already run. Call it at most once.
  [[nodiscard]] bool Watch(std::function<void()> callback) {
    const std::lock_guard lock(mutex_);
    if (gone_) return false;
    callback_ = std::move(callback);
    return true;
  }

 private:
  mutable std::mutex mutex_;
  bool gone_ = false;               // guarded by mutex_
  std::function<void()> callback_;  // guarded by mutex_
};

}  // namespace roost::router
