// A queue between threads that never grows past its capacity. When it is full, a push fails at once; it does not wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace roost {

// Any number of producers and consumers. After Close, pushes fail and pops drain what is left.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) { ROOST_CHECK(capacity > 0); }

  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False when full or closed; then `item` is untouched, so the caller can still answer with it.
  [[nodiscard]] bool TryPush(T&& item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  [[nodiscard]] std::optional<T> TryPop() {
    const std::lock_guard lock(mutex_);
    return PopLocked();
  }

  // Waits up to `timeout` for an item; empty when the time has passed, or when the queue is closed and empty.
  template <typename Rep, typename Period>
  [[nodiscard]] std::optional<T> PopFor(std::chrono::duration<Rep, Period> timeout) {
    std::unique_lock lock(mutex_);
    not_empty_.wait_for(lock, timeout, [this] { return closed_ || !items_.empty(); });
    return PopLocked();
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  std::optional<T> PopLocked() {
    // One variable, one return: the item is made where the caller wants it.
    std::optional<T> item;
    if (!items_.empty()) {
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    return item;
  }

  const std::size_t capacity_;

  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace roost
