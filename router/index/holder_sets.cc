#include "router/index/holder_sets.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::router {

class HolderSets::LaneBits {
 public:
  LaneBits() = default;
  explicit LaneBits(std::span<const std::uint64_t> words) { std::copy(words.begin(), words.end(), words_.begin()); }

  void Flip(Lane lane) { words_[lane.value() / kLanesPerWord] ^= std::uint64_t{1} << (lane.value() % kLanesPerWord); }

  // As many lines as the highest lane needs.
  [[nodiscard]] std::span<const std::uint64_t> Words() const {
    std::size_t count = words_.size();
    while (count > kLineWords && words_[count - 1] == 0) --count;
    return std::span(words_).first((count + kLineWords - 1) / kLineWords * kLineWords);
  }
  [[nodiscard]] std::uint32_t Hash() const {
    std::uint64_t hash = 0;
    for (const std::uint64_t word : Words()) hash = Mix64(hash ^ word);
    return static_cast<std::uint32_t>(hash);
  }

 private:
  std::array<std::uint64_t, kMaxLines* kLineWords> words_ = {};
};

HolderSets::HolderSets(const EpochGate& gate, IndexBudget& budget) : gate_(gate), budget_(budget), heads_(1, kNoSet) {}

HolderSets::~HolderSets() { budget_.Give(memory_bytes_); }

bool HolderSets::Contains(Holders holders, Lane lane) const {
  if (!holders.is_set()) return holders.ContainsInline(lane);
  const std::span<const std::uint64_t> words = Words(holders.set());
  const std::size_t word = lane.value() / kLanesPerWord;
  return word < words.size() && (words[word] >> (lane.value() % kLanesPerWord) & 1U) != 0;
}

std::optional<Holders> HolderSets::With(Holders holders, Lane lane) {
  if (holders.is_set()) return Apply({holders.set(), lane, Change::kJoins}, Bound::kBudget);
  if (holders.inline_count() < Holders::kMaxInline) return holders.WithInline(lane);
  LaneBits lanes;
  ForEachLane(holders, [&lanes](Lane member) { lanes.Flip(member); });
  lanes.Flip(lane);
  const std::optional<SetId> set = Intern(lanes, Bound::kBudget);
  if (!set) return std::nullopt;
  ++NoteOf(*set).references;
  return Holders(*set);
}

std::optional<Holders> HolderSets::Without(Holders holders, Lane lane) {
  if (!holders.is_set()) return holders.WithoutInline(lane);
  if (NoteOf(holders.set()).lane_count > Holders::kMaxInline + 1) {
    return Apply({holders.set(), lane, Change::kLeaves}, Bound::kNone);
  }
  Holders rest;
  ForEachLane(holders, [&](Lane member) {
    if (member != lane) rest = rest.WithInline(member);
  });
  Release(holders);
  return rest;
}

std::optional<Holders> HolderSets::Apply(const Transition& transition, Bound bound) {
  Memo& memo = MemoOf(transition);
  const std::uint32_t from_generation = NoteOf(transition.from).generation;
  const bool known = memo.transition == transition && memo.from_generation == from_generation &&
                     memo.to_generation == NoteOf(memo.to).generation;
  if (!known) {
    LaneBits lanes(Words(transition.from));
    lanes.Flip(transition.lane);
    const std::optional<SetId> to = Intern(lanes, bound);
    if (!to) return std::nullopt;
    memo = {transition, *to, from_generation, NoteOf(*to).generation};
  }
  const SetId to = memo.to;
  ++NoteOf(to).references;
  Release(Holders(transition.from));
  return Holders(to);
}

HolderSets::Memo& HolderSets::MemoOf(const Transition& transition) {
  const std::uint64_t change = transition.change == Change::kJoins ? 0 : kMaxLanes;
  const std::uint64_t key = transition.from.value() * (2 * kMaxLanes) + change + transition.lane.value();
  return memos_[Mix64(key) % kMemoSize];
}

void HolderSets::Release(Holders holders) {
  if (!holders.is_set()) return;
  Note& note = NoteOf(holders.set());
  if (--note.references > 0) return;
  note.idle_since = gate_.now();
  if (!std::exchange(note.idle, true)) idle_.push_back(holders.set());
}

void HolderSets::Reclaim() {
  for (std::size_t i = 0; i < kReclaimedAtOnce && !idle_.empty(); ++i) {
    const SetId set = idle_.front();
    Note& note = NoteOf(set);
    if (note.references == 0 && !gate_.IsOver(note.idle_since)) return;
    idle_.pop_front();
    note.idle = false;
    if (note.references == 0) Free(set);
  }
}

// ---- ids and memory ----

std::optional<SetId> HolderSets::Intern(const LaneBits& lanes, Bound bound) {
  const std::uint32_t hash = lanes.Hash();
  if (const std::optional<SetId> known = Find(lanes, hash)) return known;
  const std::span<const std::uint64_t> words = lanes.Words();
  const std::optional<SetId> made = Allocate(words.size() / kLineWords, bound);
  if (!made) return std::nullopt;
  Segment& segment = *segments_[made->value() / kSegmentLines];
  std::copy(words.begin(), words.end(), &segment.words[made->value() % kSegmentLines * kLineWords]);
  Note& note = NoteOf(*made);
  note.hash = hash;
  note.lane_count = 0;
  for (const std::uint64_t word : words) note.lane_count += static_cast<std::uint32_t>(std::popcount(word));
  Link(*made);
  return made;
}

std::optional<SetId> HolderSets::Find(const LaneBits& lanes, std::uint32_t hash) {
  const std::span<const std::uint64_t> words = lanes.Words();
  for (std::uint32_t id = HeadOf(hash); id != kNoSet; id = NoteOf(SetId(id)).next) {
    const SetId set(id);
    if (NoteOf(set).hash != hash) continue;
    const std::span<const std::uint64_t> own = Words(set);
    if (std::equal(own.begin(), own.end(), words.begin(), words.end())) return set;
  }
  return std::nullopt;
}

std::optional<SetId> HolderSets::Allocate(std::size_t line_count, Bound bound) {
  std::vector<std::uint32_t>& free = free_[line_count];
  if (!free.empty()) {
    const SetId set(free.back());
    free.pop_back();
    return set;
  }
  Fresh& fresh = fresh_[line_count];
  if (fresh.end - fresh.next < line_count && !AddSegment(line_count, bound)) return std::nullopt;
  return SetId(static_cast<std::uint32_t>(std::exchange(fresh.next, fresh.next + line_count)));
}

bool HolderSets::AddSegment(std::size_t line_count, Bound bound) {
  const std::size_t most = bound == Bound::kBudget ? kMaxSegments - kSpareSegments : kMaxSegments;
  if (segments_.size() >= most) return false;
  const std::uint64_t bytes = kSegmentBytes + (memos_.empty() ? kMemoSize * sizeof(Memo) : 0);
  if (bound == Bound::kNone) {
    budget_.Take(bytes);
  } else if (!budget_.TryTake(bytes)) {
    return false;
  }
  memory_bytes_ += bytes;
  memos_.resize(kMemoSize);
  fresh_[line_count] = {segments_.size() * kSegmentLines, (segments_.size() + 1) * kSegmentLines};
  SegmentRef& ref = refs_[segments_.size()];
  segments_.push_back(std::make_unique<Segment>());
  ref.line_count = static_cast<std::uint32_t>(line_count);
  ref.words.store(&segments_.back()->words[0], std::memory_order_release);
  return true;
}

void HolderSets::Free(SetId set) {
  Unlink(set);
  ++NoteOf(set).generation;
  free_[refs_[set.value() / kSegmentLines].line_count].push_back(set.value());
}

// ---- the chains ----

// With n heads, and m the power of two with m ≤ n < 2m: heads 0 … n - m - 1 and m … n - 1 use hash % 2m, the others
// hash % m.
std::uint32_t& HolderSets::HeadOf(std::uint32_t hash) {
  const std::size_t low = std::bit_floor(heads_.size());
  const std::size_t by_twice = hash % (2 * low);
  return heads_[by_twice < heads_.size() ? by_twice : hash % low];
}

void HolderSets::Link(SetId set) {
  AddHead();
  Note& note = NoteOf(set);
  note.next = std::exchange(HeadOf(note.hash), set.value());
  ++set_count_;
}

void HolderSets::Unlink(SetId set) {
  std::uint32_t* link = &HeadOf(NoteOf(set).hash);
  while (*link != set.value()) link = &NoteOf(SetId(*link)).next;
  *link = NoteOf(set).next;
  --set_count_;
}

// There are as many heads as there ever were sets at once. A new head takes its share of the chain that it splits.
void HolderSets::AddHead() {
  if (heads_.size() > set_count_) return;
  const std::size_t source = heads_.size() - std::bit_floor(heads_.size());
  std::uint32_t rest = std::exchange(heads_[source], kNoSet);
  heads_.push_back(kNoSet);
  while (rest != kNoSet) {
    Note& note = NoteOf(SetId(rest));
    const std::uint32_t set = std::exchange(rest, note.next);
    note.next = std::exchange(HeadOf(note.hash), set);
  }
}

}  // namespace roost::router
