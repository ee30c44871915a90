// The inside of PrefixIndex (prefix_index.h): the table, the sets and the lanes, which the writer keeps consistent with
// each other. Readers only look up single blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/index/block_table.h"
#include "router/index/depth_limit.h"
#include "router/index/epoch_gate.h"
#include "router/index/holder_sets.h"
#include "router/index/holders.h"
#include "router/index/lanes.h"
#include "router/index/prefix_index.h"

namespace roost::router {

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
  std::array<WorkerState, kMaxWorkers> workers_;  // by slot
  std::uint64_t shed_block_total_ = 0;
  std::size_t owed_buckets_ = 0;  // maintenance that is due
  std::size_t blocks_until_reclaim_ = 1;
};

}  // namespace roost::router
