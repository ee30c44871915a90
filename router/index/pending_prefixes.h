// Prefixes that workers are computing or fetching now and have not reported yet. So requests with the same prefix that
// arrive together follow the first of them, instead of being spread over workers that do not have it.
//
// A block's hash covers all tokens before it, so two chains share their blocks up to one place and none after it.
// Bisection finds that place. When chains are sorted by their hashes, those that share a prefix are neighbours, and the
// more blocks a chain shares with a query, the closer it is to the query's own place:
//
//   sorted chains   a1  a1 a2  a1 a2 b3 ▲ a1 a2 c3 c4  a1 d2  e1            query  a1 a2 b3 b4
//   shared blocks   1   2      3        ╵ 2            1      0             reading goes outwards, deepest first
//
// A lookup costs O((log entries + kMaxRead) · log shared blocks), regardless of the length of prompts and the number of
// workers. An entry is a view of its request's hashes: one node of a sorted set, regardless of the length of the
// prompt.
//
// An entry is removed with its guard: at the first token, on cancel, on failure and on loss of the worker. There is at
// most one for each request at a worker, which bounds their number. After its deadline the computation is much later
// than predicted, and lookups ignore the entry.
//
// Not thread-safe. It outlives its guards; a chain outlives its guard.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/index/prefix_index.h"

namespace roost::router {

class PendingPrefixes {
 private:
  struct Entry {
    std::span<const BlockHash> chain;
    WorkerSlot worker;
    Instant deadline;
    std::uint64_t number = 0;  // distinguishes equal chains
    std::uint32_t coming_block_count = 0;
    Instant comes_at{};
    bool only_whole = false;
  };
  struct ByChain {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  using Entries = std::set<Entry, ByChain>;

 public:
  // A lookup reads at most this many entries, those that share the most. A decision compares only a few workers.
  static constexpr std::size_t kMaxRead = 64;
  // For what should have come already.
  static constexpr Duration kLeastWait = std::chrono::milliseconds(1);

  // Removes its entry when it is destroyed or reassigned.
  class Guard {
   public:
    Guard() = default;  // guards no entry
    Guard(Guard&& other) noexcept;
    Guard& operator=(Guard&& other) noexcept;
    ~Guard() { Release(); }
    [[nodiscard]] bool guards() const { return entries_ != nullptr; }

   private:
    friend class PendingPrefixes;
    Guard(Entries& entries, Entries::iterator entry) : entries_(&entries), entry_(entry) {}
    void Release();

    Entries* entries_ = nullptr;
    Entries::iterator entry_;
  };

  // Leading blocks of a chain that come from another worker, and when they should be there.
  struct Coming {
    std::uint32_t block_count = 0;
    Instant at{};
  };
  // `worker` will hold all of `chain` (front to back), and should by `deadline`.
  [[nodiscard]] Guard Add(WorkerSlot worker, std::span<const BlockHash> chain, Instant deadline) {
    return Add(worker, chain, deadline, {});
  }
  [[nodiscard]] Guard Add(WorkerSlot worker, std::span<const BlockHash> chain, Instant deadline, Coming coming);
  // The same, but only a prompt that has all of `chain` can go on behind it; with a part of it none can.
  [[nodiscard]] Guard AddWhole(WorkerSlot worker, std::span<const BlockHash> chain, Instant deadline);

  // Adds pending blocks to `matches`, an index's matches for `chain`, which are and stay ordered deepest first. A
  // worker's depth becomes the larger of both; its pending_block_count is the difference to what the index has, and its
  // pending_seconds the time until what it lacks has come from elsewhere, at least kLeastWait.
  void Deepen(std::span<const BlockHash> chain, Instant now, std::vector<WorkerMatch>& matches) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  class Reader;

  Entries entries_;
  std::uint64_t next_number_ = 0;
};

}  // namespace roost::router
