#include <utility>

#include "worker/engine/engine_state.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

// A block that any request has found counts as found, also when the one that computed it ends.
void DiskOffers::Take(const Sequence& sequence, std::uint64_t begun_count) {
  Ended ended{.blocks = {}, .step = begun_count};
  ended.blocks.reserve(sequence.committed_block_count);
  const std::uint64_t tenant = TenantHash(cache_.tenants().name(sequence.tenant));
  BlockHash before;
  for (std::uint32_t i = 0; i < sequence.committed_block_count; ++i) {
    const BlockNode& node = cache_.tree()[sequence.blocks[i].value()];
    if (!node.ready) break;  // erased or discarded meanwhile
    ended.blocks.push_back(
        {.block = {.hash = node.hash,
                   .before = before,
                   .tenant = node.tenant == sequence.tenant ? tenant : TenantHash(cache_.tenants().name(node.tenant)),
                   .position = i},
         .kind = node.hit_count > 0 ? DiskOffer::Kind::kFound : DiskOffer::Kind::kOther});
    before = node.hash;
  }
  if (!ended.blocks.empty()) ended_.push_back(std::move(ended));
}

void DiskOffers::HandOver(std::uint64_t finished_count) {
  for (; !ended_.empty() && ended_.front().step <= finished_count; ended_.pop_front()) {
    disk_->Offer(ended_.front().blocks);
  }
}

}  // namespace roost::worker
