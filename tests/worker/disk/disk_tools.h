// A folder for a disk of blocks, faults of its file system, and small verbs.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/transfer/frame_tools.h"
#include "worker/disk/disk_files.h"
#include "worker/disk/disk_store.h"

namespace roost::worker {

inline constexpr std::uint32_t kTestSlots = 8;

inline SegmentShape TestShape() { return SegmentShape::Of(1, 2, kTestSizes.frame_bytes(), 0); }

class TestFolder {
 public:
  TestFolder() {
    const std::filesystem::path memory = "/dev/shm";  // where a sync costs nothing
    const bool has_memory = access(memory.c_str(), W_OK) == 0;
    std::string name = ((has_memory ? memory : std::filesystem::temp_directory_path()) / "roost-disk-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The file system with faults, each once it is asked for.
class FaultyFiles final : public DiskFiles {
 public:
  std::optional<std::uint64_t> dies_after;  // so many writing calls; then no call does anything: the process is dead
  bool is_full = false;
  bool fails_reads = false;
  bool fails_writes = false;
  bool fails_removals = false;

  Result<void> Create(const Path& path, std::uint64_t bytes) override {
    if (is_full) return Error{ErrorCode::kOverloaded, "no space", path.string()};
    return IsDead() ? Dead() : DiskFiles::Create(path, bytes);
  }
  Result<void> Read(const Path& path, std::uint64_t offset, std::span<std::byte> to) override {
    if (fails_reads || dead_) return Error{ErrorCode::kUnavailable, "input/output error", path.string()};
    return DiskFiles::Read(path, offset, to);
  }
  // The last write before the end is torn.
  Result<void> Write(const Path& path, std::uint64_t offset, std::span<const std::byte> from) override {
    if (fails_writes) return Error{ErrorCode::kUnavailable, "input/output error", path.string()};
    const bool was_alive = !dead_;
    if (!IsDead()) return DiskFiles::Write(path, offset, from);
    if (was_alive) (void)DiskFiles::Write(path, offset, from.first(from.size() / 2));
    return Dead();
  }
  Result<void> Sync(const Path& path) override { return IsDead() ? Dead() : DiskFiles::Sync(path); }
  void FlushSoon(const Path& /*path*/) override {}
  Result<void> Punch(const Path& path, std::uint64_t offset, std::uint64_t bytes) override {
    return IsDead() ? Dead() : DiskFiles::Punch(path, offset, bytes);
  }
  Result<void> Remove(const Path& path) override {
    if (fails_removals) return Error{ErrorCode::kUnavailable, "read-only file system", path.string()};
    return IsDead() ? Dead() : DiskFiles::Remove(path);
  }

  [[nodiscard]] bool is_dead() const { return dead_; }

 private:
  static Result<void> Dead() { return Error{ErrorCode::kUnavailable, "the process is dead", ""}; }
  bool IsDead() {
    if (!dead_ && dies_after && (*dies_after)-- == 0) dead_ = true;
    return dead_;
  }

  bool dead_ = false;
};

// A store in a folder, which can be left and opened again.
class StoreUser {
 public:
  explicit StoreUser(std::uint64_t segment_count = kLeastSegments)
      : options_{.shape = TestShape(), .sizes = kTestSizes, .bytes = segment_count * TestShape().file_bytes()} {
    Open();
  }

  void Open() {
    store.reset();
    files = std::make_unique<FaultyFiles>();
    Result<DiskFolder> taken = DiskFolder::Take(folder.path().string(), options_.bytes);
    ASSERT_TRUE(taken.ok()) << taken.error().ToString();
    Result<std::unique_ptr<DiskStore>> opened = DiskStore::Open(*taken, *files, options_);
    ASSERT_TRUE(opened.ok()) << opened.error().ToString();
    store = std::move(opened).value();
    set.clear();
    store->Visit([&](const DiskIndex& index) {
      for (const wire::StoredRun& run : index.Runs()) set.insert(run.hashes.begin(), run.hashes.end());
    });
    store->Follow({.stored = [this](const DiskBlock& block) { EXPECT_TRUE(set.insert(block.hash).second); },
                   .removed = [this](const DiskBlock& block, DiskDrop) { EXPECT_EQ(set.erase(block.hash), 1U); }});
  }

  static DiskBlock BlockOf(const TestChain& chain, std::uint32_t index) {
    return {.hash = chain.chain.hashes[index],
            .before = index == 0 ? BlockHash() : chain.chain.hashes[index - 1],
            .tenant = chain.BlockAt(index).tenant,
            .position = index};
  }
  // False when it was not taken, or something failed.
  bool Put(const TestChain& chain, std::uint32_t index) {
    while (true) {
      const Result<DiskStore::Prepared> prepared = store->PrepareStep();
      if (!prepared.ok()) return false;
      if (prepared->room == DiskStore::Room::kReady) break;
    }
    const DiskBlock block = BlockOf(chain, index);
    return store->Takes(block) && store->Append(block, FrameOf(chain, index)).ok();
  }
  void PutAll(const TestChain& chain) {
    for (std::uint32_t i = 0; i < chain.chain.size(); ++i) EXPECT_TRUE(Put(chain, i));
  }
  // The block has the bytes that were written.
  [[nodiscard]] bool IsRight(const TestChain& chain, std::uint32_t index) {
    FrameBuffer frame(kTestSizes);
    if (!store->Read(chain.chain, index, frame).ok()) return false;
    const FrameBuffer wanted = FrameOf(chain, index);
    return std::equal(wanted.bytes().begin(), wanted.bytes().end(), frame.bytes().begin(), frame.bytes().end());
  }
  [[nodiscard]] std::uint32_t size() const {
    std::uint32_t count = 0;
    store->Visit([&](const DiskIndex& index) { count = index.size(); });
    return count;
  }
  std::uint32_t Evict(wire::Evict order) { return store->Erase(store->ErasureOf(order), DiskDrop::kErased); }

  [[nodiscard]] std::vector<std::filesystem::path> Segments() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (file.path().extension() == ".segment") paths.push_back(file.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  TestFolder folder;
  std::unique_ptr<FaultyFiles> files;
  std::unique_ptr<DiskStore> store;
  std::set<BlockHash> set;  // as its changes tell

 private:
  const DiskStoreOptions options_;
};

}  // namespace roost::worker
