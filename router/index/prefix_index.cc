#include "router/index/prefix_index.h"

#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "router/index/index_core.h"

namespace roost::router {

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
    static void Fetch(const BlockTable::Search& search) { BlockTable::Fetch(search); }
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
