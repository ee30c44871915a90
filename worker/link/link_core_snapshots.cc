// The mirror of the ready blocks, and the snapshots of it that links are sent.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "worker/link/link_core.h"

namespace roost::worker {
namespace {

constexpr std::size_t kHashesPerChunk = wire::WireLimits::kMaxSnapshotHashes;
constexpr std::size_t kRunsPerChunk = wire::WireLimits::kMaxSnapshotHashes;
static_assert(kHashesPerChunk <= wire::WireLimits::kMaxHashesPerRun);

// In chunks of their own, behind those of all blocks.
void AppendResumable(const std::unordered_set<BlockHash, BlockHashHasher>& resumable,
                     std::vector<wire::WorkerMessage>& chunks) {
  for (auto next = resumable.begin(); next != resumable.end();) {
    wire::Snapshot chunk;
    chunk.chunk_index = static_cast<std::uint32_t>(chunks.size());
    for (; next != resumable.end() && chunk.resumable.size() < kHashesPerChunk; ++next) {
      chunk.resumable.push_back(*next);
    }
    chunks.emplace_back(std::move(chunk));
  }
}

void AppendDisk(const SnapshotMirror& disk, std::vector<wire::WorkerMessage>& chunks) {
  if (disk.ready_count() == 0) return;
  for (std::vector<wire::StoredRun>& runs : CutSnapshot(disk.Snapshot(), kHashesPerChunk, kRunsPerChunk)) {
    wire::Snapshot chunk;
    chunk.chunk_index = static_cast<std::uint32_t>(chunks.size());
    chunk.disk_runs = std::move(runs);
    chunks.emplace_back(std::move(chunk));
  }
}

}  // namespace

void LinkCore::Follow(const StepReport& report) {
  if (!setup_.hello.sends_cache_events || mirror_state_ != MirrorState::kCurrent) return;
  mirror_.Apply(report.events);
  disk_mirror_.Apply(report.events);
  if (Agrees(report.load)) return;
  LoseMirror(MirrorLoss::kDigest);
  for (Link& link : links_) {
    if (link.state != State::kUp || std::exchange(link.snapshot_due, true)) continue;
    ++counts_.resyncs[IndexOf(ResyncReason::kDigest)];
  }
}

bool LinkCore::Agrees(const wire::Load& load) const {
  return mirror_.digest() == load.digest && mirror_.ready_count() == load.cached_block_count &&
         mirror_.resumable_digest() == load.resumable_digest && disk_mirror_.digest() == load.disk_digest &&
         disk_mirror_.ready_count() == load.disk_block_count;
}

void LinkCore::LoseMirror(MirrorLoss reason) {
  ++counts_.mirror_losses[IndexOf(reason)];
  LogWarning("the link's copy of the set of cached blocks is no longer valid; asking the engine for a new one",
             {{"reason", std::string(kMirrorLossNames[IndexOf(reason)])}});
  // The engine loses no snapshot: one that is awaited still comes, and holds what was lost now.
  if (mirror_state_ == MirrorState::kCurrent) mirror_state_ = MirrorState::kStale;
  AskForEngineSnapshot();
}

void LinkCore::AskForEngineSnapshot() {
  const Instant now = clock_.Now();
  if (mirror_state_ != MirrorState::kStale || now < next_engine_snapshot_) return;
  next_engine_snapshot_ = now + setup_.times.engine_snapshot_interval;
  mirror_state_ = MirrorState::kAwaited;
  effects_.Command(SnapshotCommand{});
}

bool LinkCore::HasDueSnapshot() const {
  return mirror_state_ == MirrorState::kCurrent && std::any_of(links_.begin(), links_.end(), [](const Link& link) {
           return link.state == State::kUp && link.snapshot_due;
         });
}

void LinkCore::SendDueSnapshots() {
  if (!HasDueSnapshot()) return;
  std::vector<wire::WorkerMessage> chunks;
  for (std::vector<wire::StoredRun>& runs : CutSnapshot(mirror_.Snapshot(), kHashesPerChunk, kRunsPerChunk)) {
    wire::Snapshot chunk;
    chunk.chunk_index = static_cast<std::uint32_t>(chunks.size());
    chunk.runs = std::move(runs);
    chunks.emplace_back(std::move(chunk));
  }
  AppendDisk(disk_mirror_, chunks);
  AppendResumable(mirror_.resumable(), chunks);
  std::get<wire::Snapshot>(chunks.back()).last = true;
  for (Link& link : links_) {
    if (link.state == State::kUp && link.snapshot_due) SendSnapshot(link, chunks);
  }
}

void LinkCore::SendSnapshot(Link& link, std::vector<wire::WorkerMessage>& chunks) {
  for (wire::WorkerMessage& message : chunks) {
    auto& chunk = std::get<wire::Snapshot>(message);
    chunk.epoch = link.epoch;
    chunk.sequence = link.next_sequence++;
    if (effects_.Send(link.peer, message) != wire::SendOutcome::kSent) return Restart(link, ResyncReason::kUnsent);
  }
  link.snapshot_due = false;
}

std::vector<std::vector<wire::StoredRun>> CutSnapshot(std::vector<wire::StoredRun> runs, std::size_t max_hashes,
                                                      std::size_t max_runs) {
  ROOST_CHECK(max_hashes > 0 && max_runs > 0);
  std::vector<std::vector<wire::StoredRun>> chunks(1);
  std::size_t hash_count = 0;  // in the last chunk
  for (wire::StoredRun& run : runs) {
    std::size_t taken = 0;
    while (taken < run.hashes.size()) {
      if (hash_count == max_hashes || chunks.back().size() == max_runs) {
        chunks.emplace_back();
        hash_count = 0;
      }
      const std::size_t count = std::min(run.hashes.size() - taken, max_hashes - hash_count);
      taken += count;
      hash_count += count;
      if (count == run.hashes.size()) {
        chunks.back().push_back(std::move(run));
        break;
      }
      const auto end = run.hashes.begin() + static_cast<std::ptrdiff_t>(taken);
      chunks.back().push_back({run.first_position + static_cast<std::uint32_t>(taken - count),
                               {end - static_cast<std::ptrdiff_t>(count), end}});
    }
  }
  return chunks;
}

}  // namespace roost::worker
