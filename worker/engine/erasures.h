// Erases blocks from the cache, from sequences and from arrivals: by the open orders of operators, and blocks that may
// be wrong.
//
//   Begin ─▶ [open orders, oldest first] ─ Continue, a bounded number of blocks in each step ─▶ answers
//                                                  └─ PassOn ─▶ frames are wiped ─▶ disk ─▶ TakeErased ─▶ answers
//                                                               where there are such
//
// From Begin on no sequence that is here, waiting or running, leaves blocks of it in the cache, also after a
// preemption, and no arrival brings them; the disk is hidden until it is done. Not between Schedule and Commit.
//
// Not thread-safe. What it is given outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/cache_eraser.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine_api/step_report.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/sequence_slots.h"
#include "worker/transfer/frame_memory.h"

namespace roost::worker {

class Erasures {
 public:
  // Null `disk`, `wiper`: there is none.
  Erasures(PrefixCache& cache, const Sequences& sequences, Arrivals& arrivals, DiskCache* disk, FrameWiper* wiper)
      : cache_(cache), sequences_(sequences), arrivals_(arrivals), disk_(disk), wiper_(wiper) {}

  // True if the request's prompt is what the order names, continues it, or has the block.
  [[nodiscard]] static bool Names(const wire::Evict& order, const wire::Generate& request, std::uint32_t block_tokens);

  // Orders that are not answered.
  [[nodiscard]] std::size_t open_count() const {
    return open_.size() + in_pool_.size() + wiping_.size() + on_disk_.size();
  }
  // There is something to erase from the cache, or to pass on.
  [[nodiscard]] bool has_work() const { return !open_.empty() || IsWiped(); }
  void Begin(LinkId link, wire::Evict order);
  // Erases at most `budget` blocks, one order after the other.
  void Continue(std::uint32_t budget);

  // Passes on what has left the cache, and then what is wiped. After the blocks that left were retracted, and the
  // source was told which arrivals ended, so that nothing brings their bytes back.
  void PassOn(std::vector<EngineAnswer>& answers);
  // The disk has carried these out.
  void TakeErased(std::span<const DiskNews::Erased> erased, std::vector<EngineAnswer>& answers);

  // Distrusts all that the sequence has computed, in any state: none of it stays in the cache, nor what others computed
  // behind it, which they keep for themselves. The blocks that it found in the cache were computed by others, and stay.
  // Remove the sequence afterwards.
  void Discard(SequenceId id);
  // The same with the blocks that it found: any of them may be wrong.
  void DiscardPrefix(SequenceId id);
  // Distrusts all blocks that came from this source: they leave the cache with what was computed behind them, and what
  // still comes from there is not taken. Returns how many left. O(blocks).
  std::uint32_t DiscardFrom(SourceId source);

 private:
  struct Open {
    LinkId link;
    wire::Evict order;
    EraseStep erased = {};              // so far
    std::vector<BlockHash> chain = {};  // up to the block, when the order names one

    [[nodiscard]] EngineAnswer Answer(std::uint32_t disk_block_count) const;
  };

  void KeepOut(const wire::PromptToEvict& prompt);
  void KeepOut(const wire::TenantToEvict& tenant);
  void KeepOut(const wire::BlockToEvict& block);
  [[nodiscard]] EraseProgress Erase(const Open& open, EraseStep& step);
  void Discard(Sequence& sequence, const BlockChain& chain, std::uint32_t first_block);
  void ForgetDiscarded();
  // The oldest order whose frames are wiped can go on.
  [[nodiscard]] bool IsWiped() const { return !wiping_.empty() && wiping_.front().first <= wiper_->done_number(); }
  // Carries it out on disk, or answers it.
  void GoOn(Open open, std::vector<EngineAnswer>& answers);

  PrefixCache& cache_;
  const Sequences& sequences_;
  Arrivals& arrivals_;
  DiskCache* const disk_;
  FrameWiper* const wiper_;
  std::deque<Open> open_;
  std::vector<Open> in_pool_;                          // erased there, and not yet passed on
  std::deque<std::pair<std::uint64_t, Open>> wiping_;  // with the number of the wipe
  std::map<std::uint64_t, Open> on_disk_;              // by number
  std::vector<BlockHash> wrong_;                       // blocks that the disk must drop
  std::uint64_t last_number_ = 0;
};

}  // namespace roost::worker
