// The file system as the disk of blocks uses it. Tests decorate it with faults.
//
// Each call opens the file that it names, which costs microseconds beside a block's megabytes; so no number of segments
// uses up descriptors, and a reader keeps no deleted file alive. Errors name the path.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/base/result.h"

namespace roost::worker {

class DiskFiles {
 public:
  using Path = std::filesystem::path;

  virtual ~DiskFiles() = default;

  // Makes an empty file of this size, for this user alone, whose space is reserved: a full disk shows here and not at a
  // write. kOverloaded: there is no space.
  [[nodiscard]] virtual Result<void> Create(const Path& path, std::uint64_t bytes);
  // All of the bytes. kDataLoss: the file ends before.
  [[nodiscard]] virtual Result<void> Read(const Path& path, std::uint64_t offset, std::span<std::byte> to);
  [[nodiscard]] virtual Result<void> Write(const Path& path, std::uint64_t offset, std::span<const std::byte> from);
  // All that was written is on the medium, and no longer in the page cache.
  [[nodiscard]] virtual Result<void> Sync(const Path& path);
  // Begins to write out what was written, and gives back the page cache of what is on the medium already.
  virtual void FlushSoon(const Path& path);
  // Gives the bytes back to the file system; they read as zeros.
  [[nodiscard]] virtual Result<void> Punch(const Path& path, std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] virtual Result<void> Remove(const Path& path);
};

}  // namespace roost::worker
