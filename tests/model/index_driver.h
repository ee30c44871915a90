// Does the same random operations on a prefix index and on a naive one, a set of blocks per worker, and compares every
// answer. Workers behave correctly: they store front to back and remove back to front. Choices decide what happens, so
// a seeded generator and a fuzzer drive it in the same way.
//
// With a budget so small that blocks are shed, an answer may be less than the truth, but it must be prefix-closed,
// accounted for, and correct as far as it goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "router/index/prefix_index.h"
#include "tests/model/choices.h"
#include "tests/model/expect.h"

namespace roost::testing_support {

class IndexDriver {
 public:
  // Larger values give a larger forest of chains.
  struct Size {
    std::uint32_t chains = 12;
    std::uint32_t max_length = 48;
  };

  IndexDriver(Choices& choices, Size size)
      : choices_(choices),
        bounded_(choices.Below(2) == 1),
        budget_(std::make_shared<router::IndexBudget>(ChooseLimit())),
        index_(budget_),
        workers_(1 + choices.Below(choices.Below(3) == 0 ? kManyWorkers : 6)) {
    for (std::uint32_t i = 0; i < size.chains; ++i) Grow(1 + choices.Below(size.max_length));
  }

  Result<void> Step() {
    const std::uint64_t which = choices_.Below(32);
    const std::size_t worker = choices_.Below(workers_.size());
    if (which == 0) {
      Clear(worker);
    } else if (which == 1) {
      Grow(1 + choices_.Below(8));
    } else if (which == 2) {
      index_.Sweep(choices_.Below(64));
    } else if (which == 3) {
      StoreEverywhere();
    } else if (which < 12) {
      RemoveTail(worker);
    } else {
      StoreNext(worker, ChooseChain());
    }
    return Compare(worker);
  }

  // Compares everything, once lazy work is done.
  Result<void> Finish() {
    for (int round = 0; round < 4; ++round) index_.Sweep(kAllBuckets);
    if (!bounded_) {
      ROOST_RETURN_IF_ERROR(Expect(index_.block_count() == DistinctCount(), "{} blocks are indexed, {} are held",
                                   index_.block_count(), DistinctCount()));
    }
    for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
      ROOST_RETURN_IF_ERROR(CompareView(worker));
      ROOST_RETURN_IF_ERROR(CompareIndexed(worker));
    }
    return {};
  }

  [[nodiscard]] const router::PrefixIndex& index() const { return index_; }

 private:
  using Chain = std::vector<BlockHash>;
  static constexpr std::uint64_t kManyWorkers = 150;
  static constexpr std::size_t kAllBuckets = std::size_t{1} << 20U;

  // The table never grows and there are no interned sets; there are some of both; no limit.
  std::uint64_t ChooseLimit() {
    if (!bounded_) return router::IndexBudget::kUnlimited;
    return choices_.Below(2) == 0 ? 1 : 600'000;
  }

  static WorkerSlot SlotOf(std::size_t worker) {
    return WorkerSlot(static_cast<std::uint32_t>(worker * 397 % router::PrefixIndex::kMaxSlots));
  }
  const Chain& ChooseChain() { return chains_[choices_.Below(chains_.size())]; }

  // Adds a chain, usually one that branches off another one.
  void Grow(std::size_t length) {
    Chain chain;
    if (!chains_.empty() && choices_.Below(4) != 0) {
      chain = ChooseChain();
      chain.resize(std::min<std::size_t>(choices_.Below(256), chain.size()));
    }
    for (std::size_t i = 0; i < length; ++i) {
      ++hash_count_;
      chain.push_back({.high = Mix64(hash_count_), .low = Mix64(~hash_count_)});
    }
    chains_.push_back(std::move(chain));
  }

  [[nodiscard]] std::size_t HeldOf(std::size_t worker, const Chain& chain) const {
    std::size_t count = 0;
    while (count < chain.size() && workers_[worker].contains(chain[count])) ++count;
    return count;
  }

  // ---- the workers' operations ----

  void StoreNext(std::size_t worker, const Chain& chain) {
    const std::size_t held = HeldOf(worker, chain);
    const std::span<const BlockHash> rest = std::span(chain).subspan(held);
    const auto run = rest.first(std::min<std::size_t>(rest.size(), 1 + choices_.Below(64)));
    index_.Store(SlotOf(worker), static_cast<std::uint32_t>(held), run);
    workers_[worker].insert(run.begin(), run.end());
  }
  void StoreEverywhere() {
    const Chain chain = ChooseChain();
    for (std::size_t worker = 0; worker < workers_.size(); ++worker) StoreNext(worker, chain);
  }

  // Removes a block of some chain, and all that the worker holds after it, deepest first.
  void RemoveTail(std::size_t worker) {
    const Chain chain = ChooseChain();
    const std::size_t position = choices_.Below(chain.size());
    std::map<std::size_t, std::set<BlockHash>, std::greater<>> by_position;
    for (const Chain& other : chains_) {
      if (other.size() <= position || other[position] != chain[position]) continue;
      for (std::size_t i = position; i < HeldOf(worker, other); ++i) by_position[i].insert(other[i]);
    }
    Chain removed;
    for (const auto& [depth, hashes] : by_position) removed.insert(removed.end(), hashes.begin(), hashes.end());
    for (const BlockHash hash : removed) workers_[worker].erase(hash);
    index_.Remove(SlotOf(worker), removed);
  }

  void Clear(std::size_t worker) {
    index_.Clear(SlotOf(worker));
    workers_[worker].clear();
  }

  // ---- comparisons ----

  using Depths = std::map<std::uint32_t, std::size_t>;  // by slot

  Result<Depths> Match(std::span<const BlockHash> query) {
    index_.Match(query, buffer_);
    Depths depths;
    std::size_t previous = query.size();
    for (const WorkerMatch& match : buffer_.matches()) {
      ROOST_RETURN_IF_ERROR(Expect(match.block_count > 0 && match.block_count <= previous, "the order is wrong"));
      previous = match.block_count;
      const bool fresh = depths.emplace(match.worker.value(), match.block_count).second;
      ROOST_RETURN_IF_ERROR(Expect(fresh, "worker {} is named twice", match.worker.value()));
    }
    return depths;
  }

  Result<void> Compare(std::size_t worker) {
    ROOST_RETURN_IF_ERROR(CompareView(worker));
    const Chain& chain = ChooseChain();
    ROOST_ASSIGN_OR_RETURN(const Depths whole, Match(chain));
    const std::size_t length = 1 + choices_.Below(chain.size());
    ROOST_ASSIGN_OR_RETURN(const Depths part, Match(std::span(chain).first(length)));
    std::size_t found = 0;
    for (std::size_t other = 0; other < workers_.size(); ++other) {
      const auto at = whole.find(SlotOf(other).value());
      const std::size_t depth = at == whole.end() ? 0 : at->second;
      found += depth > 0 ? 1 : 0;
      const std::size_t truth = HeldOf(other, chain);
      ROOST_RETURN_IF_ERROR(Expect(depth <= truth && (bounded_ || depth == truth), "depth {}, it is {}", depth, truth));
      const auto in_part = part.find(SlotOf(other).value());
      const std::size_t part_depth = in_part == part.end() ? 0 : in_part->second;
      ROOST_RETURN_IF_ERROR(Expect(part_depth == std::min(depth, length), "not closed: {} of {} blocks, {} of {}",
                                   part_depth, length, depth, chain.size()));
    }
    return Expect(found == whole.size(), "{} workers, {} are known", whole.size(), found);
  }

  Result<void> CompareView(std::size_t worker) {
    const router::PrefixIndex::WorkerView view = index_.View(SlotOf(worker));
    const std::set<BlockHash>& held = workers_[worker];
    BlockHash digest;
    for (const BlockHash hash : held) digest = digest ^ hash;
    ROOST_RETURN_IF_ERROR(Expect(view.digest == digest, "the digest is wrong"));
    ROOST_RETURN_IF_ERROR(Expect(view.block_count == held.size(), "{} of {} blocks", view.block_count, held.size()));
    const bool indexed = bounded_ ? view.indexed_block_count <= held.size() : view.indexed_block_count == held.size();
    ROOST_RETURN_IF_ERROR(Expect(indexed, "{} of {} are indexed", view.indexed_block_count, held.size()));
    // A removal may overdraw the budget by one segment of sets.
    const std::uint64_t bound = std::max<std::uint64_t>(budget_->limit_bytes(), kMinBytes);
    return Expect(!bounded_ || index_.memory_bytes() <= bound + kSetSegmentBytes, "{} bytes", index_.memory_bytes());
  }

  // The blocks that lookups find are those that count as indexed.
  Result<void> CompareIndexed(std::size_t worker) {
    std::set<BlockHash> found;
    for (const Chain& chain : chains_) {
      ROOST_ASSIGN_OR_RETURN(const Depths depths, Match(chain));
      const auto at = depths.find(SlotOf(worker).value());
      if (at != depths.end()) found.insert(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(at->second));
    }
    const std::uint64_t indexed = index_.View(SlotOf(worker)).indexed_block_count;
    return Expect(found.size() == indexed, "{} blocks are found, {} are indexed", found.size(), indexed);
  }

  [[nodiscard]] std::size_t DistinctCount() const {
    std::set<BlockHash> all;
    for (const auto& held : workers_) all.insert(held.begin(), held.end());
    return all.size();
  }

  static constexpr std::uint64_t kMinBytes = 250'000;
  static constexpr std::uint64_t kSetSegmentBytes = 400'000;

  Choices& choices_;
  const bool bounded_;
  const std::shared_ptr<router::IndexBudget> budget_;
  router::PrefixIndex index_;
  router::MatchBuffer buffer_;
  std::vector<std::set<BlockHash>> workers_;
  std::vector<Chain> chains_;
  std::uint64_t hash_count_ = 0;
};

}  // namespace roost::testing_support
