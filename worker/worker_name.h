// The name of a worker that was given none: its host's, and the first number that no other worker of the host has. So a
// worker that restarts has the name that it had, and two of one host have different ones.
//
// A lock file holds the number until the process ends, however it ends. The files stay: they are empty.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace roost::worker {

class WorkerName {
 public:
  static constexpr int kMaxNumbers = 1024;

  // Takes the first free number in the first of `folders` where lock files can be made. Where there is none, or no
  // number is free, the name is the host's alone: then routers see to it that it belongs to one process.
  [[nodiscard]] static WorkerName Take(const std::string& host, std::span<const std::filesystem::path> folders);
  // In this host's name, and in its usual folders: that of the session, /run/lock, the one for temporary files.
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
