// The rate of blocks from one worker to another, learned from the answers to Holds. A pair is a source and a
// worker that fetches from it; each direction is a pair of its own.
//
//   start   until the first byte comes from an idle source
//   rate    bytes per second from then on
//
//   a pair of which nothing is known,    the slower of what the source has given and what the worker has got, in the
//   or nothing new for kFreshTime        mean; else what all have, in the mean; else 1 GB/s. A pull measures it
//   a pair that has failed               is not chosen for a while: 60 s after a wrong frame, else 1 s, twice as long
//                                        after each further failure in a row, up to 60 s
//
// Remembers the last kMaxPairs pairs to which something happened. Means fade: a new observation counts a quarter.
//
// Pure and not thread-safe. O(1) per call, except where it says otherwise.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/keyed_slots.h"
#include "common/wire/messages.h"

namespace roost::router {

struct WorkerPair {
  WorkerSlot from;  // the source
  WorkerSlot to;

  auto operator<=>(const WorkerPair&) const = default;
};

// The one of a fleet's first pair, until it is known.
struct PairRate {
  double start_seconds = 0;
  double bytes_per_second = 1e9;  // above 0

  [[nodiscard]] double Seconds(double bytes) const { return start_seconds + bytes / bytes_per_second; }
  bool operator==(const PairRate&) const = default;
};

// The blocks that came with one Hold, by the worker's answer.
struct Arrival {
  std::uint64_t bytes = 0;
  std::uint32_t block_count = 0;   // each has as many bytes
  double first_block_seconds = 0;  // from the Hold to its first block
  double seconds = 0;              // from the Hold to its last block; at least the above
  double queued_bytes = 0;         // that went before it
};

class PairRates {
 public:
  static constexpr std::size_t kMaxPairs = 4096;
  static constexpr double kNewShare = 0.25;
  // A rate that was last observed before counts no more.
  static constexpr Duration kFreshTime = std::chrono::minutes(10);
  static constexpr Duration kWrongPause = std::chrono::seconds(60);
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLastPause = std::chrono::seconds(60);

  struct Pair {
    WorkerPair ends;
    std::optional<PairRate> rate = {};  // its own
    Instant observed_at{};              // when it last taught that
    std::uint64_t done_count = 0;       // Holds that brought all, or some and then all that the source held
    std::uint64_t failed_count = 0;
    bool has_ended = false;                              // some Hold has, whatever came of it
    std::optional<wire::HoldOutcome> last_outcome = {};  // of the last one that has; empty: unanswered
    Duration next_pause = kFirstPause;                   // of the next failure
    Instant paused_until{};
  };

  void OnSent(WorkerPair ends) { static_cast<void>(Touch(ends)); }
  // Blocks came over the pair. Ignores what tells no rate: fewer than two blocks, as one alone tells start and rate
  // only together; no bytes; no time.
  void Observe(WorkerPair ends, const Arrival& arrival, Instant now);
  // A Hold has ended, and brought so many blocks; empty: unanswered. What is neither the pair's merit nor its fault
  // changes no pause: the worker had no room, or the Hold was ended.
  void OnEnd(WorkerPair ends, std::optional<wire::HoldOutcome> outcome, std::uint32_t block_count, Instant now);
  // A Hold is under way no more.
  void OnGone() { ++change_count_; }
  // Another worker may get the slot. O(pairs).
  void Forget(WorkerSlot worker);

  struct Expected {
    PairRate rate;
    bool is_paused = false;
  };
  [[nodiscard]] Expected Expect(WorkerPair ends, Instant now) const;

  // Grows with all of these.
  [[nodiscard]] std::uint64_t change_count() const { return change_count_; }
  // The pairs, the last one to which something happened first.
  [[nodiscard]] const std::list<Pair>& pairs() const { return pairs_; }

 private:
  static std::uint64_t KeyOf(WorkerPair ends) { return (std::uint64_t{ends.from.value()} << 32U) | ends.to.value(); }
  [[nodiscard]] const Pair* Find(WorkerPair ends) const;
  void Erase(std::list<Pair>::iterator pair);

  // The rate of a pair of which nothing is known.
  [[nodiscard]] PairRate MeanOf(WorkerPair ends) const;
  // Moves it to the front; makes it, and forgets the last one when there are too many.
  [[nodiscard]] Pair& Touch(WorkerPair ends);

  std::list<Pair> pairs_;
  // Half empty when all are there, so that the search for one that is not there is short.
  KeyedSlots<std::uint64_t> slots_{2 * kMaxPairs, 2 * kMaxPairs};
  std::vector<std::list<Pair>::iterator> places_;  // by slot
  std::vector<std::uint32_t> free_;                // slots
  // Means, by slot.
  std::vector<std::optional<PairRate>> out_;
  std::vector<std::optional<PairRate>> in_;
  std::optional<PairRate> of_all_;
  std::uint64_t change_count_ = 0;
};

}  // namespace roost::router
