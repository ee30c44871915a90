// Leaves sources alone for a while after fetching from them went wrong. A pair is this worker and a source at its
// place: a source that starts again at another address begins anew.
//
//   a wrong frame                      a pause of kWrongPause
//   a block found wrong later          the same, wherever the source is
//   kFailureCount failures in a row    a pause of kFirstPause, twice as long after each further one, up to kLastPause
//   an end that the source told        forgets both
//
// At most kMaxPairs pairs; the one whose pause ends first is forgotten for another one. Pure. O(log pairs) per call,
// O(pairs) when one is forgotten.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "worker/transfer/frame_source.h"

namespace roost::worker {

class PairPauses {
 public:
  static constexpr std::chrono::seconds kWrongPause{60};
  static constexpr std::uint32_t kFailureCount = 3;
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLastPause{60};
  static constexpr std::size_t kMaxPairs = 1024;

  [[nodiscard]] bool IsPaused(const PeerPlace& source, Instant now) const;

  // Blocks of this worker were found wrong after they had come.
  void Distrust(const std::string& worker_id, Instant now);

  // A fetch has ended. Returns the length of the pause that begins, if one does.
  std::optional<std::chrono::seconds> OnEnd(const PeerPlace& source, wire::HoldOutcome outcome, Instant now);

  [[nodiscard]] std::size_t size() const { return pairs_.size(); }

 private:
  struct Pair {
    std::uint32_t failure_count = 0;    // in a row
    std::chrono::seconds next_pause{};  // of the next failure; 0: none so far
    Instant paused_until{};
  };

  [[nodiscard]] Pair& PairOf(const PeerPlace& source);

  std::map<PeerPlace, Pair> pairs_;  // without an address: the worker, wherever it is
};

}  // namespace roost::worker
