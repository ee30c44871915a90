// One limit on the bytes of many holders. Code that keeps input (a body that arrives, a request that waits, a message
// in processing) takes its bytes from the budget first; a guard gives them back:
//
//   auto budget = std::make_shared<ByteBudget>(limit);
//   ByteBudget::Guard guard(budget);
//   if (!guard.TryGrow(bytes)) …             // refuse the request: TryGrow never waits
//   spec.memory = std::make_shared<ByteBudget::Guard>(std::move(guard));   // freed together with the request
//
// A budget may be a share of a larger one. Its bytes count in both, so no holder of a share takes all of the whole:
//
//   auto share = std::make_shared<ByteBudget>(limit / 2, budget);
//
// The budget is thread-safe and lock-free. A guard belongs to one thread at a time; it keeps the budget alive.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace roost {

class ByteBudget {
 public:
  class Guard;

  explicit ByteBudget(std::uint64_t limit, std::shared_ptr<ByteBudget> whole = nullptr)
      : limit_(limit), whole_(std::move(whole)) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  [[nodiscard]] std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // Guards that hold more than a lower limit keep it; nothing is taken until there is room again.
  void SetLimit(std::uint64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  // Bytes that all guards hold; never more than the limit was when they were taken.
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // The most that one guard can ever hold: the least limit of this budget and those that it is a share of.
  [[nodiscard]] std::uint64_t most() const { return whole_ == nullptr ? limit() : std::min(limit(), whole_->most()); }
  // Bytes that are free now, here and in the budget that this is a share of.
  [[nodiscard]] std::uint64_t room() const {
    const std::uint64_t own = limit() - std::min(limit(), used());
    return whole_ == nullptr ? own : std::min(own, whole_->room());
  }

 private:
  [[nodiscard]] bool TryTake(std::uint64_t bytes) {
    const std::uint64_t most = limit();
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used > most || bytes > most - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (whole_ == nullptr || whole_->TryTake(bytes)) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void GiveBack(std::uint64_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->GiveBack(bytes);
  }

  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> used_ = 0;
  const std::shared_ptr<ByteBudget> whole_;  // null: this is no share
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

  // Moves what is held to another budget. False when that has no room; then nothing changes.
  [[nodiscard]] bool TryMoveTo(std::shared_ptr<ByteBudget> budget) {
    Guard other(std::move(budget));
    if (!other.TryGrow(bytes_)) return false;
    *this = std::move(other);
    return true;
  }
  // One that holds nothing yet of the same budget.
  [[nodiscard]] Guard Another() const { return Guard(budget_); }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Would TryGrow(bytes) succeed now?
  [[nodiscard]] bool HasRoomFor(std::uint64_t bytes) const { return budget_ == nullptr || bytes <= budget_->room(); }
  // The most that it can ever hold.
  [[nodiscard]] std::uint64_t most() const {
    return budget_ == nullptr ? std::numeric_limits<std::uint64_t>::max() : budget_->most();
  }
  [[nodiscard]] bool CouldHold(std::uint64_t bytes) const { return bytes <= most(); }

 private:
  std::shared_ptr<ByteBudget> budget_;  // null: no limit
  std::uint64_t bytes_ = 0;
};

}  // namespace roost
