#include "router/index/prefix_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/index/block_table.h"
#include "router/index/epoch_gate.h"
#include "router/index/holder_sets.h"
#include "router/index/holders.h"
#include "router/index/lanes.h"

namespace roost::router {

// The inside of PrefixIndex (prefix_index.h): the table, the sets and the lanes, which the writer keeps consistent with
// each other. Readers only look up single blocks.
class PrefixIndex::Core {
 public:
  explicit Core(std::shared_ptr<IndexBudget> budget);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- readers; all but gate() need a pin ----

  [[nodiscard]] const EpochGate& gate() const { return gate_; }
  [[nodiscard]] const HolderSets& sets() const { return sets_; }
  [[nodiscard]] const Lanes& lanes() const { return lanes_; }

  [[nodiscard]] BlockTable::Search Locate(BlockHash hash) const { return table_.Locate(KeyOf(hash)); }
  [[nodiscard]] BlockTable::Search Begin(BlockHash hash) const { return table_.Begin(KeyOf(hash)); }
  [[nodiscard]] Holders Finish(const BlockTable::Search& search) const {
    const Entry entry(BlockTable::Finish(search));
    if (entry.depth() >= depth_limit_.limit()) return {};
    return entry.holders();
  }

  // ---- the writer; as in PrefixIndex ----

  void Store(WorkerSlot worker, std::uint32_t first_position, std::span<const BlockHash> hashes);
  void Remove(WorkerSlot worker, std::span<const BlockHash> hashes);
  void Clear(WorkerSlot worker);
  [[nodiscard]] WorkerView View(WorkerSlot worker) const;
  void Sweep(std::size_t bucket_count);

  [[nodiscard]] std::uint64_t block_count() const { return table_.size(); }
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return sizeof(Core) + table_.memory_bytes() + sets_.memory_bytes();
  }
  [[nodiscard]] std::uint64_t holder_set_count() const { return sets_.set_count(); }
  [[nodiscard]] std::uint64_t shed_block_total() const { return shed_block_total_; }

 private:
  // The payload of a block in the table: bits 0 … 22 holders, 23 … 31 depth class. Never 0, because a block in the
  // table has a holder.
  class Entry {
   public:
    explicit Entry(BlockTable::Payload payload) : payload_(payload) {}
    Entry(Holders holders, DepthClass depth) : payload_(holders.bits() | depth << Holders::kBits) {}

    [[nodiscard]] BlockTable::Payload payload() const { return payload_; }
    [[nodiscard]] Holders holders() const { return Holders::FromBits(payload_ & ((1U << Holders::kBits) - 1)); }
    [[nodiscard]] DepthClass depth() const { return payload_ >> Holders::kBits; }

   private:
    BlockTable::Payload payload_;
  };
  static_assert(Holders::kBits + DepthLimit::kClassBits == 8 * sizeof(BlockTable::Payload));

  struct WorkerState {
    std::uint64_t block_count = 0;
    BlockHash digest;
    std::optional<Lane> lane;
    // Blocks of this class and deeper are not stored, because one of them, or one before them, may be missing.
    DepthClass ceiling = DepthLimit::kNone;
  };

  [[nodiscard]] BlockTable::Key KeyOf(BlockHash hash) const { return BlockTable::KeyOf(hash.low, seed_); }
  [[nodiscard]] WorkerState& StateOf(WorkerSlot worker);

  // False when the block must be left out because memory is full.
  [[nodiscard]] bool StoreBlock(Lane lane, BlockTable::Key key, DepthClass depth);
  [[nodiscard]] bool AddBlock(Lane lane, BlockTable::Key key, DepthClass depth);
  void RemoveBlock(Lane lane, BlockTable::Key key);

  [[nodiscard]] bool MakeRoom(DepthClass depth);
  void ShedDeepest();
  // The payload without retired lanes, or 0 if no holder is left or it lies beyond the depth limit.
  [[nodiscard]] BlockTable::Payload Swept(BlockTable::Payload payload);
  void DropShed(Entry entry);

  [[nodiscard]] bool HasWork() const;
  void Work(std::size_t bucket_count);
  // The maintenance that each stored or removed block does.
  void TakeCare();
  void Reclaim();

  const std::shared_ptr<IndexBudget> budget_;
  const std::uint64_t seed_ = BlockHashHasher::ProcessSeed();
  EpochGate gate_;
  Lanes lanes_{gate_};
  HolderSets sets_;
  BlockTable table_{gate_};
  DepthLimit depth_limit_;
  std::array<WorkerState, kMaxSlots> workers_;  // by slot
  std::uint64_t shed_block_total_ = 0;
  std::size_t owed_buckets_ = 0;  // maintenance that is due
  std::size_t blocks_until_reclaim_ = 1;
};

namespace {

// The number of blocks that are prefetched ahead of the one that is being applied; each reads two cache lines.
constexpr std::size_t kPrefetchDistance = 8;
// The table maintenance that each stored or removed block does. It is enough for growth to end long before the larger
// table is full. A cleared worker's blocks are gone after about as many blocks as the table has buckets.
constexpr std::size_t kGrowthBucketsPerBlock = 4;
constexpr std::size_t kSweptBucketsPerBlock = 1;
constexpr std::size_t kBucketsAtOnce = 64;
constexpr std::size_t kMaxBlocksPerReclaim = 1024;
constexpr std::size_t kReclaimsPerTable = 8;
// The number of buckets that are scanned at once to evict an entry before another can be added.
constexpr std::size_t kBucketsPerEviction = 16;
// The table leaves the rest of the budget to the sets.
constexpr double kTableShare = 0.875;
// One in this many entries is shed when the depth limit is lowered, and the load below which the limit is lifted.
constexpr std::size_t kShedFraction = 16;
constexpr double kLiftLoad = 0.875;

// Calls apply(hash's index, key) for each hash, and prefetches for the hashes that follow.
template <typename Prefetch, typename Apply>
void ForEachAhead(std::span<const BlockHash> hashes, Prefetch prefetch, Apply apply) {
  std::array<BlockTable::Key, kPrefetchDistance> keys = {};
  const std::size_t ahead = std::min(hashes.size(), kPrefetchDistance);
  for (std::size_t i = 0; i < ahead; ++i) keys[i] = prefetch(hashes[i]);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    BlockTable::Key& place = keys[i % kPrefetchDistance];
    const BlockTable::Key key = place;
    if (i + kPrefetchDistance < hashes.size()) place = prefetch(hashes[i + kPrefetchDistance]);
    if (!apply(i, key)) return;
  }
}

}  // namespace

PrefixIndex::Core::Core(std::shared_ptr<IndexBudget> budget) : budget_(std::move(budget)), sets_(gate_, *budget_) {
  budget_->Take(sizeof(Core) + table_.memory_bytes());
}

PrefixIndex::Core::~Core() { budget_->Give(sizeof(Core) + table_.memory_bytes()); }

PrefixIndex::Core::WorkerState& PrefixIndex::Core::StateOf(WorkerSlot worker) {
  ROOST_CHECK(worker.value() < kMaxSlots, "slot {}", worker.value());
  return workers_[worker.value()];
}

// ---- the writer's operations ----

void PrefixIndex::Core::Store(WorkerSlot worker, std::uint32_t first_position, std::span<const BlockHash> hashes) {
  if (hashes.empty()) return;
  WorkerState& state = StateOf(worker);
  state.block_count += hashes.size();
  for (const BlockHash hash : hashes) state.digest = state.digest ^ hash;
  if (!state.lane && state.ceiling == DepthLimit::kNone) state.lane = lanes_.Acquire(worker);
  std::size_t stored = 0;
  ForEachAhead(
      hashes, [this](BlockHash hash) { return Begin(hash).key; },
      [&](std::size_t i, BlockTable::Key key) {
        const DepthClass depth = DepthLimit::ClassOf(std::uint64_t{first_position} + i);
        const bool taken = state.lane && depth < state.ceiling && StoreBlock(*state.lane, key, depth);
        if (!taken) state.ceiling = std::min(state.ceiling, depth);
        stored += taken ? 1 : 0;
        TakeCare();
        return taken;
      });
  shed_block_total_ += hashes.size() - stored;
}

void PrefixIndex::Core::Remove(WorkerSlot worker, std::span<const BlockHash> hashes) {
  WorkerState& state = StateOf(worker);
  state.block_count -= hashes.size();
  for (const BlockHash hash : hashes) state.digest = state.digest ^ hash;
  if (state.lane) {
    ForEachAhead(
        hashes, [this](BlockHash hash) { return Begin(hash).key; },
        [&](std::size_t, BlockTable::Key key) {
          RemoveBlock(*state.lane, key);
          TakeCare();
          return true;
        });
  }
  const bool complete = View(worker).indexed_block_count == state.block_count;
  if (complete) state.ceiling = DepthLimit::kNone;
}

void PrefixIndex::Core::Clear(WorkerSlot worker) {
  WorkerState& state = StateOf(worker);
  if (state.lane) lanes_.Retire(*state.lane);
  state = {};
}

PrefixIndex::WorkerView PrefixIndex::Core::View(WorkerSlot worker) const {
  ROOST_CHECK(worker.value() < kMaxSlots, "slot {}", worker.value());
  const WorkerState& state = workers_[worker.value()];
  return {.block_count = state.block_count,
          .digest = state.digest,
          .indexed_block_count = state.lane ? lanes_.block_count(*state.lane) : 0};
}

void PrefixIndex::Core::Sweep(std::size_t bucket_count) {
  while (bucket_count > 0 && HasWork()) {
    const std::size_t portion = std::min(bucket_count, kBucketsAtOnce);
    Work(portion);
    bucket_count -= portion;
  }
  Reclaim();
}

// ---- single blocks ----

bool PrefixIndex::Core::StoreBlock(Lane lane, BlockTable::Key key, DepthClass depth) {
  if (depth >= depth_limit_.limit()) return false;
  const BlockTable::Slot slot = table_.Find(key);
  if (!slot) return AddBlock(lane, key, depth);
  const Entry entry(slot.payload());
  if (sets_.Contains(entry.holders(), lane)) return true;
  const std::optional<Holders> holders = sets_.With(entry.holders(), lane);
  if (!holders) {
    ShedDeepest();
    return false;
  }
  slot.SetPayload(Entry(*holders, entry.depth()).payload());
  lanes_.AddBlock(lane);
  return true;
}

bool PrefixIndex::Core::AddBlock(Lane lane, BlockTable::Key key, DepthClass depth) {
  if (!MakeRoom(depth)) return false;
  const BlockTable::Payload payload = Entry(Holders().WithInline(lane), depth).payload();
  if (!table_.Insert(key, payload)) {
    // Two epochs later, freed slots can be reused, unless a reader is still in.
    Reclaim();
    Reclaim();
    if (!table_.Insert(key, payload)) return false;
  }
  depth_limit_.Add(depth);
  lanes_.AddBlock(lane);
  return true;
}

void PrefixIndex::Core::RemoveBlock(Lane lane, BlockTable::Key key) {
  const BlockTable::Slot slot = table_.Find(key);
  if (!slot) return;
  const Entry entry(slot.payload());
  if (!sets_.Contains(entry.holders(), lane)) return;
  const std::optional<Holders> rest = sets_.Without(entry.holders(), lane);
  if (!rest) {
    DropShed(entry);
    return table_.Erase(slot);
  }
  lanes_.DropBlock(lane);
  if (!rest->empty()) return slot.SetPayload(Entry(*rest, entry.depth()).payload());
  table_.Erase(slot);
  depth_limit_.Drop(entry.depth());
}

// ---- memory ----

// False when there is no room for a block as deep as this.
bool PrefixIndex::Core::MakeRoom(DepthClass depth) {
  while (table_.size() >= table_.capacity()) {
    if (table_.growing()) {
      Work(kBucketsAtOnce);
      continue;
    }
    if (budget_->TryTake(table_.growth_bytes(), kTableShare)) {
      table_.StartGrowth();
      return true;
    }
    ShedDeepest();
    if (depth >= depth_limit_.limit() || depth_limit_.excess_count() == 0) return false;
    Work(kBucketsPerEviction);
  }
  return true;
}

void PrefixIndex::Core::ShedDeepest() {
  if (depth_limit_.excess_count() == 0) depth_limit_.Lower(table_.size() / kShedFraction + 1);
}

BlockTable::Payload PrefixIndex::Core::Swept(BlockTable::Payload payload) {
  const Entry entry(payload);
  if (entry.depth() >= depth_limit_.limit()) {
    DropShed(entry);
    return 0;
  }
  if (lanes_.retired_block_count() == 0) return payload;
  Holders holders = entry.holders();
  bool lost = false;
  sets_.ForEachLane(entry.holders(), [&](Lane lane) {
    if (lost || lanes_.OwnerOf(lane)) return;
    const std::optional<Holders> rest = sets_.Without(holders, lane);
    lost = !rest;
    if (lost) return;
    holders = *rest;
    lanes_.DropBlock(lane);
  });
  if (lost) {
    DropShed(Entry(holders, entry.depth()));
    return 0;
  }
  if (!holders.empty()) return Entry(holders, entry.depth()).payload();
  depth_limit_.Drop(entry.depth());
  return 0;
}

void PrefixIndex::Core::DropShed(Entry entry) {
  sets_.ForEachLane(entry.holders(), [&](Lane lane) {
    const std::optional<WorkerSlot> owner = lanes_.OwnerOf(lane);
    lanes_.DropBlock(lane);
    if (!owner) return;
    WorkerState& state = StateOf(*owner);
    state.ceiling = std::min(state.ceiling, entry.depth());
    ++shed_block_total_;
  });
  sets_.Release(entry.holders());
  depth_limit_.Drop(entry.depth());
}

// ---- maintenance ----

bool PrefixIndex::Core::HasWork() const {
  return table_.growing() || lanes_.retired_block_count() > 0 || depth_limit_.excess_count() > 0;
}

void PrefixIndex::Core::Work(std::size_t bucket_count) {
  table_.Work(bucket_count, [this](BlockTable::Payload payload) { return Swept(payload); });
}

void PrefixIndex::Core::TakeCare() {
  if (HasWork()) {
    owed_buckets_ += table_.growing() ? kGrowthBucketsPerBlock : kSweptBucketsPerBlock;
    if (owed_buckets_ >= kBucketsAtOnce) Work(std::exchange(owed_buckets_, 0));
  }
  if (--blocks_until_reclaim_ == 0) Reclaim();
}

void PrefixIndex::Core::Reclaim() {
  // A small table must soon be able to reuse its freed slots.
  blocks_until_reclaim_ = std::min(kMaxBlocksPerReclaim, table_.capacity() / kReclaimsPerTable);
  gate_.TryAdvance();
  sets_.Reclaim();
  table_.Reclaim();
  const auto lift_size = static_cast<std::size_t>(static_cast<double>(table_.capacity()) * kLiftLoad);
  if (depth_limit_.excess_count() == 0 && table_.size() < lift_size) depth_limit_.Lift();
}

namespace {

using Stretch = ChainSearch<BlockTable::Search>::Stretch;

// Turns the stretches of a search into matches: each lane matches at the first stretch that has it.
class Collector {
 public:
  // Only lanes that hold the first block count. `matches` must have room for one more than there are lanes.
  Collector(const HolderSets& sets, const Lanes& lanes, Holders first, std::span<WorkerMatch> matches)
      : sets_(sets), lanes_(lanes), matches_(matches) {
    sets_.ForEachWord(first, [this](std::size_t word, std::uint64_t bits) { missing_[word] |= bits; });
  }

  // Call it with the deepest stretch first.
  void Take(const Stretch& stretch) {
    sets_.ForEachWord(stretch.holders, [&](std::size_t word, std::uint64_t bits) {
      const std::uint64_t found = bits & missing_[word];
      missing_[word] ^= found;
      Append(word, found, stretch.end);
    });
  }
  [[nodiscard]] std::size_t match_count() const { return match_count_; }

 private:
  // Appends the lanes of a word. It always does four steps at a time: the number of steps is unpredictable, and a
  // branch misprediction costs more than a few steps (Langdale, Lemire, Parsing Gigabytes of JSON per Second, VLDB
  // Journal 2019).
  void Append(std::size_t word, std::uint64_t bits, std::uint32_t block_count) {
    constexpr int kSteps = 4;
    const auto first_lane = static_cast<std::uint32_t>(word * kLanesPerWord);
    while (bits != 0) {
      for (int step = 0; step < kSteps; ++step) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits)) % std::uint32_t{kLanesPerWord};
        const std::optional<WorkerSlot> owner = lanes_.OwnerOf(Lane(first_lane + bit));
        matches_[match_count_] = {owner.value_or(WorkerSlot(0)), block_count};
        match_count_ += static_cast<std::size_t>(bits != 0) & static_cast<std::size_t>(owner.has_value());
        bits &= bits - 1;
      }
    }
  }

  const HolderSets& sets_;
  const Lanes& lanes_;
  const std::span<WorkerMatch> matches_;
  std::size_t match_count_ = 0;
  std::array<std::uint64_t, kMaxLanes / kLanesPerWord + 1> missing_ = {};  // lanes whose depth is not known yet
};

}  // namespace

PrefixIndex::PrefixIndex() : PrefixIndex(std::make_shared<IndexBudget>()) {}
PrefixIndex::PrefixIndex(std::shared_ptr<IndexBudget> budget) : core_(std::make_unique<Core>(std::move(budget))) {}
PrefixIndex::~PrefixIndex() = default;

void PrefixIndex::Match(std::span<const BlockHash> hashes, MatchBuffer& buffer) const {
  buffer.match_count_ = 0;
  if (hashes.empty()) return;
  struct Probe {
    const Core& core;
    std::span<const BlockHash> hashes;

    [[nodiscard]] BlockTable::Search Locate(std::uint32_t position) const { return core.Locate(hashes[position]); }
    static void Fetch(const BlockTable::Search& search) { search.Fetch(); }
    [[nodiscard]] Holders Finish(const BlockTable::Search& search) const { return core.Finish(search); }
    void Expect(Holders holders) const { core.sets().Prefetch(holders); }
  };
  const EpochGate::Pin pin(core_->gate());
  const auto length = static_cast<std::uint32_t>(hashes.size());
  const auto stretches = buffer.search_.Run(length, hashes.front().low, Probe{*core_, hashes});
  Collector collector(core_->sets(), core_->lanes(), stretches.back().holders, buffer.matches_);
  for (const Stretch& stretch : stretches) collector.Take(stretch);
  buffer.match_count_ = collector.match_count();
}

std::vector<WorkerMatch> PrefixIndex::Match(std::span<const BlockHash> hashes) const {
  thread_local MatchBuffer buffer;
  Match(hashes, buffer);
  return {buffer.matches().begin(), buffer.matches().end()};
}

void PrefixIndex::Store(WorkerSlot worker, std::uint32_t first_position, std::span<const BlockHash> hashes) {
  core_->Store(worker, first_position, hashes);
}
void PrefixIndex::Remove(WorkerSlot worker, std::span<const BlockHash> hashes) { core_->Remove(worker, hashes); }
void PrefixIndex::Clear(WorkerSlot worker) { core_->Clear(worker); }
PrefixIndex::WorkerView PrefixIndex::View(WorkerSlot worker) const { return core_->View(worker); }
void PrefixIndex::Sweep(std::size_t bucket_count) { core_->Sweep(bucket_count); }
std::uint64_t PrefixIndex::block_count() const { return core_->block_count(); }
std::uint64_t PrefixIndex::memory_bytes() const { return core_->memory_bytes(); }
std::uint64_t PrefixIndex::holder_set_count() const { return core_->holder_set_count(); }
std::uint64_t PrefixIndex::shed_block_total() const { return core_->shed_block_total(); }

}  // namespace roost::router
