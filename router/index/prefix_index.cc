#include "router/index/prefix_index.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "router/index/holder_set.h"

namespace roost::router {

struct PrefixIndex::State {
  mutable std::shared_mutex mutex;
  std::unordered_map<BlockHash, HolderSet, BlockHashHasher> holders;  // guarded by mutex; no entry is empty
  std::vector<WorkerView> views;                                      // guarded by mutex; by slot

  WorkerView& ViewOf(WorkerSlot worker) {
    if (worker.value() >= views.size()) views.resize(worker.value() + std::size_t{1});
    return views[worker.value()];
  }

  // Nobody, when the block is unknown.
  [[nodiscard]] HolderSet HoldersOf(BlockHash hash) const {
    const auto found = holders.find(hash);
    return found == holders.end() ? HolderSet() : found->second;
  }
};

namespace {

// Bisects one chain. Positions are indices of blocks; a worker whose last held block is `p` has depth p + 1.
//
//   first holders ⊇ … ⊇ last holders
//   [first ………………… last]   workers in last: at least last + 1 deep
//                           workers in first, not in last: their end lies in [first, last)
class Bisection {
 public:
  template <typename HoldersAt>
  static std::vector<WorkerMatch> Run(std::size_t length, HoldersAt holders_at) {
    std::vector<WorkerMatch> matches;
    const HolderSet first = holders_at(std::size_t{0});
    if (first.empty()) return matches;
    HolderSet last = holders_at(length - 1);
    last.IntersectWith(first);
    last.ForEach([&](WorkerSlot worker) { matches.push_back({worker, static_cast<std::uint32_t>(length)}); });
    Narrow(0, first, length - 1, last, holders_at, matches);
    return matches;
  }

 private:
  // Appends the workers that end inside the interval, deepest half first. Recursion is as deep as log2(length).
  template <typename HoldersAt>
  static void Narrow(std::size_t first, const HolderSet& at_first, std::size_t last, const HolderSet& at_last,
                     HoldersAt holders_at, std::vector<WorkerMatch>& matches) {
    const HolderSet ending = at_first.Minus(at_last);
    if (ending.empty()) return;
    if (last - first == 1) {
      ending.ForEach([&](WorkerSlot worker) { matches.push_back({worker, static_cast<std::uint32_t>(last)}); });
      return;
    }
    const std::size_t middle = first + (last - first) / 2;
    HolderSet at_middle = holders_at(middle);
    // No change for a closed view; for one that is not, it keeps every worker in exactly one half.
    at_middle.IntersectWith(at_first);
    at_middle.UniteWith(at_last);
    Narrow(middle, at_middle, last, at_last, holders_at, matches);
    Narrow(first, at_first, middle, at_middle, holders_at, matches);
  }
};

}  // namespace

PrefixIndex::PrefixIndex() : state_(std::make_unique<State>()) {}
PrefixIndex::~PrefixIndex() = default;

void PrefixIndex::Store(WorkerSlot worker, std::span<const BlockHash> hashes) {
  const std::unique_lock lock(state_->mutex);
  WorkerView& view = state_->ViewOf(worker);
  for (const BlockHash hash : hashes) {
    if (!state_->holders[hash].Insert(worker)) continue;
    ++view.block_count;
    view.digest = view.digest ^ hash;
  }
}

void PrefixIndex::Remove(WorkerSlot worker, std::span<const BlockHash> hashes) {
  const std::unique_lock lock(state_->mutex);
  WorkerView& view = state_->ViewOf(worker);
  for (const BlockHash hash : hashes) {
    const auto found = state_->holders.find(hash);
    if (found == state_->holders.end() || !found->second.Erase(worker)) continue;
    if (found->second.empty()) state_->holders.erase(found);
    --view.block_count;
    view.digest = view.digest ^ hash;
  }
}

void PrefixIndex::Clear(WorkerSlot worker) {
  const std::unique_lock lock(state_->mutex);
  WorkerView& view = state_->ViewOf(worker);
  if (view.block_count == 0) return;
  for (auto entry = state_->holders.begin(); entry != state_->holders.end();) {
    const bool orphaned = entry->second.Erase(worker) && entry->second.empty();
    entry = orphaned ? state_->holders.erase(entry) : std::next(entry);
  }
  view = WorkerView{};
}

std::vector<WorkerMatch> PrefixIndex::Match(std::span<const BlockHash> hashes) const {
  if (hashes.empty()) return {};
  const std::shared_lock lock(state_->mutex);
  return Bisection::Run(hashes.size(), [&](std::size_t position) { return state_->HoldersOf(hashes[position]); });
}

PrefixIndex::WorkerView PrefixIndex::View(WorkerSlot worker) const {
  const std::shared_lock lock(state_->mutex);
  return worker.value() < state_->views.size() ? state_->views[worker.value()] : WorkerView{};
}

std::uint64_t PrefixIndex::block_count() const {
  const std::shared_lock lock(state_->mutex);
  return state_->holders.size();
}

}  // namespace roost::router
