// How long a worker's start reads a disk of blocks: 60,000 blocks of Qwen3-0.6B's shape, 100 GB of which only what
// describes them is there.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/bench/memory_folder.h"
#include "worker/disk/disk_store.h"

namespace roost::bench {
namespace {

constexpr worker::FrameSizes kSizes{.block_tokens = 16, .data_bytes = std::size_t{28} * 2 * 8 * 128 * 16 * 2};
constexpr std::uint32_t kChainBlocks = 64;

// Files whose space is not reserved, and without the blocks' bytes.
class SparseFiles final : public worker::DiskFiles {
 public:
  Result<void> Create(const Path& path, std::uint64_t bytes) override {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ROOST_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 && close(file) == 0);
    return {};
  }
  Result<void> Write(const Path& path, std::uint64_t offset, std::span<const std::byte> from) override {
    return from.size() == kSizes.frame_bytes() ? Result<void>() : DiskFiles::Write(path, offset, from);
  }
};

void Fill(worker::DiskStore& store, std::uint32_t block_count) {
  const worker::FrameBuffer frame(kSizes);
  worker::DiskBlock block;
  for (std::uint32_t i = 0; i < block_count; ++i) {
    while (store.PrepareStep().value().room != worker::DiskStore::Room::kReady) {
    }
    const bool is_first = i % kChainBlocks == 0;
    block = {.hash = {Mix64(i + 1), Mix64(~std::uint64_t{i})},
             .before = is_first ? BlockHash() : block.hash,
             .tenant = 1,
             .position = i % kChainBlocks};
    ROOST_CHECK(store.Takes(block) && store.Append(block, frame).ok());
  }
}

}  // namespace

void BenchDiskStart(Effort effort) {
  const std::uint32_t block_count = effort == Effort::kQuick ? 1000 : 60'000;
  const std::uint64_t bytes = block_count * kSizes.frame_bytes() * 5 / 4;
  const MemoryFolder folder;
  SparseFiles files;
  Fill(*OpenStore(folder, files, kSizes, bytes), block_count);
  const double seconds = MedianSeconds(effort, [&] {
    std::uint32_t count = 0;
    OpenStore(folder, files, kSizes, bytes)->Visit([&](const worker::DiskIndex& index) { count = index.size(); });
    ROOST_CHECK(count == block_count, "{} blocks", count);
  });
  Figure(fmt::format("disk_start_{}_blocks_ms", block_count), seconds * 1e3, "ms");
}

}  // namespace roost::bench
