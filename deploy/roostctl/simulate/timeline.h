// Virtual time: a queue of events. Events at the same instant run in the order in which they were added, so a run can
// be repeated.
//
// One thread. Each call takes O(log events).
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace roost::simulate {

class Timeline final : public Clock {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] Instant Now() const override { return now_; }

  // `when` must not be in the past. References that the action holds must live until it has run.
  void At(Instant when, Action action) {
    ROOST_CHECK(when >= now_, "time goes back");
    events_.push({when, next_number_++, std::move(action)});
  }
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next event. False when there is none.
  bool RunNext() {
    if (events_.empty()) return false;
    now_ = events_.top().when;
    const Action action = std::move(events_.top().action);
    events_.pop();
    action();
    return true;
  }

 private:
  struct Event {
    Instant when;
    std::uint64_t number = 0;
    mutable Action action;  // moved out of the queue's top, which is const to protect its order

    bool operator<(const Event& other) const {
      return std::make_pair(other.when, other.number) < std::make_pair(when, number);
    }
  };

  Instant now_{};
  std::uint64_t next_number_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace roost::simulate
