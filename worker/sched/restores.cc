#include "worker/sched/restores.h"

#include <utility>

namespace roost::worker {

bool Restores::Begin(const Sequence& sequence, std::uint32_t matched_count, std::uint32_t wanted_count, Instant now) {
  if (disk_ == nullptr || arrivals_.restore_count() >= kMaxRestores) return false;
  const std::string& tenant = cache_.tenants().name(sequence.tenant);
  const auto first = sequence.hashes.begin() + matched_count;
  FrameChain chain{.root = sequence.root,
                   .own = sequence.own,
                   .parent = matched_count == 0 ? sequence.root : sequence.hashes[matched_count - 1],
                   .first_position = matched_count,
                   .hashes = {first, sequence.hashes.begin() + wanted_count},
                   .tenant = TenantHash(tenant)};
  const std::uint32_t count = disk_->CountFront(chain);
  if (count == 0) return false;
  chain.hashes.resize(count);
  const double computing = pace_.MeanSeconds(std::uint64_t{count} * cache_.block_tokens());
  if (computing > 0 && disk_->SecondsFor(count) >= computing) return false;
  const HoldId id(++last_id_);
  ArrivalSpec spec{.id = id,
                   .chain = chain,
                   .tenant = tenant,
                   .group = sequence.group,
                   .source = kDiskSource,
                   .purpose = wire::HoldPurpose::kRequest,
                   .begin = now,
                   .patience_end = now + kRestorePatience};
  if (!arrivals_.Begin(std::move(spec))) return false;
  disk_->Ask({.id = id, .chain = std::move(chain), .peer = {}});
  return true;
}

}  // namespace roost::worker
