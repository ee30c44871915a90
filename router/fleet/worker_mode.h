// What a worker's part of the index rests on, and when to trust it less or more.
//
//   exact       the worker's events
//   predicted   what this router had it compute, as long as a cache would keep it
//   blind       nothing: the worker is chosen for its load alone
//
//                  a bad window         a bad window                      a bad window
//   exact ──────────────────► exact ──────────────────────► predicted ──────────────────► blind
//   trusted  ask for a        on trial                        │  ▲                          │
//      ▲     snapshot           │  ▲                          │  └───────── quiet time ─────┘
//      └──── a good window ─────┘  └── quiet time, a snapshot ┘   (only a worker that sends events)
//
// Judged is what the first token of each request proves: of the prompt tokens that were promised to be cached, how many
// were missing? A window is a number of requests with a promise; it is bad when more than a given share of the promised
// tokens was missing. A large share: a small pool under load evicts promised blocks before their request comes, and an
// exact view of it is still the best there is. Tokens found beyond the promise are no fault: other routers' requests
// store blocks too, and siblings wait for each other. Promises that an earlier view made count for nothing.
//
// A worker that sends no events is predicted from the start, and at best. One that keeps no blocks is blind, always.
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
  double missing_share = 0.75;  // of the promised tokens; more is bad
  Duration quiet_time = std::chrono::seconds(60);
};

// A promise, and what came of it.
struct PromisedTokens {
  Instant promised_at;
  std::uint32_t promised = 0;  // prompt tokens expected in the cache
  std::uint32_t found = 0;     // prompt tokens that were
};

// Why a mode changed, or began anew with a snapshot.
enum class ModeReason : std::uint8_t {
  kMissingTokens,  // a bad window
  kQuiet,          // nothing spoke against more trust for the quiet time
};
[[nodiscard]] std::string_view NameOf(ModeReason reason);

class ModeTracker {
 public:
  // What the worker tells of its blocks; kNoBlocks: it keeps none.
  enum class Events : std::uint8_t { kSent, kNone, kNoBlocks };

  ModeTracker(Events events, ModeOptions options, Instant now);

  // The view of `to` begins, empty; also when the worker is in that mode already. An exact one waits for its snapshot.
  struct Change {
    WorkerMode to;
    ModeReason reason;
    bool operator==(const Change&) const = default;
  };

  // A request got its first token.
  [[nodiscard]] std::optional<Change> OnOutcome(const PromisedTokens& outcome, Instant now);
  // The snapshot that an exact view began with is complete.
  void OnSnapshot(Instant now);
  // Time goes on.
  [[nodiscard]] std::optional<Change> Tick(Instant now);

  [[nodiscard]] WorkerMode mode() const { return mode_; }

 private:
  enum class Verdict : std::uint8_t { kOpen, kGood, kBad };

  [[nodiscard]] Verdict Judge(const PromisedTokens& outcome);
  Change Begin(WorkerMode mode, ModeReason reason, Instant now);
  void BeginWindow(Instant now);

  const Events events_;
  const ModeOptions options_;
  WorkerMode mode_;
  bool on_trial_ = false;     // exact: the next bad window ends it
  bool has_snapshot_ = true;  // exact: promises count
  Instant since_;             // when the view began; with has_snapshot_, when it was complete

  // The window.
  std::uint32_t request_count_ = 0;
  std::uint64_t promised_tokens_ = 0;
  std::uint64_t missing_tokens_ = 0;
};

}  // namespace roost::router
