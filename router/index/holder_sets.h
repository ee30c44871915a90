// The sets of three and more holders. They are interned: equal sets have one id, are counted by reference, and are
// shared by all blocks that the same workers hold.
//
//   segment, 512 lines of 512 lanes             a set is 1 to 4 consecutive lines, as many as its highest lane needs;
//   | line | line | line | …                    all sets of a segment have the same number; a SetId counts lines
//   | note | note | note | …                    the writer's notes on the set that begins there
//
// A set without references keeps its id until no reader can see it (epoch_gate.h), and longer if it is used again
// before that. Interning uses a hash table of chains that grows by one bucket at a time (linear hashing; Litwin, VLDB
// 1980). Most transitions need no lookup, because a memo has their result: (set, lane joins) → set, (set, lane leaves)
// → set.
//
// One writer; any thread may call Words and Prefetch under a pin. A transition costs O(lanes / 64), or O(1) if the memo
// has it.
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
  // Both references outlive the sets.
  HolderSets(const EpochGate& gate, IndexBudget& budget);
  ~HolderSets();
  HolderSets(const HolderSets&) = delete;
  HolderSets& operator=(const HolderSets&) = delete;

  // For readers. Bit l % 64 of word l / 64 is set if lane l is in the set; words past the end are zeros.
  [[nodiscard]] std::span<const std::uint64_t> Words(SetId set) const {
    const SegmentRef& segment = refs_[set.value() / kSegmentLines];
    const std::uint64_t* const words = segment.words.load(std::memory_order_acquire);
    return {words + set.value() % kSegmentLines * kLineWords, segment.line_count * kLineWords};
  }
  void Prefetch(Holders holders) const {
    if (holders.is_set()) roost::Prefetch(Words(holders.set()).data());
  }

  // For the writer. Each stored value of Holders counts as a reference to its set. With and Without take over the
  // argument's reference and return a reference to the result.
  [[nodiscard]] bool Contains(Holders holders, Lane lane) const;
  // Adds a lane that is not in. Empty, and nothing changes, when that needs more memory than the budget has.
  [[nodiscard]] std::optional<Holders> With(Holders holders, Lane lane);
  // Removes a lane that is in. May exceed the budget, because a block that a worker removed must not stay. Empty, and
  // nothing changes, when there are already four million sets.
  [[nodiscard]] std::optional<Holders> Without(Holders holders, Lane lane);
  void Release(Holders holders);

  // Calls visit(word, bits) for the words of the holders' bit set of lanes, in ascending order. Some words may be
  // empty. Each inline lane has a call of its own.
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

  // The number of interned sets, including those that wait to be freed.
  [[nodiscard]] std::size_t set_count() const { return set_count_; }
  // The memory taken from the budget.
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  static constexpr std::size_t kLineWords = 8;
  static constexpr std::size_t kMaxLines = kMaxLanes / (kLineWords * kLanesPerWord) + 1;
  static constexpr std::size_t kSegmentLines = 512;
  static constexpr std::size_t kMaxSegments = (std::size_t{1} << kSetIdBits) / kSegmentLines;
  // Segments that are reserved for Without.
  static constexpr std::size_t kSpareSegments = kMaxSegments / 16;
  static constexpr std::size_t kMemoSize = 8192;
  static constexpr std::size_t kReclaimedAtOnce = 4096;
  static constexpr std::uint32_t kNoSet = 0xFFFFFFFFU;

  // A set that is being looked up.
  class LaneBits;

  struct Note {
    std::uint32_t references;
    std::uint32_t hash;
    std::uint32_t next;        // the next SetId of the chain, or kNoSet
    std::uint32_t generation;  // counts how often the id was reused
    Epoch idle_since;          // when references became 0
    std::uint32_t lane_count;
    bool idle;  // is in idle_
  };
  struct SegmentRef {
    std::atomic<const std::uint64_t*> words;
    std::uint32_t line_count;  // of each of its sets; written before `words`
  };
  // The lines [next, end) of the newest segment for a line count were never used.
  struct Fresh {
    std::size_t next = 0;
    std::size_t end = 0;
  };
  struct Segment {
    ZeroedArray<std::uint64_t> words{kSegmentLines * kLineWords};
    ZeroedArray<Note> notes{kSegmentLines};
  };
  // Includes its share of the vectors below: a head, in a vector that doubles, a free line and an idle set.
  static constexpr std::uint64_t kSegmentBytes =
      kSegmentLines * (kLineWords * sizeof(std::uint64_t) + sizeof(Note) + 4 * sizeof(std::uint32_t));

  enum class Change : std::uint8_t { kJoins, kLeaves };
  struct Transition {
    SetId from{kNoSet};
    Lane lane;
    Change change = Change::kJoins;

    bool operator==(const Transition&) const = default;
  };
  // A remembered transition; valid while both sets have the same generations as then.
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

  // If there is a result, takes over the reference to `transition.from`.
  [[nodiscard]] std::optional<Holders> Apply(const Transition& transition, Bound bound);
  [[nodiscard]] Memo& MemoOf(const Transition& transition);
  // The set with exactly these lanes; made if it does not exist.
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

  ZeroedArray<SegmentRef> refs_{kMaxSegments};  // readers start here
  std::vector<std::unique_ptr<Segment>> segments_;
  std::array<Fresh, kMaxLines + 1> fresh_ = {};                 // by line count
  std::array<std::vector<std::uint32_t>, kMaxLines + 1> free_;  // by line count: sets

  std::vector<std::uint32_t> heads_;  // of the chains: a SetId or kNoSet
  std::vector<Memo> memos_;           // made with the first set
  std::deque<SetId> idle_;            // freed once their epochs are over, if they still have no references
};

}  // namespace roost::router
