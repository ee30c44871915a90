// Requests for models that workers are about to bring. A router that has just begun knows no worker, but its workers
// come back within some tenths of a second; and the first worker of a model is there before its tokenizer is read.
// Their requests are held for up to a second, and then tried once more, instead of being refused.
//
//   request ── IsArriving? ── no ──► refused at once
//                  └─ yes ─► Hold ── a worker serves it, or kPatience has passed ──► tried again
//
// Not thread-safe, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {

class Arrivals {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  // The time after its start in which a router expects its workers back. A worker looks for its router several times a
  // second.
  static constexpr Duration kSettling = std::chrono::seconds(2);
  static constexpr std::size_t kMaxHeld = 1024;

  // Call it with each tick: the first begins the time in which the router settles.
  void Begin(Instant now) {
    if (!began_) began_ = now;
  }
  [[nodiscard]] bool IsSettling(Instant now) const { return !began_ || now - *began_ < kSettling; }

  // False when too many are held.
  [[nodiscard]] bool Hold(std::string_view model, AnswersDone go, Instant now) {
    if (held_.size() >= kMaxHeld) return false;
    held_.push_back({std::string(model), std::move(go), now + kPatience});
    return true;
  }

  // Takes out those whose model is served, or whose time has passed.
  [[nodiscard]] std::vector<AnswersDone> Take(const ModelDirectory& models, Instant now) {
    return TakeIf([&](const Held& held) { return now >= held.until || models.offers.contains(held.model); });
  }
  [[nodiscard]] std::vector<AnswersDone> TakeAll() {
    return TakeIf([](const Held&) { return true; });
  }
  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  struct Held {
    std::string model;
    AnswersDone go;
    Instant until;
  };

  template <typename Condition>
  std::vector<AnswersDone> TakeIf(Condition is_due) {
    std::vector<AnswersDone> due;
    for (auto held = held_.begin(); held != held_.end();) {
      if (!is_due(*held)) {
        ++held;
        continue;
      }
      due.push_back(std::move(held->go));
      held = held_.erase(held);
    }
    return due;
  }

  std::optional<Instant> began_;
  std::list<Held> held_;  // in order of arrival
};

}  // namespace roost::router
