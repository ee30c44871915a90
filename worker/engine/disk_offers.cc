#include <utility>

#include "worker/engine/engine_state.h"
#include "worker/sched/ended_blocks.h"

namespace roost::worker {

void DiskOffers::OnEnd(const Sequence& sequence, std::uint64_t begun_count) {
  if (disk_ == nullptr) return;
  Ended ended{.blocks = EndedBlocks(cache_, sequence), .step = begun_count};
  if (!ended.blocks.empty()) ended_.push_back(std::move(ended));
}

void DiskOffers::HandOver(std::uint64_t finished_count) {
  for (; !ended_.empty() && ended_.front().step <= finished_count; ended_.pop_front()) {
    disk_->Offer(ended_.front().blocks);
  }
}

}  // namespace roost::worker
