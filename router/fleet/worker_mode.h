// The source of a worker's part of the index, and when to trust it less or more.
//
//   exact       the worker's events
//   predicted   the prompts that this router sent it, as long as a cache would keep them
//   blind       nothing: the worker is chosen for its load alone
//
//                  a bad window         a bad window                      a bad window
//   exact ──────────────────► exact ──────────────────────► predicted ──────────────────► blind
//   trusted  ask for a        on trial                        │  ▲                          │
//      ▲     snapshot           │  ▲                          │  └───────── quiet time ─────┘
//      └──── a good window ─────┘  └── quiet time, a snapshot ┘   (only a worker that sends events)
//
// The first token of each request shows how many of the promised cached tokens were missing. A window is a number of
// requests with a promise. It is bad when more than a given share of the promised tokens was missing. The share is
// large on purpose: a small pool under load evicts promised blocks before their request comes, and an exact view of it
// is still the best available. More cached tokens than promised are not an error: other routers' requests store blocks
// too, and requests wait for blocks that others are computing. Promises of an earlier view do not count.
//
// A worker that sends no events starts as predicted and never becomes exact. One that keeps no blocks is always blind.
// One that loses track of its cache counts as one without events until it knows it again, and is exact then.
//
// A plain value without a clock; not thread-safe. Every call is O(1).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/clock.h"

namespace roost::router {

enum class WorkerMode : std::uint8_t { kExact, kPredicted, kBlind };
[[nodiscard]] std::string_view NameOf(WorkerMode mode);

struct ModeOptions {
  std::uint32_t window_requests = 64;
  double missing_share = 0.75;  // a window is bad if more than this share of the promised tokens was missing
  Duration quiet_time = std::chrono::seconds(60);
};

// A promise and its result.
struct PromisedTokens {
  Instant promised_at;
  std::uint32_t promised = 0;  // prompt tokens expected in the cache
  std::uint32_t found = 0;     // prompt tokens that were
  std::uint32_t arriving = 0;  // the last of the promised ones, which were to come from another worker: no promise of
                               // the worker's own cache
};

// The reason why the mode changed, or the exact mode started again with a snapshot.
enum class ModeReason : std::uint8_t {
  kMissingTokens,  // a bad window
  kQuiet,          // no bad window for the quiet time
  kCacheUnknown,   // the worker has lost track of its cache
  kCacheKnown,     // and knows it again
};
[[nodiscard]] std::string_view NameOf(ModeReason reason);

class ModeTracker {
 public:
  // The worker's reports about its blocks; kNoBlocks: it keeps none.
  enum class Events : std::uint8_t { kSent, kNone, kNoBlocks };

  ModeTracker(Events events, ModeOptions options, Instant now);

  // The view begins again, empty, in mode `to`, even if that is already the mode. An exact view waits for its snapshot.
  struct Change {
    WorkerMode to;
    ModeReason reason;
    bool operator==(const Change&) const = default;
  };

  // The worker reports `events` from now on; ignored of one that keeps no blocks.
  [[nodiscard]] std::optional<Change> OnEvents(Events events, Instant now);
  // A request got its first token.
  [[nodiscard]] std::optional<Change> OnOutcome(const PromisedTokens& outcome, Instant now);
  // The snapshot with which an exact view begins is complete.
  void OnSnapshot(Instant now);
  // Call it regularly: checks the quiet time.
  [[nodiscard]] std::optional<Change> Tick(Instant now);

  [[nodiscard]] WorkerMode mode() const { return mode_; }

 private:
  enum class Verdict : std::uint8_t { kOpen, kGood, kBad };

  [[nodiscard]] Verdict Judge(const PromisedTokens& outcome);
  Change Begin(WorkerMode mode, ModeReason reason, Instant now);
  void BeginWindow(Instant now);

  Events events_;
  const ModeOptions options_;
  WorkerMode mode_;
  bool on_trial_ = false;     // exact: the next bad window ends the mode
  bool has_snapshot_ = true;  // exact: promises count
  Instant since_;             // when the view began; with has_snapshot_, when it was complete

  // The window.
  std::uint32_t request_count_ = 0;
  std::uint64_t promised_tokens_ = 0;
  std::uint64_t missing_tokens_ = 0;
};

}  // namespace roost::router
