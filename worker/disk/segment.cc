#include "worker/disk/segment.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "common/base/check.h"

namespace roost::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "segments are written as they lie in memory");

constexpr std::uint32_t kHeaderMagic = 0x44545352U;   // "RSTD"
constexpr std::uint32_t kTrailerMagic = 0x53545352U;  // "RSTS"
constexpr std::string_view kSuffix = ".segment";
constexpr std::size_t kDigits = 12;

using Line = std::array<std::byte, kEntryBytes>;

struct HeaderLine {
  std::uint32_t magic = kHeaderMagic;
  std::uint32_t version = kSegmentVersion;
  std::uint64_t layout = 0;
  std::uint64_t numerics = 0;
  std::uint64_t frame_bytes = 0;
  std::uint64_t slot_count = 0;
  std::uint64_t number = 0;
  std::uint64_t zero = 0;
  std::uint64_t check = 0;
};
struct TrailerLine {
  std::uint32_t magic = kTrailerMagic;
  std::uint32_t entry_count = 0;
  std::array<std::uint64_t, 6> zero{};
  std::uint64_t check = 0;
};
enum class Kind : std::uint32_t { kNone, kBlock, kErased };
struct EntryLine {
  Kind kind = Kind::kNone;
  std::uint32_t slot = 0;
  BlockHash hash = {};
  BlockHash before = {};
  std::uint64_t tenant = 0;
  std::uint32_t position = 0;
  std::uint32_t zero = 0;
  std::uint64_t check = 0;
};
static_assert(sizeof(HeaderLine) == kEntryBytes && sizeof(TrailerLine) == kEntryBytes &&
              sizeof(EntryLine) == kEntryBytes);

std::uint64_t CheckOf(const Line& line, std::uint64_t number) {
  return XXH3_64bits_withSeed(line.data(), line.size() - sizeof(std::uint64_t), number);
}

template <typename Fields>
Line Sealed(Fields fields, std::uint64_t number) {
  Line line{};
  std::memcpy(line.data(), &fields, sizeof(fields));
  fields.check = CheckOf(line, number);
  std::memcpy(line.data(), &fields, sizeof(fields));
  return line;
}

// Nothing when the check is wrong.
template <typename Fields>
std::optional<Fields> Opened(std::span<const std::byte> bytes, std::uint64_t number) {
  Line line{};
  std::copy_n(bytes.begin(), line.size(), line.begin());
  Fields fields;
  std::memcpy(&fields, line.data(), sizeof(fields));
  return fields.check == CheckOf(line, number) ? std::optional(fields) : std::nullopt;
}

Line LineOf(const SegmentEntry& entry, std::uint64_t number) {
  if (!entry.block) return Sealed(EntryLine{.kind = Kind::kErased, .slot = entry.slot}, number);
  const DiskBlock& block = *entry.block;
  return Sealed(EntryLine{.kind = Kind::kBlock,
                          .slot = entry.slot,
                          .hash = block.hash,
                          .before = block.before,
                          .tenant = block.tenant,
                          .position = block.position},
                number);
}

// The entry of this slot; nothing when it is none.
std::optional<SegmentEntry> EntryIn(std::span<const std::byte> bytes, std::uint32_t slot, std::uint64_t number) {
  const std::optional<EntryLine> line = Opened<EntryLine>(bytes, number);
  if (!line || line->slot != slot) return std::nullopt;
  if (line->kind == Kind::kErased) return SegmentEntry{.slot = slot, .block = std::nullopt};
  if (line->kind != Kind::kBlock) return std::nullopt;
  return SegmentEntry{
      .slot = slot,
      .block =
          DiskBlock{.hash = line->hash, .before = line->before, .tenant = line->tenant, .position = line->position}};
}

Result<void> CheckHeader(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                         std::uint64_t number) {
  Line bytes{};
  ROOST_RETURN_IF_ERROR(files.Read(path, 0, bytes));
  const std::optional<HeaderLine> header = Opened<HeaderLine>(bytes, number);
  if (!header || header->magic != kHeaderMagic || header->number != number) {
    return Error{ErrorCode::kDataLoss, "does not begin as a segment", path.string()};
  }
  const SegmentShape found{.layout = header->layout,
                           .numerics = header->numerics,
                           .frame_bytes = header->frame_bytes,
                           .slot_count = static_cast<std::uint32_t>(header->slot_count)};
  if (header->version != kSegmentVersion || found != shape) {
    return Error{ErrorCode::kInvalidArgument, "has another form", path.string()};
  }
  return {};
}

// A segment that was full keeps all its entries in one place.
Result<SegmentContent> ReadSealed(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                  std::uint64_t number) {
  SegmentContent content{.entries = {}, .used_slots = shape.slot_count, .is_sealed = true};
  std::vector<std::byte> bytes(std::size_t{shape.slot_count} * kEntryBytes);
  ROOST_RETURN_IF_ERROR(files.Read(path, shape.entries_offset(), bytes));
  content.entries.reserve(shape.slot_count);
  for (std::uint32_t slot = 0; slot < shape.slot_count; ++slot) {
    const auto line = std::span(bytes).subspan(std::size_t{slot} * kEntryBytes, kEntryBytes);
    if (const std::optional<SegmentEntry> entry = EntryIn(line, slot, number)) content.entries.push_back(*entry);
  }
  return content;
}

// All slots are looked at: what stands behind a damaged one would come back once that is written again.
Result<SegmentContent> ReadOpen(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                std::uint64_t number) {
  SegmentContent content;
  for (std::uint32_t slot = 0; slot < shape.slot_count; ++slot) {
    Line line{};
    ROOST_RETURN_IF_ERROR(files.Read(path, shape.SlotOffset(slot), line));
    const std::optional<SegmentEntry> entry = EntryIn(line, slot, number);
    if (!entry) continue;
    for (; content.used_slots < slot; ++content.used_slots) {
      content.entries.push_back({.slot = content.used_slots, .block = std::nullopt});
    }
    content.entries.push_back(*entry);
    ++content.used_slots;
  }
  return content;
}

}  // namespace

SegmentShape SegmentShape::Of(std::uint64_t layout, std::uint64_t numerics, std::uint64_t frame_bytes,
                              std::uint64_t segment_bytes) {
  SegmentShape shape{.layout = layout, .numerics = numerics, .frame_bytes = frame_bytes, .slot_count = 0};
  const std::uint64_t slots =
      (segment_bytes - std::min(segment_bytes, 2 * kEntryBytes)) / (shape.slot_bytes() + kEntryBytes);
  shape.slot_count = static_cast<std::uint32_t>(std::max<std::uint64_t>(kLeastSlots, slots));
  return shape;
}

std::string SegmentName(std::uint64_t number) { return fmt::format("{:0{}}{}", number, kDigits, kSuffix); }

std::optional<std::uint64_t> SegmentNumberOf(std::string_view name) {
  if (name.size() != kDigits + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = name.data() + kDigits;
  const auto [parsed_to, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && parsed_to == end ? std::optional(number) : std::nullopt;
}

Result<void> CreateSegment(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                           std::uint64_t number) {
  ROOST_RETURN_IF_ERROR(files.Create(path, shape.file_bytes()));
  const Line header = Sealed(HeaderLine{.layout = shape.layout,
                                        .numerics = shape.numerics,
                                        .frame_bytes = shape.frame_bytes,
                                        .slot_count = shape.slot_count,
                                        .number = number},
                             number);
  Result<void> written = files.Write(path, 0, header);
  if (!written.ok()) (void)files.Remove(path);  // it is in no count
  return written;
}

Result<void> WriteSlot(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape, std::uint64_t number,
                       const SegmentEntry& entry, std::span<const std::byte> frame) {
  ROOST_CHECK(frame.size() == shape.frame_bytes && entry.slot < shape.slot_count && entry.block.has_value());
  ROOST_RETURN_IF_ERROR(files.Write(path, shape.FrameOffset(entry.slot), frame));
  return files.Write(path, shape.SlotOffset(entry.slot), LineOf(entry, number));
}

Result<void> SealSegment(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape, std::uint64_t number,
                         std::span<const SegmentEntry> entries) {
  ROOST_RETURN_IF_ERROR(files.Sync(path));
  std::vector<std::byte> bytes(std::size_t{shape.slot_count} * kEntryBytes);
  for (const SegmentEntry& entry : entries) {
    const Line line = LineOf(entry, number);
    std::copy(line.begin(), line.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(std::size_t{entry.slot} * kEntryBytes));
  }
  ROOST_RETURN_IF_ERROR(files.Write(path, shape.entries_offset(), bytes));
  ROOST_RETURN_IF_ERROR(files.Sync(path));
  const TrailerLine trailer{.entry_count = static_cast<std::uint32_t>(entries.size())};
  ROOST_RETURN_IF_ERROR(files.Write(path, shape.trailer_offset(), Sealed(trailer, number)));
  return files.Sync(path);
}

Result<void> EraseSlot(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape, std::uint64_t number,
                       std::uint32_t slot) {
  const Line erased = LineOf({.slot = slot, .block = std::nullopt}, number);
  ROOST_RETURN_IF_ERROR(files.Write(path, shape.entries_offset() + std::uint64_t{slot} * kEntryBytes, erased));
  ROOST_RETURN_IF_ERROR(files.Write(path, shape.SlotOffset(slot), erased));
  return files.Punch(path, shape.FrameOffset(slot), shape.slot_bytes() - kEntryBytes);
}

Result<SegmentContent> ReadSegment(DiskFiles& files, const DiskFiles::Path& path, const SegmentShape& shape,
                                   std::uint64_t number) {
  ROOST_RETURN_IF_ERROR(CheckHeader(files, path, shape, number));
  Line bytes{};
  ROOST_RETURN_IF_ERROR(files.Read(path, shape.trailer_offset(), bytes));
  const std::optional<TrailerLine> trailer = Opened<TrailerLine>(bytes, number);
  return trailer && trailer->magic == kTrailerMagic ? ReadSealed(files, path, shape, number)
                                                    : ReadOpen(files, path, shape, number);
}

}  // namespace roost::worker
