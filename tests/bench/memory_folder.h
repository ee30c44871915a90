// A folder for a disk of blocks, and the store in it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "worker/disk/disk_store.h"

namespace roost::bench {

// A folder on a file system in memory, where a sync costs nothing.
class MemoryFolder {
 public:
  MemoryFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = access(memory.c_str(), W_OK) == 0;
    std::string name = ((has_memory ? memory : std::filesystem::temp_directory_path()) / "roost-bench-XXXXXX").string();
    ROOST_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Opens the store of a disk with room for so many bytes, and at least kLeastSegments.
inline std::unique_ptr<worker::DiskStore> OpenStore(const MemoryFolder& folder, worker::DiskFiles& files,
                                                    worker::FrameSizes sizes, std::uint64_t bytes,
                                                    std::uint64_t segment_bytes = worker::kSegmentBytes) {
  const auto shape = worker::SegmentShape::Of(1, 1, sizes.frame_bytes(), segment_bytes);
  Result<worker::DiskFolder> taken = worker::DiskFolder::Take(folder.path().string(), 1);
  ROOST_CHECK(taken.ok(), "{}", taken.error().ToString());
  auto store = worker::DiskStore::Open(
      *taken, files,
      {.shape = shape, .sizes = sizes, .bytes = std::max(bytes, worker::kLeastSegments * shape.file_bytes())});
  ROOST_CHECK(store.ok(), "{}", store.error().ToString());
  return std::move(store).value();
}

}  // namespace roost::bench
