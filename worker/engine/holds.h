// The open Holds of routers: orders to hold blocks and to take what comes for them from other workers. And the ends of
// restores from the disk, which the scheduler begins and no router is told of; a Hold for the same blocks ends them.
//
//   Begin ─▶ Arrivals, which brings the blocks ─▶ Answer, when it has ended
//   sources ─ TakeNews ─▶ [news] ─ HandOver ─▶ Arrivals
//
// A source may be quicker than the order that it was asked for. So the engine takes the news before the orders that
// wait in its inbox, and hands it over after them: by then each Hold that it tells of has begun, or was refused.
//
// Not thread-safe, but for what sources tell, which comes through FrameInbox. What it is given outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/erasures.h"
#include "worker/engine_api/engine_order.h"
#include "worker/engine_api/step_report.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/step_pace.h"
#include "worker/transfer/frame_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::worker {

// The workers that blocks came from. The names of the first kMaxNamed are kept; all others are one source.
class BlockSources {
 public:
  static constexpr std::size_t kMaxNamed = 1024;

  [[nodiscard]] SourceId IdOf(const std::string& name);
  // O(names).
  [[nodiscard]] std::string NameOf(SourceId id) const;

 private:
  std::map<std::string, SourceId> ids_;
};

class Holds {
 public:
  // Null: blocks stay here, and all Holds are refused. `source` is told what is no longer wanted.
  struct Ways {
    const ReadableBlocks* readable = nullptr;
    FrameInbox* arriving = nullptr;
    FrameSource* source = nullptr;
    DiskCache* disk = nullptr;
  };
  Holds(Arrivals& arrivals, const StepPace& pace, const Ways& ways, std::uint32_t block_tokens)
      : arrivals_(arrivals), pace_(pace), ways_(ways), block_tokens_(block_tokens) {}

  // Returns the refusal, or nothing when the answer comes later. Nothing comes for a Hold without a receipt.
  [[nodiscard]] std::optional<OrderReply> Begin(LinkId link, const wire::Hold& hold,
                                                const std::optional<HoldReceipt>& receipt, EvictionGroup group);

  [[nodiscard]] bool has_news() const {
    return !news_.empty() || (ways_.arriving != nullptr && ways_.arriving->has_news());
  }
  void TakeNews();
  void HandOver();

  // Answers those that have ended.
  void Answer(Instant now, StepReport& report);

  // Blocks that came from these sources are wrong: they leave the cache, and nothing is fetched from there for a while.
  // Returns how many left.
  std::uint64_t Distrust(std::span<const SourceId> sources, Erasures& erasures) const;

 private:
  // The order that an arrival belongs to.
  struct Open {
    LinkId link;
    std::uint64_t answer_id = 0;
  };

  [[nodiscard]] wire::HoldAnswer AnswerOf(const EndedArrival& ended, Instant now, std::uint64_t answer_id) const;
  void Count(const wire::HoldAnswer& answer, ArrivalCounts& counts) const;
  static void Cancel(FrameSource* source, HoldId id);

  Arrivals& arrivals_;
  const StepPace& pace_;
  const Ways ways_;
  const std::uint32_t block_tokens_;
  std::map<HoldId, Open> open_;
  std::vector<FrameNews> news_;
  BlockSources sources_;
};

}  // namespace roost::worker
