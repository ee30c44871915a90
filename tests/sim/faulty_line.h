// One direction of a link on virtual time: messages arrive in the order sent, each with its own delay, unless the line
// loses them, duplicates them or lets one overtake earlier ones.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"

namespace roost::sim {

// The number of messages in a thousand that each fault affects.
struct Faults {
  std::uint32_t dropped = 0;
  std::uint32_t doubled = 0;
  std::uint32_t overtaking = 0;
  std::chrono::milliseconds longest_delay{5};
};

template <typename Message>
class FaultyLine {
 public:
  // Nothing arrives before `instant`; messages sent until then are lost.
  void CutUntil(Instant instant) { cut_until_ = std::max(cut_until_, instant); }

  void Heal() { cut_until_ = {}; }

  void Send(Message message, Instant now, const Faults& faults, Rng& rng) {
    if (now < cut_until_ || Happens(faults.dropped, rng)) return;
    if (Happens(faults.doubled, rng)) Put(message, now, faults, rng);
    Put(std::move(message), now, faults, rng);
  }

  // The next message that has arrived.
  std::optional<Message> Receive(Instant now) {
    if (under_way_.empty() || under_way_.front().due > now) return std::nullopt;
    Message message = std::move(under_way_.front().message);
    under_way_.pop_front();
    return message;
  }

  [[nodiscard]] bool empty() const { return under_way_.empty(); }

 private:
  struct UnderWay {
    Instant due;
    Message message;
  };

  static bool Happens(std::uint32_t of_a_thousand, Rng& rng) { return rng.Below(1000) < of_a_thousand; }

  void Put(Message message, Instant now, const Faults& faults, Rng& rng) {
    const auto delay = static_cast<std::uint64_t>(faults.longest_delay.count());
    const Instant due = now + std::chrono::milliseconds(rng.Below(delay + 1));
    if (!under_way_.empty() && Happens(faults.overtaking, rng)) {
      under_way_.insert(under_way_.end() - 1, {under_way_.back().due, std::move(message)});
    } else {
      under_way_.push_back({under_way_.empty() ? due : std::max(due, under_way_.back().due), std::move(message)});
    }
  }

  std::deque<UnderWay> under_way_;
  Instant cut_until_;
};

}  // namespace roost::sim
