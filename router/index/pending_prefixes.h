// Prefixes that workers are computing now, for this router: sent, and not yet reported. So siblings that arrive
// together follow the first of them instead of being spread as if nothing were on its way.
//
// A block's hash covers all tokens before it, so two chains share their blocks up to one place and none after it, which
// bisection finds. Sorted by their hashes, chains that share a prefix stand together, and the deeper they share it with
// a query, the closer they stand to the query's own place:
//
//   sorted chains   a1  a1 a2  a1 a2 b3 ▲ a1 a2 c3 c4  a1 d2  e1            query  a1 a2 b3 b4
//   shared blocks   1   2      3        ╵ 2            1      0             reading goes outwards, deepest first
//
// A lookup costs O((log entries + kMaxRead) · log shared blocks), whatever the length of prompts and the number of
// workers. An entry is a view of its request's hashes: one node of a sorted set, whatever the length of the prompt.
//
// An entry goes with its guard: at the first token, on cancel, failure and loss of the worker. At most one for each
// request at a worker, which is what bounds them. Past its deadline the computation is later than was predicted by far,
// and nobody follows it any more.
//
// Not thread-safe. It outlives its guards; a chain outlives its guard.
#pragma once

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
    std::uint64_t number = 0;  // tells equal chains apart
  };
  struct ByChain {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  using Entries = std::set<Entry, ByChain>;

 public:
  // Entries that a lookup reads at most: those that share the most. A decision compares no more than a few workers.
  static constexpr std::size_t kMaxRead = 64;

  // Takes its entry out when it is destroyed or reassigned.
  class Guard {
   public:
    Guard() = default;  // of nothing
    Guard(Guard&& other) noexcept;
    Guard& operator=(Guard&& other) noexcept;
    ~Guard() { Release(); }

   private:
    friend class PendingPrefixes;
    Guard(Entries& entries, Entries::iterator entry) : entries_(&entries), entry_(entry) {}
    void Release();

    Entries* entries_ = nullptr;
    Entries::iterator entry_;
  };

  // `worker` will hold all of `chain` (front to back), and should by `deadline`.
  [[nodiscard]] Guard Add(WorkerSlot worker, std::span<const BlockHash> chain, Instant deadline);

  // Adds what is pending to `matches`, which is what an index says of `chain`, deepest first, and stays so. A worker's
  // depth is the larger of the two; the blocks by which pending ones deepen it are its pending_block_count.
  void Deepen(std::span<const BlockHash> chain, Instant now, std::vector<WorkerMatch>& matches) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  class Reader;

  Entries entries_;
  std::uint64_t next_number_ = 0;
};

}  // namespace roost::router
