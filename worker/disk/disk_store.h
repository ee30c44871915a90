// The blocks of one model on disk: the segments of a folder, and the index of what is in them.
//
//   DIR/lock                              one process at a time
//   DIR/blocks-<layout>-<numerics>/       a folder for all blocks that are equal wherever they are read back
//       000000000041.segment  sealed      oldest: goes first; its used blocks are appended again
//       000000000042.segment  open        blocks are appended here
//
// The set is closed: a block enters behind the one that it continues, and leaves before it. At a start the entries of
// sealed segments are read, and the slots of the open one up to its torn tail. Of a block that is there twice the later
// copy counts; the earlier ones, and blocks whose beginning is missing, are erased.
//
// Whatever leaves the set is erased on the medium as well, or goes with its segment: so nothing that was erased can
// come back with a later start. An erasure is on the medium when Erase returns.
//
// Room: while one more segment would not fit the bytes that it may take, PrepareStep gives one back: first those in
// folders of other layouts, the oldest first; then the oldest of its own, whose used blocks go to the open one, which
// is synced before the old one is deleted. So one segment of the bytes is there for the copies.
//
// Threads: one writer for what changes it, any for the rest. Nothing waits for the file system under its lock. `files`
// outlives it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/disk/disk_files.h"
#include "worker/disk/disk_index.h"
#include "worker/disk/segment.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

// More blocks are not indexed, however small they are.
inline constexpr std::uint64_t kMaxDiskBlocks = std::uint64_t{1} << 22U;
inline constexpr std::uint64_t kLeastSegments = 4;

// The folder that --disk-cache names, held for this process.
class DiskFolder {
 public:
  // Makes the folder if it is missing, for this user alone. kInvalidArgument: it is no folder, can not be written, is
  // on a file system of fewer than `bytes`, or another process has it.
  [[nodiscard]] static Result<DiskFolder> Take(const std::string& path, std::uint64_t bytes);
  DiskFolder(DiskFolder&& other) noexcept;
  DiskFolder& operator=(DiskFolder&&) = delete;
  ~DiskFolder();

  [[nodiscard]] const DiskFiles::Path& path() const { return path_; }

 private:
  DiskFolder(DiskFiles::Path path, int lock) : path_(std::move(path)), lock_(lock) {}

  DiskFiles::Path path_;
  int lock_;
};

struct DiskStoreOptions {
  SegmentShape shape;
  FrameSizes sizes;
  std::uint64_t bytes = 0;  // of all segments, at least kLeastSegments
};

// Why a block left.
enum class DiskDrop : std::uint8_t { kQueueFull, kReclaimed, kUnreadable, kErased, kOrphan };
inline constexpr std::array<std::string_view, 5> kDiskDropNames{"queue_full", "reclaimed", "unreadable", "erased",
                                                                "orphan"};

class DiskStore {
 public:
  // Called under the store's lock, in order, when a block has entered or left the set.
  struct Changes {
    std::function<void(const DiskBlock&)> stored;
    std::function<void(const DiskBlock&, DiskDrop)> removed;
  };

  // Reads what is there.
  [[nodiscard]] static Result<std::unique_ptr<DiskStore>> Open(const DiskFolder& folder, DiskFiles& files,
                                                               const DiskStoreOptions& options);
  // An empty one with no folder: all that it keeps are `files`, under names that begin with `name`.
  [[nodiscard]] static std::unique_ptr<DiskStore> MakeEmpty(DiskFiles::Path name, DiskFiles& files,
                                                            const DiskStoreOptions& options);
  // Before anything changes: from now on tells its changes.
  void Follow(Changes changes) { changes_ = std::move(changes); }

  // ---- any thread ----

  // The number of the chain's first blocks that it has.
  [[nodiscard]] std::uint32_t CountFront(const FrameChain& chain) const;
  // Says of each block whether it is here, which then counts as used.
  [[nodiscard]] bool Use(BlockHash hash);
  // The block with its check done. kNotFound: it is not here, or has left meanwhile. Others: it can not be read.
  [[nodiscard]] Result<OpenedFrame> Read(const FrameChain& chain, std::uint32_t index, FrameBuffer& to);
  // Calls `visit` with the set while it does not change.
  void Visit(const std::function<void(const DiskIndex&)>& visit) const;
  [[nodiscard]] std::uint64_t used_bytes() const;
  // The most blocks that it ever has.
  [[nodiscard]] std::uint32_t capacity() const;
  [[nodiscard]] std::uint64_t frame_bytes() const { return options_.shape.frame_bytes; }
  [[nodiscard]] std::uint64_t orphan_count() const { return orphan_count_; }
  // Folders of other layouts and numerics: found at the start.
  [[nodiscard]] const std::vector<std::string>& other_folders() const { return other_folders_; }

  // ---- the writer ----

  enum class Room : std::uint8_t { kReady, kWorked };
  struct Prepared {
    Room room = Room::kReady;
    std::uint64_t written_bytes = 0;  // of copies
  };
  // A bounded part of making room: at most one block is copied. kReady: the next block can be appended. kOverloaded:
  // the disk is full.
  [[nodiscard]] Result<Prepared> PrepareStep();
  // May the block enter? Not without the one that it continues.
  [[nodiscard]] bool Takes(const DiskBlock& block) const;
  // After PrepareStep was ready, and if it takes the block.
  [[nodiscard]] Result<void> Append(const DiskBlock& block, const FrameBuffer& frame);

  // These blocks with all that continues them, and then, towards the front, what nothing else continues. Returns how
  // many have left. All of it is on the medium once nothing is left over.
  struct Erasure {
    std::vector<BlockHash> tops;
    std::vector<BlockHash> fronts;  // the last block first: each goes if nothing continues it any more
  };
  [[nodiscard]] std::uint32_t Erase(const Erasure& erasure, DiskDrop reason);
  // Tries once more to remove the files that should be gone. An error: one is still there, and a later start would find
  // its blocks.
  [[nodiscard]] Result<void> RemoveLeftOver();
  // The blocks that an order names.
  [[nodiscard]] Erasure ErasureOf(const wire::Evict& order) const;

 private:
  // A segment's slots, in order; an entry without a block is erased.
  struct Segment {
    std::vector<SegmentEntry> entries;
    bool is_sealed = false;
  };
  struct OtherSegment {
    DiskFiles::Path path;
    std::uint64_t bytes = 0;
  };

  DiskStore(DiskFiles::Path folder, DiskFiles& files, const DiskStoreOptions& options)
      : folder_(std::move(folder)), files_(files), options_(options) {}
  [[nodiscard]] Result<void> ReadAll();
  void FindOthers(const DiskFiles::Path& dir);
  void ShrinkToFit();
  void IndexAll();
  [[nodiscard]] DiskFiles::Path PathOf(std::uint64_t segment) const;
  [[nodiscard]] bool HasRoomForSegment() const;
  [[nodiscard]] bool IsLive(std::uint64_t segment, const SegmentEntry& entry) const;
  [[nodiscard]] Result<void> NewSegment();
  [[nodiscard]] Result<void> SealIfFull();
  [[nodiscard]] Result<Prepared> ReclaimStep();
  void RemoveOldest();
  [[nodiscard]] bool RemoveOther();
  void DropSegment(std::uint64_t number, DiskDrop reason);
  [[nodiscard]] Result<void> Write(const DiskBlock& block, std::span<const std::byte> frame, DiskPlace& place);
  // Takes the tree out of the set, and adds the places of its blocks.
  std::uint32_t TakeOut(BlockHash hash, DiskDrop reason, std::vector<DiskPlace>& places);
  void AddCopied(std::vector<DiskPlace>& places) const;
  void EraseAt(std::span<const DiskPlace> places);
  [[nodiscard]] bool BeginsLike(BlockHash hash, const wire::PromptToEvict& prompt) const;

  const DiskFiles::Path folder_;
  DiskFiles& files_;
  const DiskStoreOptions options_;
  Changes changes_;  // constant once it is followed
  std::vector<std::string> other_folders_;
  std::uint64_t orphan_count_ = 0;

  mutable std::mutex mutex_;
  DiskIndex index_;                  // guarded by mutex_
  std::uint64_t segment_count_ = 0;  // guarded by mutex_; of segments_
  std::uint64_t other_bytes_ = 0;    // guarded by mutex_

  // The writer's.
  std::map<std::uint64_t, Segment> segments_;
  std::vector<OtherSegment> others_;  // the oldest last
  std::vector<DiskFiles::Path> left_over_;
  std::optional<std::uint64_t> open_;
  std::uint64_t next_number_ = 1;
  std::size_t reclaimed_slots_ = 0;  // of the oldest segment, which is on its way out
  std::uint64_t unflushed_bytes_ = 0;
};

}  // namespace roost::worker
