// The name of a worker without --worker-id: the host's name and the lowest number that no other worker of the host
// holds. So a restarted worker gets its old name again, and two workers of one host have different names.
//
// A lock file holds the number until the process ends, however it ends. The files stay: they are empty.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace roost::worker {

// This host's name, in printable ASCII; "worker" if it has none.
[[nodiscard]] std::string HostName();

class WorkerName {
 public:
  static constexpr int kMaxNumbers = 1024;

  // Takes the first free number in the first of `folders` where lock files can be made. If there is no such folder or
  // no free number, the name is the host's alone; routers then check that one process has it.
  [[nodiscard]] static WorkerName Take(const std::string& host, std::span<const std::filesystem::path> folders);
  // The same with this host's name and its usual folders: the session's, /run/lock, and the one for temporary files.
  [[nodiscard]] static WorkerName Take();

  WorkerName(WorkerName&& other) noexcept;
  WorkerName& operator=(WorkerName&&) = delete;
  ~WorkerName();

  [[nodiscard]] const std::string& value() const { return value_; }

 private:
  WorkerName(std::string value, int lock_fd) : value_(std::move(value)), lock_fd_(lock_fd) {}

  std::string value_;
  int lock_fd_;  // -1: none
};

}  // namespace roost::worker
