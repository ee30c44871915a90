// S3-FIFO (Yang, Zhang, Qiu, Yue, Vigfusson, FIFO queues are all you need for cache eviction, SOSP 2023), as far as the
// tree of blocks allows it: a small queue in which new blocks prove themselves, a main queue with second chances, and a
// ghost list of what left the small queue.
//
//     new, unknown ──▶ small ──▶ evicted, key ─▶ ghosts
//     new, in ghosts ──▶ main ◀─┐ second chance, while it was reused since
//     reused while resident ──▶ main ──▶ evicted
//
// The small queue gives the victim while it holds more than a tenth of the group's idle blocks. Two differences from
// the paper: only leaves are evicted, and a reused block leaves its queue, because it is not idle then; it comes back
// into the main queue.
//
// 25 bytes per block. See EvictionPolicy.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/cache/eviction.h"

namespace roost::worker {

class S3FifoEviction final : public EvictionPolicy {
 public:
  explicit S3FifoEviction(std::uint32_t block_count, std::uint32_t group_count = 1);

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override;
  void BecomeLeaf(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override;
  void Evict(BlockId block) override;

 private:
  enum class Queue : std::uint8_t { kSmall, kMain };
  struct GroupCounts {
    std::uint32_t small = 0;
    std::uint32_t main = 0;
  };

  [[nodiscard]] static std::uint32_t ListOf(std::uint32_t group, Queue queue);
  [[nodiscard]] std::uint32_t& CountOf(BlockId block);
  [[nodiscard]] bool IsSmall(BlockId block) const;
  [[nodiscard]] std::optional<BlockId> MainVictim(std::uint32_t group);
  [[nodiscard]] std::uint32_t& GhostSlot(std::uint64_t key);

  LeafLists lists_;  // two per group
  std::vector<GroupCounts> counts_;
  std::vector<std::uint8_t> chances_;  // by block, in the main queue
  std::vector<std::uint32_t> names_;   // by block: half of its key
  std::vector<std::uint32_t> ghosts_;  // a table of names; 0: empty. A new name takes the place of an older one
};

}  // namespace roost::worker
