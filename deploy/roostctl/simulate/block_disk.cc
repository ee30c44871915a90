#include "deploy/roostctl/simulate/block_disk.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "worker/cache/cache_travel.h"
#include "worker/disk/segment.h"
#include "worker/transfer/frame.h"

namespace roost::simulate {

using wire::HoldOutcome;
using worker::DiskStore;

// Files as far as they have been written; the rest reads as zeros.
class BlockDisk::Files final : public worker::DiskFiles {
 public:
  Result<void> Create(const Path& path, std::uint64_t /*bytes*/) override {
    files_[path].clear();
    return {};
  }
  Result<void> Read(const Path& path, std::uint64_t offset, std::span<std::byte> to) override {
    const std::vector<std::byte>& file = files_.at(path);
    std::fill(to.begin(), to.end(), std::byte{0});
    if (offset >= file.size()) return {};
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(offset);
    std::copy_n(begin, std::min<std::size_t>(to.size(), file.size() - offset), to.begin());
    return {};
  }
  Result<void> Write(const Path& path, std::uint64_t offset, std::span<const std::byte> from) override {
    std::vector<std::byte>& file = files_.at(path);
    if (file.size() < offset + from.size()) file.resize(offset + from.size());
    std::copy(from.begin(), from.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  Result<void> Sync(const Path& /*path*/) override { return {}; }
  void FlushSoon(const Path& /*path*/) override {}
  Result<void> Punch(const Path& path, std::uint64_t offset, std::uint64_t bytes) override {
    std::vector<std::byte>& file = files_.at(path);
    const std::uint64_t begin = std::min<std::uint64_t>(offset, file.size());
    std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(begin), std::min(bytes, file.size() - begin), std::byte{0});
    return {};
  }
  Result<void> Remove(const Path& path) override {
    files_.erase(path);
    return {};
  }

 private:
  std::map<Path, std::vector<std::byte>> files_;
};

namespace {

// As many slots in a segment, and as many segments, as the real frames would have.
worker::DiskStoreOptions StoreOptionsOf(std::uint64_t blocks, std::uint64_t frame_bytes, worker::FrameSizes sizes) {
  const std::uint32_t slots = worker::SegmentShape::Of(0, 0, frame_bytes).slot_count;
  const worker::SegmentShape shape{.layout = 0, .numerics = 0, .frame_bytes = sizes.frame_bytes(), .slot_count = slots};
  const std::uint64_t segments = std::max(worker::kLeastSegments, (blocks + slots - 1) / slots);
  return {.shape = shape, .sizes = sizes, .bytes = segments * shape.file_bytes()};
}

}  // namespace

BlockDisk::BlockDisk(const DiskOptions& options, std::uint32_t block_tokens, std::uint64_t frame_bytes,
                     Timeline& timeline)
    : frame_bytes_(frame_bytes),
      bytes_per_second_(options.gigabits_per_second * 1e9 / 8),
      write_rate_(options.write_rate),
      sizes_{.block_tokens = block_tokens, .data_bytes = 0},
      timeline_(timeline),
      files_(std::make_unique<Files>()),
      store_(DiskStore::MakeEmpty({}, *files_, StoreOptionsOf(options.tokens / block_tokens, frame_bytes, sizes_))) {
  store_->Follow(
      {.stored = [this](const worker::DiskBlock& block) { changes_.Add(block, true); },
       .removed = [this](const worker::DiskBlock& block, worker::DiskDrop /*reason*/) { changes_.Add(block, false); }});
}

BlockDisk::~BlockDisk() = default;

void BlockDisk::Attach(worker::PrefixCache& cache, std::function<void(worker::FrameNews)> tell) {
  process_.emplace(Process{.cache = cache,
                           .tell = std::move(tell),
                           .queue = worker::WriteQueue(cache.pool().block_count() / worker::kDiskQueuePart),
                           .pace = worker::WritePace(write_rate_),
                           .restores = {}});
}

void BlockDisk::Detach() {
  ++life_;
  process_.reset();
}

void BlockDisk::After(double seconds, std::function<void()> then) {
  timeline_.After(FromSeconds(seconds), [this, life = life_, then = std::move(then)] {
    if (life == life_) then();
  });
}

// ---- writing ----

void BlockDisk::Offer(std::span<const worker::DiskOffer> blocks) {
  for (const worker::DiskOffer& offer : blocks) {
    if (!store_->Use(offer.block.hash)) process_->queue.Push(offer);
  }
  StartWrite();
}

void BlockDisk::StartWrite() {
  if (process_->is_writing) return;
  const auto go_on_after = [this](double seconds) {
    process_->is_writing = true;
    After(seconds, [this] {
      process_->is_writing = false;
      StartWrite();
    });
  };
  const Instant now = timeline_.Now();
  while (!process_->queue.empty()) {
    if (const Instant next = process_->pace.next(); next > now) return go_on_after(ToSeconds(next - now));
    if (!WriteNext()) continue;
    process_->pace.Count(frame_bytes_, now);
    return go_on_after(BlockSeconds());
  }
}

bool BlockDisk::WriteNext() {
  const Result<DiskStore::Prepared> prepared = store_->PrepareStep();
  ROOST_CHECK(prepared.ok(), "{}", prepared.error().ToString());
  bool has_written = prepared->written_bytes > 0;
  if (prepared->room == DiskStore::Room::kReady) {
    const std::optional<worker::DiskBlock> block = process_->queue.Pop();
    has_written = block && Write(*block);
  }
  written_block_count_ += has_written ? 1 : 0;
  return has_written;
}

// A block that the pool no longer has is passed over, and so is one whose parent is not on disk.
bool BlockDisk::Write(const worker::DiskBlock& block) {
  if (store_->Use(block.hash) || !store_->Takes(block)) return false;
  const worker::PrefixCache& cache = process_->cache;
  const std::optional<std::uint32_t> place = cache.tree().FindByHash(block.hash);
  if (!place) return false;
  const worker::ReadyBlock ready = Describe(cache.tree(), BlockId(*place));
  worker::FrameBuffer frame(sizes_);
  SealFrame({.position = ready.position,
             .hash = ready.hash,
             .parent = ready.parent,
             .root = ready.root,
             .tenant = block.tenant},
            ready.tokens, frame);
  const Result<void> written = store_->Append(block, frame);
  ROOST_CHECK(written.ok(), "{}", written.error().ToString());
  return true;
}

// ---- reading ----

std::uint32_t BlockDisk::CountFront(const worker::FrameChain& chain) const { return store_->CountFront(chain); }

double BlockDisk::SecondsFor(std::uint32_t block_count) const {
  return process_->read_rate->SecondsFor(block_count * frame_bytes_, process_->awaited_count * frame_bytes_,
                                         timeline_.Now());
}

void BlockDisk::Ask(worker::FrameRequest request) {
  process_->awaited_count += request.chain.size();
  process_->restores.push_back({.id = request.id, .chain = std::move(request.chain)});
  StartRead();
}

void BlockDisk::Cancel(worker::HoldId id) {
  std::erase_if(process_->restores, [&](const Restore& restore) {
    if (restore.id != id) return false;
    process_->awaited_count -= restore.chain.size() - restore.next;
    return true;
  });
}

void BlockDisk::StartRead() {
  if (process_->is_reading || process_->restores.empty()) return;
  process_->is_reading = true;
  After(BlockSeconds(), [this] {
    process_->is_reading = false;
    Read();
  });
}

// The restore may have been cancelled meanwhile, or its block dropped. What is told may begin a step, which asks and
// cancels.
void BlockDisk::Read() {
  std::deque<Restore>& restores = process_->restores;
  if (restores.empty()) return;
  Restore& restore = restores.front();
  const worker::HoldId id = restore.id;
  worker::FrameBuffer buffer(sizes_);
  Result<worker::OpenedFrame> opened = store_->Read(restore.chain, restore.next, buffer);
  const bool is_there = opened.ok();
  const bool is_last = !is_there || restore.next + 1 == restore.chain.size();
  const std::uint32_t index = restore.next;
  process_->awaited_count -= is_last ? restore.chain.size() - index : 1;
  ++restore.next;
  if (is_last) restores.pop_front();
  StartRead();
  if (is_there) {
    process_->read_rate->Learn(frame_bytes_, BlockSeconds(), timeline_.Now());
    process_->tell(worker::ArrivedFrame{
        .id = id, .index = index, .buffer = {}, .opened = *std::move(opened), .at = timeline_.Now()});
  }
  if (is_last) process_->tell(worker::FramesEnded{id, is_there ? HoldOutcome::kComplete : HoldOutcome::kMissing});
}

// ---- reports ----

worker::DiskNews BlockDisk::TakeNews() {
  worker::DiskNews news;
  do {
    changes_.Tell(news);
  } while (!changes_.empty());
  news.bytes_per_second = process_ ? process_->read_rate->bytes_per_second() : 0;
  return news;
}

std::vector<wire::StoredRun> BlockDisk::Runs() const {
  std::vector<wire::StoredRun> runs;
  store_->Visit([&](const worker::DiskIndex& index) { runs = index.Runs(); });
  return runs;
}

}  // namespace roost::simulate
