#include "worker/worker_name.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/log.h"

namespace roost::worker {
namespace {

constexpr int kNoLock = -1;

enum class LockOutcome { kTaken, kHeldByOther, kNoFolder };

// A file that belongs to another user counts as held: this process can not open it to check.
LockOutcome TryLock(const std::filesystem::path& path, int& fd) {
  fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    const bool exists = access(path.c_str(), F_OK) == 0;
    return exists ? LockOutcome::kHeldByOther : LockOutcome::kNoFolder;
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return LockOutcome::kTaken;
  close(std::exchange(fd, kNoLock));
  return LockOutcome::kHeldByOther;
}

}  // namespace

std::string HostName() {
  std::array<char, 256> host{};
  // gethostname may cut off a name that is too long; the last byte stays zero.
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return "worker";
  std::string name = host.data();
  std::replace_if(
      name.begin(), name.end(), [](char byte) { return byte <= ' ' || byte > '~'; }, '-');
  return name;
}

WorkerName WorkerName::Take(const std::string& host, std::span<const std::filesystem::path> folders) {
  for (const std::filesystem::path& folder : folders) {
    for (int number = 0; number < kMaxNumbers; ++number) {
      const std::string name = fmt::format("{}-{}", host, number);
      int fd = kNoLock;
      const LockOutcome outcome = TryLock(folder / fmt::format("roost-worker-{}.lock", name), fd);
      if (outcome == LockOutcome::kTaken) return {name, fd};
      if (outcome == LockOutcome::kNoFolder) break;
    }
  }
  LogWarning("no lock file could be made for the worker's name: a second worker on this host needs --worker-id",
             {{"worker", host}});
  return {host, kNoLock};
}

WorkerName WorkerName::Take() {
  std::vector<std::filesystem::path> folders;
  if (const char* const session = std::getenv("XDG_RUNTIME_DIR")) folders.emplace_back(session);
  folders.emplace_back("/run/lock");
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (!error) folders.push_back(temporary);
  return Take(HostName(), folders);
}

WorkerName::WorkerName(WorkerName&& other) noexcept
    : value_(std::move(other.value_)), lock_fd_(std::exchange(other.lock_fd_, kNoLock)) {}

WorkerName::~WorkerName() {
  if (lock_fd_ != kNoLock) close(lock_fd_);
}

}  // namespace roost::worker
