// The sets of three and more holders. They are interned, so that equal sets have one name, counted by reference, and
// shared by all blocks that the same workers hold.
//
//   segment, 512 lines of 512 lanes             a set is 1 to 4 lines that follow each other, as many as its highest
//   | line | line | line | …                    lane asks for, the same in a whole segment; a SetId counts lines
//   | note | note | note | …                    the writer's notes on the set that begins there
//
// A set without references keeps its name for a while: until no reader can see it (epoch_gate.h), and longer if it is
// used again before. Interning uses a hash table of chains that grows by one bucket at a time (linear hashing; Litwin,
// VLDB 1980). Most transitions need no lookup, because they are remembered: (set, lane joins) → set, (set, lane leaves)
// → set.
//
// One writer; Words and Prefetch by any thread, while it is pinned. A transition costs O(lanes / 64), remembered O(1).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/prefetch.h"
#include "router/index/epoch_gate.h"
#include "router/index/holders.h"
#include "router/index/index_budget.h"
#include "router/index/zeroed_array.h"

namespace roost::router {

class HolderSets {
 public:
  // Both outlive it.
  HolderSets(const EpochGate& gate, IndexBudget& budget);
  ~HolderSets();
  HolderSets(const HolderSets&) = delete;
  HolderSets& operator=(const HolderSets&) = delete;

  // Readers. Bit l % 64 of word l / 64 says that lane l is in; words past the end are zeros.
  [[nodiscard]] std::span<const std::uint64_t> Words(SetId set) const {
    const SegmentRef& segment = refs_[set.value() / kSegmentLines];
    const std::uint64_t* const words = segment.words.load(std::memory_order_acquire);
    return {words + set.value() % kSegmentLines * kLineWords, segment.line_count * kLineWords};
  }
  void Prefetch(Holders holders) const {
    if (holders.is_set()) roost::Prefetch(Words(holders.set()).data());
  }

  // Writer. Each value of Holders that is kept somewhere counts as a reference to its set; With and Without turn the
  // reference to what they are given into one to what they return.
  [[nodiscard]] bool Contains(Holders holders, Lane lane) const;
  // The lane is not in. Nothing, and no change, when it takes memory that the budget has not.
  [[nodiscard]] std::optional<Holders> With(Holders holders, Lane lane);
  // The lane is in. May take memory beyond the budget: what a worker removed can not stay. Nothing, and no change, when
  // there are four million sets already.
  [[nodiscard]] std::optional<Holders> Without(Holders holders, Lane lane);
  void Release(Holders holders);

  // Calls visit(word, bits) for words of a bit set of lanes, some of them perhaps empty, in ascending order. An inline
  // lane is a visit of its own.
  template <typename Visit>
  void ForEachWord(Holders holders, Visit visit) const {
    if (holders.is_set()) {
      const std::span<const std::uint64_t> words = Words(holders.set());
      for (std::size_t word = 0; word < words.size(); ++word) visit(word, words[word]);
      return;
    }
    for (std::size_t i = 0; i < holders.inline_count(); ++i) {
      const std::uint32_t lane = holders.lane(i).value();
      visit(lane / kLanesPerWord, std::uint64_t{1} << (lane % kLanesPerWord));
    }
  }
  template <typename Visit>
  void ForEachLane(Holders holders, Visit visit) const {
    ForEachWord(holders, [&](std::size_t word, std::uint64_t bits) { ForEachLaneOfWord(word, bits, visit); });
  }

  // Frees sets without references that no reader can see; a bounded number per call.
  void Reclaim();

  // Interned now, those that wait to be freed included.
  [[nodiscard]] std::size_t set_count() const { return set_count_; }
  // Taken from the budget.
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  static constexpr std::size_t kLineWords = 8;
  static constexpr std::size_t kMaxLines = kMaxLanes / (kLineWords * kLanesPerWord) + 1;
  static constexpr std::size_t kSegmentLines = 512;
  static constexpr std::size_t kMaxSegments = (std::size_t{1} << kSetIdBits) / kSegmentLines;
  // Kept for lanes that leave.
  static constexpr std::size_t kSpareSegments = kMaxSegments / 16;
  static constexpr std::size_t kMemoSize = 8192;
  static constexpr std::size_t kReclaimedAtOnce = 4096;
  static constexpr std::uint32_t kNoSet = 0xFFFFFFFFU;

  // A set that is being looked for.
  class LaneBits;

  struct Note {
    std::uint32_t references;
    std::uint32_t hash;
    std::uint32_t next;        // SetId of the same chain, or kNoSet
    std::uint32_t generation;  // of the name: counts its reuses
    Epoch idle_since;          // when references became 0
    std::uint32_t lane_count;
    bool idle;  // stands in idle_
  };
  struct SegmentRef {
    std::atomic<const std::uint64_t*> words;
    std::uint32_t line_count;  // of each set; set before words
  };
  // Lines of the newest segment of a width that were never used: [next, end).
  struct Fresh {
    std::size_t next = 0;
    std::size_t end = 0;
  };
  struct Segment {
    ZeroedArray<std::uint64_t> words{kSegmentLines * kLineWords};
    ZeroedArray<Note> notes{kSegmentLines};
  };
  // With what the vectors below take for it: a head in one that doubles, a free line, an idle set.
  static constexpr std::uint64_t kSegmentBytes =
      kSegmentLines * (kLineWords * sizeof(std::uint64_t) + sizeof(Note) + 4 * sizeof(std::uint32_t));

  enum class Change : std::uint8_t { kJoins, kLeaves };
  struct Transition {
    SetId from{kNoSet};
    Lane lane;
    Change change = Change::kJoins;

    bool operator==(const Transition&) const = default;
  };
  // Holds if both sets still have the generations that they had.
  struct Memo {
    Transition transition;
    SetId to;
    std::uint32_t from_generation = 0;
    std::uint32_t to_generation = 0;
  };
  enum class Bound { kBudget, kNone };

  [[nodiscard]] Note& NoteOf(SetId set) {
    return segments_[set.value() / kSegmentLines]->notes[set.value() % kSegmentLines];
  }

  // Takes over the reference to `transition.from` if there is a result.
  [[nodiscard]] std::optional<Holders> Apply(const Transition& transition, Bound bound);
  [[nodiscard]] Memo& MemoOf(const Transition& transition);
  // The set with exactly these lanes; made if there is none.
  [[nodiscard]] std::optional<SetId> Intern(const LaneBits& lanes, Bound bound);
  [[nodiscard]] std::optional<SetId> Find(const LaneBits& lanes, std::uint32_t hash);
  [[nodiscard]] std::optional<SetId> Allocate(std::size_t line_count, Bound bound);
  [[nodiscard]] bool AddSegment(std::size_t line_count, Bound bound);
  void Free(SetId set);

  [[nodiscard]] std::uint32_t& HeadOf(std::uint32_t hash);
  void Link(SetId set);
  void Unlink(SetId set);
  void AddHead();

  const EpochGate& gate_;
  IndexBudget& budget_;
  std::uint64_t memory_bytes_ = 0;
  std::size_t set_count_ = 0;

  ZeroedArray<SegmentRef> refs_{kMaxSegments};  // where readers begin
  std::vector<std::unique_ptr<Segment>> segments_;
  std::array<Fresh, kMaxLines + 1> fresh_ = {};                 // by line count
  std::array<std::vector<std::uint32_t>, kMaxLines + 1> free_;  // by line count: sets

  std::vector<std::uint32_t> heads_;  // of the chains: a SetId or kNoSet
  std::vector<Memo> memos_;           // made with the first set
  std::deque<SetId> idle_;            // freed once their epochs are over, if they have no references then
};

}  // namespace roost::router
