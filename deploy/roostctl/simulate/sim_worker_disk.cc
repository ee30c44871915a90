// A worker's disk, as its engine uses it.
#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "deploy/roostctl/simulate/sim_worker.h"

namespace roost::simulate {

using worker::HoldId;
using worker::Sequence;
using worker::SequenceId;

namespace {

// Restores have ids and places of their own.
constexpr std::uint64_t kFirstRestore = std::uint64_t{1} << 63U;
constexpr std::size_t kMaxRestores = 8;
constexpr Duration kRestorePatience = std::chrono::minutes(2);

}  // namespace

bool SimWorker::IsRestore(HoldId id) { return id.value() >= kFirstRestore; }

// A request whose match goes on at the disk gets what comes next from there, unless it is on its way already.
void SimWorker::BeginRestore(SequenceId id) {
  if (disk_ == nullptr || open_restore_count_ >= kMaxRestores) return;
  const Sequence& sequence = scheduler_.Get(id);
  const std::uint32_t matchable = sequence.MatchableBlocks(text_.block_tokens());
  const auto hashes = std::span(sequence.hashes).first(std::min<std::size_t>(matchable, sequence.hashes.size()));
  std::vector<worker::BlockRef> matched;
  kept_.cache().Match(sequence.chain(), matchable, matched);
  const auto first = static_cast<std::uint32_t>(matched.size());
  const std::uint32_t end = disk_->CountFront(hashes);
  const Instant now = timeline_.Now();
  if (end <= first) return;
  const auto coming = scheduler_.arrivals().FindComing(hashes, first, now);
  if (coming && coming->id) return;
  worker::FrameChain chain{.root = sequence.root,
                           .parent = first == 0 ? sequence.root : hashes[first - 1],
                           .first_position = first,
                           .hashes = {hashes.begin() + first, hashes.begin() + end}};
  const HoldId restore(kFirstRestore + ++last_restore_);
  const bool began = scheduler_.arrivals().Begin({.id = restore,
                                                  .chain = chain,
                                                  .tenant = {},
                                                  .source = worker::SourceId(2),
                                                  .purpose = wire::HoldPurpose::kRequest,
                                                  .begin = now,
                                                  .patience_end = now + kRestorePatience});
  if (!began) return;
  ++open_restore_count_;
  disk_->Ask(restore, std::move(chain));
}

void SimWorker::EndRestore(const worker::EndedArrival& ended) {
  --open_restore_count_;
  if (!ended.source_ended) disk_->Cancel(ended.id);
  restores_.restore_count += ended.arrived_count > 0 ? 1 : 0;
  restores_.token_count += std::uint64_t{ended.arrived_count} * text_.block_tokens();
}

// The request's blocks that are in the cache, before it lets them go.
void SimWorker::WriteToDisk(SequenceId id) {
  if (disk_ == nullptr) return;
  const Sequence& sequence = scheduler_.Get(id);
  const std::size_t count =
      std::min({std::size_t{sequence.committed_block_count}, sequence.blocks.size(), sequence.hashes.size()});
  std::vector<worker::BlockRef> blocks;
  blocks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back({sequence.blocks[i], kept_.pool().generation(sequence.blocks[i])});
  }
  disk_->Release(blocks, std::span(sequence.hashes).first(count), sequence.cached_token_count / text_.block_tokens());
}

}  // namespace roost::simulate
