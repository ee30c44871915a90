#include "worker/disk/disk_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace roost::worker {
namespace {

Error FileError(const DiskFiles::Path& path, int number) {
  const ErrorCode code = number == ENOSPC || number == EDQUOT ? ErrorCode::kOverloaded
                         : number == ENOENT                   ? ErrorCode::kNotFound
                                                              : ErrorCode::kUnavailable;
  return {code, std::strerror(number), path.string()};
}

class OpenFile {
 public:
  OpenFile(const DiskFiles::Path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) (void)close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// So that a file is there, or gone, after a loss of power too.
Result<void> SyncFolderOf(const DiskFiles::Path& path) {
  const OpenFile folder(path.parent_path(), O_RDONLY | O_DIRECTORY);
  if (!folder.is_open() || fsync(folder.descriptor()) != 0) return FileError(path.parent_path(), errno);
  return {};
}

// Calls `move` until it has moved all `bytes`. It returns what it moved, 0 at the file's end.
template <typename Move>
Result<void> MoveAll(const DiskFiles::Path& path, std::size_t bytes, const Move& move) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t moved = move(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return FileError(path, errno);
    if (moved == 0) return Error{ErrorCode::kDataLoss, "the file ends too early", path.string()};
    done += static_cast<std::size_t>(moved);
  }
  return {};
}

}  // namespace

Result<void> DiskFiles::Create(const Path& path, std::uint64_t bytes) {
  const OpenFile file(path, O_RDWR | O_CREAT | O_EXCL);
  if (!file.is_open()) return FileError(path, errno);
  if (const int failure = posix_fallocate(file.descriptor(), 0, static_cast<off_t>(bytes)); failure != 0) {
    (void)unlink(path.c_str());
    return FileError(path, failure);
  }
  return SyncFolderOf(path);
}

Result<void> DiskFiles::Read(const Path& path, std::uint64_t offset, std::span<std::byte> to) {
  const OpenFile file(path, O_RDONLY);
  if (!file.is_open()) return FileError(path, errno);
  ROOST_RETURN_IF_ERROR(MoveAll(path, to.size(), [&](std::size_t done) {
    return pread(file.descriptor(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
  }));
  (void)posix_fadvise(file.descriptor(), static_cast<off_t>(offset), static_cast<off_t>(to.size()),
                      POSIX_FADV_DONTNEED);
  return {};
}

Result<void> DiskFiles::Write(const Path& path, std::uint64_t offset, std::span<const std::byte> from) {
  const OpenFile file(path, O_WRONLY);
  if (!file.is_open()) return FileError(path, errno);
  return MoveAll(path, from.size(), [&](std::size_t done) {
    return pwrite(file.descriptor(), from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
  });
}

Result<void> DiskFiles::Sync(const Path& path) {
  const OpenFile file(path, O_WRONLY);
  if (!file.is_open()) return FileError(path, errno);
  if (fdatasync(file.descriptor()) != 0) return FileError(path, errno);
  (void)posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

void DiskFiles::FlushSoon(const Path& path) {
  const OpenFile file(path, O_WRONLY);
  if (!file.is_open()) return;
  (void)posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  (void)sync_file_range(file.descriptor(), 0, 0, SYNC_FILE_RANGE_WRITE);
}

Result<void> DiskFiles::Punch(const Path& path, std::uint64_t offset, std::uint64_t bytes) {
  const OpenFile file(path, O_WRONLY);
  if (!file.is_open()) return FileError(path, errno);
  if (fallocate(file.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(bytes)) == 0) {
    return {};
  }
  if (errno != EOPNOTSUPP && errno != ENOSYS) return FileError(path, errno);
  // A file system without holes.
  constexpr std::array<std::byte, 65536> kZeros{};
  return MoveAll(path, bytes, [&](std::size_t done) {
    return pwrite(file.descriptor(), kZeros.data(), std::min(kZeros.size(), bytes - done),
                  static_cast<off_t>(offset + done));
  });
}

Result<void> DiskFiles::Remove(const Path& path) {
  if (unlink(path.c_str()) != 0) return FileError(path, errno);
  return SyncFolderOf(path);
}

}  // namespace roost::worker
