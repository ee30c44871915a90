// The blocks that wait to be written to the disk, and how fast they may be.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "worker/disk/segment.h"

namespace roost::worker {

inline constexpr std::uint64_t kDefaultDiskWriteRate = 40'000'000;  // bytes/s
inline constexpr std::uint32_t kDiskQueuePart = 4;                  // of the pool: a part of it may wait to be written

// A block of a request that has ended.
struct DiskOffer {
  enum class Kind : std::uint8_t { kFound, kOther };
  DiskBlock block;
  Kind kind = Kind::kOther;
};

// The blocks that wait to be written, by hash alone: those that requests found in the cache before all others, each
// kind in the order in which it came.
//
// At most `limit` blocks. When it is full the newest of the others gives way to one that was found; any other block
// that comes then is dropped. A block that waits among the others and is found moves.
//
// Not thread-safe. O(1).
class WriteQueue {
 public:
  explicit WriteQueue(std::size_t limit) : limit_(limit) {}

  // Returns how many blocks were dropped.
  std::uint32_t Push(const DiskOffer& offer) {
    const auto known = kinds_.find(offer.block.hash);
    if (known != kinds_.end()) {
      if (known->second == offer.kind || known->second == DiskOffer::Kind::kFound) return 0;
      known->second = DiskOffer::Kind::kFound;
      found_.push_back(offer.block);
      if (++moved_count_ > limit_) DropMoved();
      return 0;
    }
    std::uint32_t dropped = 0;
    if (kinds_.size() >= limit_) {
      if (offer.kind == DiskOffer::Kind::kOther || !DropNewestOther()) return 1;
      dropped = 1;
    }
    kinds_.emplace(offer.block.hash, offer.kind);
    (offer.kind == DiskOffer::Kind::kFound ? found_ : others_).push_back(offer.block);
    return dropped;
  }

  // The next one; nothing when it is empty.
  [[nodiscard]] std::optional<DiskBlock> Pop() {
    if (!found_.empty()) return Take(found_);
    while (!others_.empty()) {
      const auto known = kinds_.find(others_.front().hash);
      if (known != kinds_.end() && known->second == DiskOffer::Kind::kOther) return Take(others_);
      others_.pop_front();  // it was found meanwhile
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t size() const { return kinds_.size(); }
  [[nodiscard]] bool empty() const { return kinds_.empty(); }

 private:
  [[nodiscard]] DiskBlock Take(std::deque<DiskBlock>& from) {
    const DiskBlock block = from.front();
    from.pop_front();
    kinds_.erase(block.hash);
    return block;
  }

  void DropMoved() {
    moved_count_ = 0;
    std::erase_if(others_, [this](const DiskBlock& block) {
      const auto known = kinds_.find(block.hash);
      return known == kinds_.end() || known->second != DiskOffer::Kind::kOther;
    });
  }

  [[nodiscard]] bool DropNewestOther() {
    while (!others_.empty()) {
      const auto known = kinds_.find(others_.back().hash);
      const bool is_there = known != kinds_.end() && known->second == DiskOffer::Kind::kOther;
      others_.pop_back();
      if (!is_there) continue;
      kinds_.erase(known);
      return true;
    }
    return false;
  }

  const std::size_t limit_;
  std::deque<DiskBlock> found_;
  std::deque<DiskBlock> others_;  // some have moved to found_
  std::size_t moved_count_ = 0;   // at most so many of them
  std::unordered_map<BlockHash, DiskOffer::Kind, BlockHashHasher> kinds_;
};

// Says when the next block may be written: as many bytes per second as the rate allows, after a pause as many at once
// as a second brings.
//
// Not thread-safe. O(1).
class WritePace {
 public:
  explicit WritePace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}  // 0: no bound

  [[nodiscard]] Instant next() const { return next_; }
  void Count(std::uint64_t bytes, Instant now) {
    if (bytes_per_second_ == 0) return;
    const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
    next_ = std::max(next_, now - kBurst) + FromSeconds(seconds);
  }
  void PauseUntil(Instant end) { next_ = end; }
  // There is no bound from now on, nor a wait for it.
  void Lift() {
    if (bytes_per_second_ > 0) next_ = {};
    bytes_per_second_ = 0;
  }

 private:
  static constexpr std::chrono::seconds kBurst{1};

  std::uint64_t bytes_per_second_;
  Instant next_{};
};

}  // namespace roost::worker
