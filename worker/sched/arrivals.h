// Blocks that come from elsewhere, on their way into the cache.
//
//   Begin ─▶ take what is in the cache ─▶ Advance: allocate, write, commit the next one … ─▶ end ─▶ TakeEnded
//              │ path of held blocks: root … parent │ found │ arrived │ next │ … to come
//
// An arrival brings a chain of blocks front to back. Frames wait here until the next step begins; then each next block
// is allocated, its bytes are handed to the batch, and it is committed behind its parent. So what has come stays useful
// if the rest does not. Blocks that are computed here meanwhile are taken as they are.
//
// One that came for requests ends when no request has wanted its next block for kUnwantedPatience: the last one has
// gone, or none has come. Not so one that follows its source, whose request comes when the blocks are there. Then a
// request that comes back, to be sent again, finds it still there. What such an arrival did not bring is remembered as
// long, so that a request that comes after it is known to compute what it was promised.
//
// An arrival holds its blocks, and all before them, until it ends. It gives way to requests: GiveWay ends one and lets
// its blocks go. A block that is erased ends the arrivals that hold it.
//
// Pure: no thread, no clock, no device. Not thread-safe. The cache outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/sequence.h"
#include "worker/transfer/frame_source.h"

namespace roost::worker {

// The most Holds at a time; more are refused. Restores from the disk have places of their own.
inline constexpr std::size_t kMaxArrivals = 64;
inline constexpr std::size_t kMaxRestores = 8;

// An arrival for requests goes on for so long without one.
inline constexpr Duration kUnwantedPatience = std::chrono::seconds(1);

struct ArrivalSpec {
  HoldId id;
  FrameChain chain;  // its tenant's hash is that of `tenant`
  std::string tenant;
  EvictionGroup group = EvictionGroup(0);
  SourceId source = {};
  wire::HoldPurpose purpose = wire::HoldPurpose::kCopy;
  bool follows = false;         // the source computes the blocks
  std::uint32_t hit_count = 0;  // of its blocks, where they come from
  Instant begin;
  Instant patience_end;

  [[nodiscard]] bool is_restore() const { return source == kDiskSource; }
  // It ends without a request that waits for it.
  [[nodiscard]] bool needs_requests() const { return purpose == wire::HoldPurpose::kRequest && !follows; }
  // It brings this block, or begins right behind it.
  [[nodiscard]] bool Names(BlockHash block) const;
};

// An arrival that is over. The three counts add up to the chain.
struct EndedArrival {
  HoldId id;
  bool is_restore = false;
  wire::HoldOutcome outcome = wire::HoldOutcome::kBroken;
  wire::HoldCause cause = wire::HoldCause::kNone;
  std::uint32_t held_count = 0;  // in the cache before, or computed here meanwhile
  std::uint32_t arrived_count = 0;
  std::uint32_t missing_count = 0;
  Instant begin;
  std::optional<Instant> first_frame;
  std::optional<Instant> last_frame;
  bool source_ended = false;  // false: the source goes on until it is told
};

// K and V for a block that has just been committed. The frame's memory must live until they are written.
struct ArrivedWrite {
  BlockId to;
  FrameBuffer frame;
};

class Arrivals {
 public:
  // `release_count` counts the requests, and the arrivals, that have let their blocks go; see RequestUse. It outlives
  // this.
  Arrivals(PrefixCache& cache, std::uint64_t& release_count) : cache_(cache), release_count_(release_count) {}

  // False when there are too many. The arrival may be over at once: see TakeEnded.
  [[nodiscard]] bool Begin(ArrivalSpec spec);

  // Takes news of the source. News of an arrival that is over are dropped.
  void Take(FrameNews news);

  // At a step's begin: commits what has come, and ends what is complete or too late. Appends the blocks to write before
  // anything of the step reads them.
  void Advance(Instant now, std::vector<ArrivedWrite>& writes);

  // Ends the youngest arrival and lets its blocks go. False when there is none.
  [[nodiscard]] bool GiveWay();
  // Ends those that an order names, or whose source computes wrong.
  void EndWhere(const std::function<bool(const ArrivalSpec&)>& is_meant, wire::HoldOutcome outcome);
  // A Hold brings these blocks, at least one: ends the restores of the same.
  void EndRestoresOf(std::span<const BlockHash> held);
  // Ends the arrivals that hold a block which is no longer ready.
  void CancelErased();

  // A request with these blocks has gone. If it may have waited for an arrival, that one ends kUnwantedPatience later,
  // unless others wait.
  void OnWaiterGone(std::span<const BlockHash> hashes, Instant now);
  // Ends the arrivals that no request has wanted for long enough, and forgets what did not come. `is_wanted` says
  // whether a request waits for this block at this position.
  void EndUnwanted(Instant now, const std::function<bool(BlockHash block, std::uint32_t position)>& is_wanted);

  [[nodiscard]] std::size_t restore_count() const;
  [[nodiscard]] std::vector<EndedArrival> TakeEnded() { return std::exchange(ended_, {}); }

  [[nodiscard]] bool has_ended() const { return !ended_.empty(); }
  // When the first patience ends, or the first unwanted one. Nothing when there is no arrival.
  [[nodiscard]] std::optional<Instant> NextEnd() const;

  // ---- for requests that wait ----

  // Blocks of a prompt that an arrival brings. Without an id: that an arrival for requests was to bring and has not; it
  // ended less than kUnwantedPatience ago.
  struct Coming {
    std::optional<HoldId> id;
    BlockRange blocks;
  };
  // The prompt's part of the arrival whose next block is `hashes[first]`, or else of one that has ended.
  [[nodiscard]] std::optional<Coming> FindComing(std::span<const BlockHash> hashes, std::uint32_t first,
                                                 Instant now) const;
  // The position of the arrival's next block; nothing when it is over.
  [[nodiscard]] std::optional<std::uint32_t> NextPosition(HoldId id) const;

  // Blocks that no request holds.
  [[nodiscard]] std::size_t HeldAloneCount() const;
  // Adds the holders of each block.
  void CountReferences(std::span<std::uint32_t> references) const;

 private:
  struct Arrival {
    ArrivalSpec spec;
    TenantId tenant;               // a user of the cache's
    std::vector<BlockId> blocks;   // held, from the prompt's begin
    std::uint32_t next = 0;        // of the chain
    std::uint32_t held_count = 0;  // see EndedArrival
    std::uint32_t arrived_count = 0;
    std::deque<ArrivedFrame> frames;  // ascending
    std::optional<HoldId> joined;
    bool was_checked = false;  // whether a request wants it
    std::optional<Instant> unwanted_since;
    std::optional<Instant> first_frame;
    std::optional<Instant> last_frame;
    std::optional<wire::HoldOutcome> source_outcome;
    wire::HoldCause source_cause = wire::HoldCause::kNone;
  };

  // The rest of a chain that came for requests, from the first block that did not come.
  struct Missed {
    std::uint32_t first_position = 0;
    std::vector<BlockHash> hashes;
    Instant forgotten_at;
  };

  [[nodiscard]] Arrival* Find(HoldId id);
  [[nodiscard]] const Arrival* Find(HoldId id) const;
  [[nodiscard]] static bool IsNext(const Arrival& arrival, std::span<const BlockHash> hashes);
  [[nodiscard]] bool TakePath(Arrival& arrival);
  void TakeReady(Arrival& arrival);
  [[nodiscard]] std::optional<wire::HoldOutcome> CommitNext(Arrival& arrival, std::vector<ArrivedWrite>& writes);
  [[nodiscard]] std::optional<wire::HoldOutcome> OutcomeOf(Arrival& arrival, Instant now,
                                                           std::vector<ArrivedWrite>& writes);
  void End(Arrival& arrival, wire::HoldOutcome outcome);
  [[nodiscard]] static wire::HoldCause CauseOf(const Arrival& arrival, wire::HoldOutcome outcome);
  void Miss(const ArrivalSpec& spec, std::uint32_t next);
  [[nodiscard]] std::optional<Coming> FindMissed(std::span<const BlockHash> hashes, Instant now) const;
  template <typename Which>
  void EndEach(const Which& which, wire::HoldOutcome outcome);

  PrefixCache& cache_;
  std::uint64_t& release_count_;
  std::vector<std::unique_ptr<Arrival>> arrivals_;  // oldest first
  std::vector<EndedArrival> ended_;
  std::deque<Missed> missed_;  // oldest first; at most kMaxArrivals
  Instant now_;                // of the latest step
};

}  // namespace roost::worker
