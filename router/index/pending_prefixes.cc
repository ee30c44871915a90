#include "router/index/pending_prefixes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace roost::router {

namespace {

using Chain = std::span<const BlockHash>;

// The number of blocks that two chains share, but not more than `most`. Doubles its steps from the front, then bisects:
// O(log shared).
//
//   shared [0 … low)      not shared [high … )
std::size_t SharedBlocks(Chain a, Chain b, std::size_t most) {
  most = std::min({most, a.size(), b.size()});
  const auto is_shared = [&](std::size_t place) { return a[place] == b[place]; };
  if (most == 0 || is_shared(most - 1)) return most;
  std::size_t low = 0;
  std::size_t high = most - 1;
  for (std::size_t step = 1; low + step <= high; step *= 2) {
    if (!is_shared(low + step - 1)) {
      high = low + step - 1;
      break;
    }
    low += step;
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (is_shared(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::size_t SharedBlocks(Chain a, Chain b) { return SharedBlocks(a, b, a.size()); }

}  // namespace

bool PendingPrefixes::ByChain::operator()(const Entry& a, const Entry& b) const {
  const std::size_t shared = SharedBlocks(a.chain, b.chain);
  const bool a_ends = shared == a.chain.size();
  const bool b_ends = shared == b.chain.size();
  if (a_ends && b_ends) return a.number < b.number;
  if (a_ends || b_ends) return a_ends;
  return a.chain[shared] < b.chain[shared];
}

// Reads the entries around a query's place, in the order of how many blocks they share with it.
class PendingPrefixes::Reader {
 public:
  Reader(const Entries& entries, Chain query)
      : entries_(entries),
        query_(query),
        above_(entries.lower_bound(Entry{query, WorkerSlot(), Instant(), 0})),
        below_(above_),
        shared_above_(query.size()),
        shared_below_(query.size()) {
    MeasureAbove();
    MeasureBelow();
  }

  struct Item {
    const Entry* entry;
    std::size_t shared;
  };
  // Empty once no entry is left that shares a block.
  std::optional<Item> Next() {
    if (shared_above_ == 0 && shared_below_ == 0) return std::nullopt;
    if (shared_above_ >= shared_below_) {
      const Item item{&*above_, shared_above_};
      ++above_;
      MeasureAbove();
      return item;
    }
    --below_;
    const Item item{&*below_, shared_below_};
    MeasureBelow();
    return item;
  }

 private:
  // Entries that are further away share no more blocks, so the last count is the bound.
  void MeasureAbove() {
    shared_above_ = above_ == entries_.end() ? 0 : SharedBlocks(query_, above_->chain, shared_above_);
  }
  void MeasureBelow() {
    shared_below_ = below_ == entries_.begin() ? 0 : SharedBlocks(query_, std::prev(below_)->chain, shared_below_);
  }

  const Entries& entries_;
  const Chain query_;
  Entries::const_iterator above_;  // the next entry upwards
  Entries::const_iterator below_;  // one past the next entry downwards
  std::size_t shared_above_;
  std::size_t shared_below_;
};

PendingPrefixes::Guard::Guard(Guard&& other) noexcept
    : entries_(std::exchange(other.entries_, nullptr)), entry_(other.entry_) {}

PendingPrefixes::Guard& PendingPrefixes::Guard::operator=(Guard&& other) noexcept {
  if (this == &other) return *this;
  Release();
  entries_ = std::exchange(other.entries_, nullptr);
  entry_ = other.entry_;
  return *this;
}

void PendingPrefixes::Guard::Release() {
  if (entries_ != nullptr) std::exchange(entries_, nullptr)->erase(entry_);
}

PendingPrefixes::Guard PendingPrefixes::Add(WorkerSlot worker, Chain chain, Instant deadline, Coming coming) {
  const auto [entry, is_new] =
      entries_.insert({chain, worker, deadline, ++next_number_, coming.block_count, coming.at});
  ROOST_CHECK(is_new);
  return {entries_, entry};
}

PendingPrefixes::Guard PendingPrefixes::AddWhole(WorkerSlot worker, Chain chain, Instant deadline) {
  const auto [entry, is_new] = entries_.insert({chain, worker, deadline, ++next_number_, 0, {}, true});
  ROOST_CHECK(is_new);
  return {entries_, entry};
}

void PendingPrefixes::Deepen(Chain chain, Instant now, std::vector<WorkerMatch>& matches) const {
  Reader reader(entries_, chain);
  bool changed = false;
  for (std::size_t read = 0; read < kMaxRead; ++read) {
    const std::optional<Reader::Item> item = reader.Next();
    if (!item.has_value()) break;
    if (item->entry->deadline < now) continue;
    if (item->entry->only_whole && item->shared < item->entry->chain.size()) continue;
    const auto depth = static_cast<std::uint32_t>(item->shared);
    auto match = std::find_if(matches.begin(), matches.end(),
                              [&](const WorkerMatch& other) { return other.worker == item->entry->worker; });
    if (match == matches.end()) match = matches.insert(match, WorkerMatch{.worker = item->entry->worker});
    if (match->block_count >= depth) continue;
    if (match->block_count < item->entry->coming_block_count) {
      const float seconds = static_cast<float>(ToSeconds(std::max(item->entry->comes_at - now, kLeastWait)));
      match->pending_seconds = std::max(match->pending_seconds, seconds);
    }
    match->pending_block_count += depth - match->block_count;
    match->block_count = depth;
    changed = true;
  }
  if (!changed) return;
  std::stable_sort(matches.begin(), matches.end(),
                   [](const WorkerMatch& a, const WorkerMatch& b) { return a.block_count > b.block_count; });
}

}  // namespace roost::router
