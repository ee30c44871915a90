#include "deploy/roostctl/simulate/block_disk.h"

#include <algorithm>
#include <utility>

#include "worker/cache/cache_travel.h"

namespace roost::simulate {

using wire::HoldOutcome;

namespace {

constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kLeastSegmentBlocks = 8;
constexpr std::size_t kQueuedShare = 4;  // of the pool's blocks, at most one in so many is queued

// Appends to the last event what continues it.
void AddStored(const worker::FrameBlock& block, std::vector<wire::CacheEvent>& events) {
  if (!events.empty() && events.back().kind == wire::CacheEvent::Kind::kDiskStored) {
    wire::StoredRun& run = events.back().disk_stored;
    if (run.hashes.back() == block.parent && run.first_position + run.hashes.size() == block.position) {
      return run.hashes.push_back(block.hash);
    }
  }
  wire::CacheEvent& event = events.emplace_back();
  event.kind = wire::CacheEvent::Kind::kDiskStored;
  event.disk_stored = {block.position, {block.hash}};
}

}  // namespace

BlockDisk::BlockDisk(const DiskOptions& options, std::uint32_t block_tokens, std::uint64_t frame_bytes,
                     Timeline& timeline)
    : most_blocks_(std::max<std::size_t>(options.tokens / block_tokens, kLeastSegmentBlocks)),
      segment_blocks_(std::min<std::size_t>(std::max(kLeastSegmentBlocks, kSegmentBytes / frame_bytes), most_blocks_)),
      frame_bytes_(frame_bytes),
      bytes_per_second_(options.gigabits_per_second * 1e9 / 8),
      timeline_(timeline),
      segments_(1) {}

void BlockDisk::Attach(worker::PrefixCache& cache, std::function<void(worker::FrameNews)> tell) {
  cache_ = &cache;
  tell_ = std::move(tell);
}

void BlockDisk::Detach() {
  ++life_;
  cache_ = nullptr;
  tell_ = nullptr;
  found_.clear();
  others_.clear();
  queued_.clear();
  restores_.clear();
  is_writing_ = is_reading_ = false;
}

// ---- writing ----

void BlockDisk::Release(std::span<const worker::BlockRef> blocks, std::span<const BlockHash> hashes,
                        std::uint32_t found_count) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const bool was_found = i < found_count;
    const auto entry = entries_.find(hashes[i]);
    if (entry == entries_.end()) {
      Queue({blocks[i], hashes[i]}, was_found);
    } else if (was_found) {
      entry->second.is_used = true;
    }
  }
  StartWrite();
}

void BlockDisk::Queue(const Queued& block, bool was_found) {
  const std::size_t most = cache_->pool().block_count() / kQueuedShare;
  // One that was found may wait among the others: it goes first from now on, and is passed over there.
  if (!queued_.insert(block.hash).second && !was_found) return;
  if (found_.size() + others_.size() >= most) {
    if (!was_found || others_.empty()) return void(queued_.erase(block.hash));
    queued_.erase(others_.back().hash);
    others_.pop_back();
  }
  (was_found ? found_ : others_).push_back(block);
}

// The next block that the pool still has, whose parent is there.
std::optional<BlockDisk::Queued> BlockDisk::TakeQueued() {
  while (!found_.empty() || !others_.empty()) {
    std::deque<Queued>& queue = found_.empty() ? others_ : found_;
    const Queued block = queue.front();
    queue.pop_front();
    queued_.erase(block.hash);
    const bool is_there = cache_->pool().generation(block.ref.block) == block.ref.generation &&
                          cache_->IsReady(block.ref.block) && !entries_.contains(block.hash);
    if (!is_there) continue;
    const worker::ReadyBlock ready = Describe(cache_->tree(), block.ref.block);
    if (ready.hash != block.hash || (ready.position > 0 && !entries_.contains(ready.parent))) continue;
    return block;
  }
  return std::nullopt;
}

void BlockDisk::StartWrite() {
  if (is_writing_) return;
  const std::optional<Queued> block = TakeQueued();
  if (!block) return;
  is_writing_ = true;
  const std::uint64_t before = written_block_count_;
  Write(*block);
  const auto bytes = static_cast<double>((written_block_count_ - before) * frame_bytes_);
  const double seconds = bytes / bytes_per_second_;
  timeline_.After(FromSeconds(seconds), [this, life = life_] {
    if (life != life_) return;
    is_writing_ = false;
    StartWrite();
  });
}

void BlockDisk::Write(const Queued& block) {
  const worker::ReadyBlock ready = Describe(cache_->tree(), block.ref.block);
  Entry entry{.about = {.position = ready.position, .hash = ready.hash, .parent = ready.parent, .root = ready.root},
              .tokens = {ready.tokens.begin(), ready.tokens.end()},
              .children = {}};
  while (entries_.size() >= most_blocks_) MakeRoom();
  // The block's parent may have gone for it.
  if (ready.position > 0 && !entries_.contains(ready.parent)) return;
  if (ready.position > 0) entries_.at(ready.parent).children.push_back(ready.hash);
  AddStored(entry.about, events_);
  digest_ = digest_ ^ ready.hash;
  Append(ready.hash, entries_[ready.hash] = std::move(entry));
}

void BlockDisk::Append(BlockHash hash, Entry& entry) {
  if (segments_.back().size() >= segment_blocks_) segments_.emplace_back();
  entry.segment = first_segment_ + segments_.size() - 1;
  entry.is_used = false;
  segments_.back().push_back(hash);
  ++written_block_count_;
}

void BlockDisk::MakeRoom() {
  const std::uint64_t number = first_segment_++;
  const std::vector<BlockHash> oldest = std::move(segments_.front());
  segments_.pop_front();
  if (segments_.empty()) segments_.emplace_back();
  for (const BlockHash hash : oldest) {
    const auto found = entries_.find(hash);
    if (found == entries_.end() || found->second.segment != number) continue;
    if (found->second.is_used) {
      Append(hash, found->second);
    } else {
      Drop(hash);
    }
  }
}

// With all that continues it, deepest first.
void BlockDisk::Drop(BlockHash hash) {
  std::vector<BlockHash> chain{hash};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::vector<BlockHash>& children = entries_.at(chain[i]).children;
    chain.insert(chain.end(), children.begin(), children.end());
  }
  const worker::FrameBlock& about = entries_.at(hash).about;
  const auto parent = entries_.find(about.parent);
  if (about.position > 0 && parent != entries_.end()) std::erase(parent->second.children, hash);
  std::reverse(chain.begin(), chain.end());
  for (const BlockHash each : chain) {
    digest_ = digest_ ^ each;
    entries_.erase(each);
  }
  wire::CacheEvent& event = events_.emplace_back();
  event.kind = wire::CacheEvent::Kind::kDiskRemoved;
  event.disk_removed = std::move(chain);
}

// ---- reading ----

std::uint32_t BlockDisk::CountFront(std::span<const BlockHash> hashes) const {
  const auto end =
      std::find_if_not(hashes.begin(), hashes.end(), [this](BlockHash hash) { return entries_.contains(hash); });
  return static_cast<std::uint32_t>(end - hashes.begin());
}

void BlockDisk::Ask(worker::HoldId id, worker::FrameChain chain) {
  restores_.push_back({.id = id, .chain = std::move(chain)});
  StartRead();
}

void BlockDisk::Cancel(worker::HoldId id) {
  std::erase_if(restores_, [id](const Restore& restore) { return restore.id == id; });
}

void BlockDisk::StartRead() {
  if (is_reading_ || restores_.empty()) return;
  is_reading_ = true;
  timeline_.After(FromSeconds(static_cast<double>(frame_bytes_) / bytes_per_second_), [this, life = life_] {
    if (life != life_) return;
    is_reading_ = false;
    Read();
  });
}

// The restore may have been cancelled meanwhile, or its block dropped.
void BlockDisk::Read() {
  if (restores_.empty()) return;
  Restore& restore = restores_.front();
  const worker::HoldId id = restore.id;
  const auto found = entries_.find(restore.chain.hashes[restore.next]);
  if (found == entries_.end()) {
    restores_.pop_front();
    StartRead();
    return tell_(worker::FramesEnded{id, HoldOutcome::kMissing});
  }
  found->second.is_used = true;
  worker::ArrivedFrame frame{.id = id,
                             .index = restore.next,
                             .buffer = {},
                             .opened = {.block = found->second.about, .tokens = found->second.tokens},
                             .at = timeline_.Now()};
  const bool is_last = ++restore.next == restore.chain.size();
  if (is_last) restores_.pop_front();
  StartRead();
  tell_(std::move(frame));
  if (is_last) tell_(worker::FramesEnded{id, HoldOutcome::kComplete});
}

// ---- reports ----

std::vector<wire::StoredRun> BlockDisk::Runs() const {
  std::vector<wire::StoredRun> runs;
  runs.reserve(entries_.size());
  for (const auto& [hash, entry] : entries_) runs.push_back({entry.about.position, {hash}});
  std::sort(runs.begin(), runs.end(), [](const wire::StoredRun& a, const wire::StoredRun& b) {
    return std::pair(a.first_position, a.hashes.front()) < std::pair(b.first_position, b.hashes.front());
  });
  return runs;
}

void BlockDisk::Tell(wire::Load& load) const {
  load.disk_block_count = static_cast<std::uint32_t>(entries_.size());
  load.disk_digest = digest_;
  load.disk_bytes_per_second = bytes_per_second_;
  load.block_bytes = frame_bytes_;
}

}  // namespace roost::simulate
