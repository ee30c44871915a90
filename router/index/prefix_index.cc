#include "router/index/prefix_index.h"

#include <array>
#include <utility>

#include "router/index/index_core.h"

namespace roost::router {

namespace {

using Sample = ChainSearch<BlockTable::Search>::Sample;

// Turns the samples of a search into matches: from the deepest one to the first, each lane where it is met first.
class Collector {
 public:
  // Only lanes that hold the first block count.
  Collector(const HolderSets& sets, const Lanes& lanes, Holders first) : sets_(sets), lanes_(lanes) {
    sets_.ForEachLane(first, [this](Lane lane) {
      WordOf(lane) |= BitOf(lane);
      ++missing_count_;
    });
  }

  void Run(std::span<const Sample> samples, std::vector<WorkerMatch>& matches) {
    Holders previous;
    for (auto sample = samples.rbegin(); sample != samples.rend() && missing_count_ > 0; ++sample) {
      if (sample->holders != previous) Take(*sample, matches);
      previous = sample->holders;
    }
  }

 private:
  void Take(const Sample& sample, std::vector<WorkerMatch>& matches) {
    const auto found = [&](Lane lane) {
      WordOf(lane) &= ~BitOf(lane);
      --missing_count_;
      const std::optional<WorkerSlot> worker = lanes_.OwnerOf(lane);
      if (worker) matches.push_back({*worker, sample.position + 1});
    };
    if (!sample.holders.is_set()) {
      sets_.ForEachLane(sample.holders, [&](Lane lane) {
        if ((WordOf(lane) & BitOf(lane)) != 0) found(lane);
      });
      return;
    }
    const std::span<const std::uint64_t> words = sets_.Words(sample.holders.set());
    for (std::size_t word = 0; word < words.size(); ++word) {
      ForEachLaneOfWord(word, words[word] & missing_[word], found);
    }
  }

  [[nodiscard]] std::uint64_t& WordOf(Lane lane) { return missing_[lane.value() / kLanesPerWord]; }
  [[nodiscard]] static std::uint64_t BitOf(Lane lane) { return std::uint64_t{1} << (lane.value() % kLanesPerWord); }

  const HolderSets& sets_;
  const Lanes& lanes_;
  std::array<std::uint64_t, kMaxLanes / kLanesPerWord> missing_ = {};  // lanes whose depth is not known yet
  std::size_t missing_count_ = 0;
};

}  // namespace

PrefixIndex::PrefixIndex() : PrefixIndex(std::make_shared<IndexBudget>()) {}
PrefixIndex::PrefixIndex(std::shared_ptr<IndexBudget> budget) : core_(std::make_unique<Core>(std::move(budget))) {}
PrefixIndex::~PrefixIndex() = default;

void PrefixIndex::Match(std::span<const BlockHash> hashes, MatchBuffer& buffer) const {
  buffer.matches_.clear();
  if (hashes.empty()) return;
  struct Probe {
    const Core& core;
    std::span<const BlockHash> hashes;

    [[nodiscard]] BlockTable::Search Begin(std::uint32_t position) const { return core.Begin(hashes[position]); }
    [[nodiscard]] Holders Finish(const BlockTable::Search& search) const { return core.Finish(search); }
  };
  const EpochGate::Pin pin(core_->gate());
  const auto samples = buffer.search_.Run(static_cast<std::uint32_t>(hashes.size()), Probe{*core_, hashes});
  Collector(core_->sets(), core_->lanes(), samples.front().holders).Run(samples, buffer.matches_);
}

std::vector<WorkerMatch> PrefixIndex::Match(std::span<const BlockHash> hashes) const {
  MatchBuffer buffer;
  Match(hashes, buffer);
  return std::move(buffer.matches_);
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
