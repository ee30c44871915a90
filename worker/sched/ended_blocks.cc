#include "worker/sched/ended_blocks.h"

#include <cstdint>
#include <string>

#include "worker/transfer/frame.h"

namespace roost::worker {

std::vector<DiskOffer> EndedBlocks(const PrefixCache& cache, const Sequence& sequence) {
  std::vector<DiskOffer> blocks;
  if (!sequence.leaves_blocks()) return blocks;
  blocks.reserve(sequence.committed_block_count);
  const std::uint64_t tenant = TenantHash(cache.tenants().name(sequence.tenant));
  BlockHash before;
  for (std::uint32_t i = 0; i < sequence.committed_block_count; ++i) {
    const BlockNode& node = cache.tree()[sequence.blocks[i].value()];
    if (!node.ready) break;  // erased or discarded meanwhile
    blocks.push_back(
        {.block = {.hash = node.hash,
                   .before = before,
                   .tenant = node.tenant == sequence.tenant ? tenant : TenantHash(cache.tenants().name(node.tenant)),
                   .position = i},
         .kind = node.hit_count > 0 ? DiskOffer::Kind::kFound : DiskOffer::Kind::kOther});
    before = node.hash;
  }
  return blocks;
}

}  // namespace roost::worker
