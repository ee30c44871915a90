// Any bytes as the segments of a disk of blocks: a start never crashes, the set that it finds is closed, every block of
// it is read or refused, it takes a block more, and erases all; the next start finds what this one left. The first byte
// says what the bytes are: with bit 0 a whole segment; else changes of a right one, five bytes each (where, and XOR),
// with bit 1 of a sealed one; with bit 2 the checks of entries are made right again.
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/prefix/block_hash.h"
#include "worker/disk/disk_files.h"
#include "worker/disk/disk_store.h"
#include "worker/disk/segment.h"
#include "worker/transfer/frame.h"

namespace roost::worker {
namespace {

using Bytes = std::span<const std::byte>;

constexpr FrameSizes kSizes{.block_tokens = 4, .data_bytes = 32};
constexpr BlockHash kRoot{1, 2};
constexpr std::uint64_t kNumber = 1;
constexpr std::size_t kCheckOffset = kEntryBytes - sizeof(std::uint64_t);

SegmentShape Shape() { return SegmentShape::Of(1, 2, kSizes.frame_bytes(), 0); }

// The chain of blocks that a right segment has.
struct Chain {
  std::vector<TokenId> tokens;
  FrameChain chain{.root = kRoot, .parent = kRoot};

  Chain() : tokens(std::size_t{kLeastSlots} * kSizes.block_tokens, 7) {
    chain.hashes = HashBlocks(kRoot, tokens, kSizes.block_tokens);
  }
  [[nodiscard]] DiskBlock BlockAt(std::uint32_t index) const {
    return {
        .hash = chain.hashes[index], .before = index == 0 ? BlockHash() : chain.hashes[index - 1], .position = index};
  }
  [[nodiscard]] FrameBuffer FrameAt(std::uint32_t index) const {
    FrameBuffer frame(kSizes);
    std::fill(frame.data().begin(), frame.data().end(), std::byte{1});
    SealFrame({.position = index, .hash = chain.hashes[index], .parent = chain.ParentAt(index), .root = kRoot},
              std::span(tokens).subspan(std::size_t{index} * kSizes.block_tokens, kSizes.block_tokens), frame);
    return frame;
  }
};

class Folder {
 public:
  Folder() {
    const bool has_memory = std::filesystem::exists("/dev/shm");
    std::string name = std::string(has_memory ? "/dev/shm" : "/tmp") + "/roost-segment-XXXXXX";
    path = mkdtemp(name.data());
    inner = path / "blocks-0000000000000001-0000000000000002";
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path path;
  std::filesystem::path inner;
};

std::vector<std::byte> RightSegment(Folder& folder, const Chain& chain, bool is_sealed) {
  const DiskFiles::Path path = folder.path / "right";
  DiskFiles files;
  const SegmentShape shape = Shape();
  ROOST_CHECK(CreateSegment(files, path, shape, kNumber).ok());
  std::vector<SegmentEntry> entries;
  for (std::uint32_t slot = 0; slot < (is_sealed ? shape.slot_count : 5); ++slot) {
    entries.push_back({.slot = slot, .block = chain.BlockAt(slot)});
    ROOST_CHECK(WriteSlot(files, path, shape, kNumber, entries.back(), chain.FrameAt(slot).bytes()).ok());
  }
  if (is_sealed) ROOST_CHECK(SealSegment(files, path, shape, kNumber, entries).ok());
  std::vector<std::byte> bytes(shape.file_bytes());
  ROOST_CHECK(files.Read(path, 0, bytes).ok() && files.Remove(path).ok());
  return bytes;
}

void Change(Bytes changes, std::span<std::byte> segment) {
  for (; changes.size() >= 5; changes = changes.subspan(5)) {
    std::uint32_t where = 0;
    std::memcpy(&where, changes.data(), sizeof(where));
    segment[where % segment.size()] ^= changes[4];
  }
}

void RepairAt(std::uint64_t offset, std::span<std::byte> segment) {
  std::byte* const line = segment.data() + offset;
  const std::uint64_t check = XXH3_64bits_withSeed(line, kCheckOffset, kNumber);
  std::memcpy(line + kCheckOffset, &check, sizeof(check));
}

void Repair(std::span<std::byte> segment) {
  const SegmentShape shape = Shape();
  RepairAt(0, segment);
  RepairAt(shape.trailer_offset(), segment);
  for (std::uint32_t slot = 0; slot < shape.slot_count; ++slot) {
    RepairAt(shape.SlotOffset(slot), segment);
    RepairAt(shape.entries_offset() + slot * kEntryBytes, segment);
  }
}

std::unique_ptr<DiskStore> Open(const Folder& folder, DiskFiles& files) {
  const SegmentShape shape = Shape();
  const Result<DiskFolder> taken = DiskFolder::Take(folder.path.string(), 1);
  Result<std::unique_ptr<DiskStore>> store =
      DiskStore::Open(*taken, files, {.shape = shape, .sizes = kSizes, .bytes = kLeastSegments * shape.file_bytes()});
  ROOST_CHECK(store.ok());
  return std::move(store).value();
}

struct Content {
  std::vector<wire::StoredRun> runs;
  std::vector<BlockHash> firsts;
  BlockHash digest;
  std::uint32_t size = 0;
};
Content ContentOf(const DiskStore& store) {
  Content content;
  store.Visit([&](const DiskIndex& index) {
    content = {index.Runs(), index.FirstBlocks(), index.digest(), index.size()};
    std::uint32_t count = 0;
    for (const wire::StoredRun& run : content.runs) {
      for (std::uint32_t i = 0; i < run.hashes.size(); ++i, ++count) {
        const DiskIndex::Node* const node = index.Find(run.hashes[i]);
        ROOST_CHECK(node != nullptr && node->block.position == run.first_position + i);
        ROOST_CHECK(node->block.position == 0 || index.Find(node->block.before) != nullptr);
      }
    }
    ROOST_CHECK(count == content.size);
  });
  return content;
}

void Use(DiskStore& store, const Chain& chain) {
  FrameBuffer frame(kSizes);
  for (std::uint32_t i = 0; i < chain.chain.size(); ++i) {
    const Result<OpenedFrame> opened = store.Read(chain.chain, i, frame);
    ROOST_CHECK(!opened.ok() || opened->block.hash == chain.chain.hashes[i]);
  }
  while (true) {
    const Result<DiskStore::Prepared> prepared = store.PrepareStep();
    ROOST_CHECK(prepared.ok());
    if (prepared->room == DiskStore::Room::kReady) break;
  }
  const std::uint32_t next = store.CountFront(chain.chain);
  if (next < chain.chain.size() && store.Takes(chain.BlockAt(next))) {
    ROOST_CHECK(store.Append(chain.BlockAt(next), chain.FrameAt(next)).ok());
  }
}

}  // namespace

void TakeInput(Bytes input) {
  if (input.empty()) return;
  const auto kind = static_cast<unsigned>(input.front());
  const Bytes rest = input.subspan(1);
  static const Chain chain;
  static Folder folder;
  static const std::vector<std::byte> open = RightSegment(folder, chain, false);
  static const std::vector<std::byte> sealed = RightSegment(folder, chain, true);
  std::vector<std::byte> segment = (kind & 2U) != 0 ? sealed : open;
  if ((kind & 1U) != 0) {
    segment.assign(rest.begin(), rest.end());
  } else {
    Change(rest, segment);
    if ((kind & 4U) != 0) Repair(segment);
  }
  std::filesystem::remove_all(folder.inner);
  std::filesystem::create_directory(folder.inner);
  std::ofstream(folder.inner / SegmentName(kNumber), std::ios::binary)
      .write(reinterpret_cast<const char*>(segment.data()), static_cast<std::streamsize>(segment.size()));

  DiskFiles files;
  std::unique_ptr<DiskStore> store = Open(folder, files);
  (void)ContentOf(*store);
  Use(*store, chain);
  const Content left = ContentOf(*store);
  store = Open(folder, files);
  const Content found = ContentOf(*store);
  ROOST_CHECK(found.digest == left.digest && found.size == left.size);
  (void)store->Erase({.tops = found.firsts, .fronts = {}}, DiskDrop::kErased);
  ROOST_CHECK(ContentOf(*store).size == 0);
  ROOST_CHECK(ContentOf(*Open(folder, files)).size == 0);
}

}  // namespace roost::worker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::worker::TakeInput({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
