#include "router/index/index_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::router {

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
  ROOST_CHECK(worker.value() < kMaxWorkers, "slot {}", worker.value());
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
  ROOST_CHECK(worker.value() < kMaxWorkers, "slot {}", worker.value());
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
  table_.SetPayload(slot, Entry(*holders, entry.depth()).payload());
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
  if (!rest->empty()) return table_.SetPayload(slot, Entry(*rest, entry.depth()).payload());
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

}  // namespace roost::router
