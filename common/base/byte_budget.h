// One limit on the bytes of many holders. Code that keeps input (a body that arrives, a request that waits, a message
// in processing) takes its bytes from the budget first; a guard gives them back:
//
//   auto budget = std::make_shared<ByteBudget>(limit);
//   ByteBudget::Guard guard(budget);
//   if (!guard.TryGrow(bytes)) …             // refuse the request: TryGrow never waits
//   spec.memory = std::make_shared<ByteBudget::Guard>(std::move(guard));   // freed together with the request
//
// The budget is thread-safe and lock-free. A guard belongs to one thread at a time; it keeps the budget alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace roost {

class ByteBudget {
 public:
  class Guard;

  explicit ByteBudget(std::uint64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  // Bytes that all guards hold; never more than the limit.
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool TryTake(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void GiveBack(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_ = 0;
};

// The bytes that one holder has taken. Without a budget it only counts, and everything fits.
class ByteBudget::Guard {
 public:
  Guard() = default;
  explicit Guard(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  Guard(Guard&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Guard& operator=(Guard&& other) noexcept {
    if (this == &other) return *this;
    Shrink(bytes_);
    budget_ = std::move(other.budget_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~Guard() { Shrink(bytes_); }

  // False when the budget does not have this much left; then nothing changes.
  [[nodiscard]] bool TryGrow(std::uint64_t bytes) {
    if (budget_ != nullptr && !budget_->TryTake(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Sets the size to `bytes`. Only growing can fail; then nothing changes.
  [[nodiscard]] bool TryResize(std::uint64_t bytes) {
    if (bytes > bytes_) return TryGrow(bytes - bytes_);
    Shrink(bytes_ - bytes);
    return true;
  }
  // Gives back this many of its bytes.
  void Shrink(std::uint64_t bytes) {
    ROOST_CHECK(bytes <= bytes_, "{} bytes to give back of {}", bytes, bytes_);
    if (budget_ != nullptr) budget_->GiveBack(bytes);
    bytes_ -= bytes;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Would TryGrow(bytes) succeed now?
  [[nodiscard]] bool HasRoomFor(std::uint64_t bytes) const {
    return budget_ == nullptr || bytes <= budget_->limit() - budget_->used();
  }
  // Is `bytes` within the limit of the whole budget?
  [[nodiscard]] bool CouldHold(std::uint64_t bytes) const { return budget_ == nullptr || bytes <= budget_->limit(); }

 private:
  std::shared_ptr<ByteBudget> budget_;  // null: no limit
  std::uint64_t bytes_ = 0;
};

}  // namespace roost
