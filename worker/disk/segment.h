// A segment: a file of fixed size that blocks are appended to, one after the other.
//
//   0        header, 64 bytes: magic "RSTD", version, layout, numerics, bytes of a frame, slots, number, check
//   64       slot 0 │ slot 1 │ …        a slot: entry, 64 bytes │ frame (worker/transfer/frame.h), padded to 64
//   …        the entries once more, 64 bytes each      written when the segment is full, and then the
//   end-64   trailer: magic "RSTS", entries, check     which makes it a sealed one
//
//   entry    0 kind u32   4 slot u32   8 hash   24 hash of the block before   40 tenant u64   48 position u32
//            52 zero      56 check u64 (XXH3-64 of the 56 bytes before it, seeded with the segment's number)
//
// Little-endian. A slot's frame is written before its entry, so an entry with a right check stands for a whole frame,
// and a wrong one for a slot that has none. Only a loss of power can order them otherwise; the frame's own sum
// shows that. `before` is the block that this one continues, also where an own scope begins, whose frame names its root
// as parent: so the set on disk is closed over scopes. An erased block has an entry of that kind without anything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "worker/disk/disk_files.h"

namespace roost::worker {

inline constexpr std::uint32_t kSegmentVersion = 1;
inline constexpr std::size_t kEntryBytes = 64;
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20U;
inline constexpr std::uint32_t kLeastSlots = 8;

// All of a folder's segments have this in common.
struct SegmentShape {
  std::uint64_t layout = 0;
  std::uint64_t numerics = 0;
  std::uint64_t frame_bytes = 0;
  std::uint32_t slot_count = 0;

  // As many slots as `segment_bytes` hold, and at least kLeastSlots.
  [[nodiscard]] static SegmentShape Of(std::uint64_t layout, std::uint64_t numerics, std::uint64_t frame_bytes,
                                       std::uint64_t segment_bytes = kSegmentBytes);

  [[nodiscard]] std::uint64_t slot_bytes() const {
    return kEntryBytes + (frame_bytes + kEntryBytes - 1) / kEntryBytes * kEntryBytes;
  }
  [[nodiscard]] std::uint64_t SlotOffset(std::uint32_t slot) const { return kEntryBytes + slot * slot_bytes(); }
  [[nodiscard]] std::uint64_t FrameOffset(std::uint32_t slot) const { return SlotOffset(slot) + kEntryBytes; }
  [[nodiscard]] std::uint64_t entries_offset() const { return SlotOffset(slot_count); }
  [[nodiscard]] std::uint64_t trailer_offset() const { return entries_offset() + slot_count * kEntryBytes; }
  [[nodiscard]] std::uint64_t file_bytes() const { return trailer_offset() + kEntryBytes; }

  bool operator==(const SegmentShape&) const = default;
};

// A block on disk, besides its bytes.
struct DiskBlock {
  BlockHash hash;
  BlockHash before;          // the block that it continues; zero of the first of a prompt
  std::uint64_t tenant = 0;  // TenantHash
  std::uint32_t position = 0;

  bool operator==(const DiskBlock&) const = default;
};

struct SegmentEntry {
  std::uint32_t slot = 0;
  std::optional<DiskBlock> block;  // none: erased

  bool operator==(const SegmentEntry&) const = default;
};

struct SegmentContent {
  std::vector<SegmentEntry> entries;
  std::uint32_t used_slots = 0;  // slots from there on are empty
  bool is_sealed = false;
};

// "000000000042.segment"; the number of a name; none where it is no segment's.
[[nodiscard]] std::string SegmentName(std::uint64_t number);
[[nodiscard]] std::optional<std::uint64_t> SegmentNumberOf(std::string_view name);

// Makes an empty segment.
[[nodiscard]] Result<void> CreateSegment(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                         std::uint64_t number);
// Writes the block and then its entry.
[[nodiscard]] Result<void> WriteSlot(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                     std::uint64_t number, const SegmentEntry& entry, std::span<const std::byte> frame);
// Syncs the slots, writes the entries and the trailer, and syncs again. `entries` are those of all slots, in order.
[[nodiscard]] Result<void> SealSegment(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                       std::uint64_t number, std::span<const SegmentEntry> entries);
// Makes the slot's entries erased ones and gives its bytes back. Sync the file afterwards.
[[nodiscard]] Result<void> EraseSlot(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                     std::uint64_t number, std::uint32_t slot);

// The entries of a sealed segment, or those of an open one up to its torn tail. Entries with a wrong
// check are left out. kDataLoss: the header is not that of a segment with this number; kInvalidArgument: it is of
// another shape or version.
[[nodiscard]] Result<SegmentContent> ReadSegment(DiskFiles& files, const DiskFiles::Path& path,
                                                 const SegmentShape& shape, std::uint64_t number);

}  // namespace roost::worker
