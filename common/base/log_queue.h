// A queue of lines for a file descriptor whose reader may be slow or stuck: a pipe to a container's log, or a stopped
// terminal. Logging never waits: lines go into a bounded queue, and a thread writes them. When the queue is full, the
// oldest lines are dropped, and a line says how many.
//
//   Put ─► lines_ (kMaxBytes) ─► the thread ─► poll, write ─► fd
//            │ full: the oldest are dropped and counted
//
// Once a line has come, the thread lets more gather for kGather, so that one wake-up writes several; Flush and a full
// batch end that.
//
// Thread-safe. The thread writes only what the descriptor takes at once, so that it can always be stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace roost {

// Writes all of `text` within `timeout`. False when the time was too short, or on an error.
bool WriteWithin(int fd, std::string_view text, std::chrono::milliseconds timeout);

class LogQueue {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

  // `tell_dropped` makes the line (with its newline) that says how many were dropped. The thread inherits the signal
  // mask.
  LogQueue(int fd, std::function<std::string(std::uint64_t)> tell_dropped);
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;
  // Writes what it can within kFlushTime, and drops the rest.
  ~LogQueue();

  // `line` is a whole line with its newline. Never waits for the descriptor.
  void Put(std::string line);
  // Waits until all lines so far are written; false when the time has passed first.
  bool Flush(std::chrono::milliseconds timeout);

  static constexpr std::chrono::milliseconds kFlushTime{1000};
  static constexpr std::chrono::milliseconds kGather{10};

 private:
  void Run();
  // The next lines as one text, behind the line about dropped ones; empty when the thread should stop.
  std::string Take();

  const int fd_;
  const std::function<std::string(std::uint64_t)> tell_dropped_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;  // guarded by mutex_
  std::size_t bytes_ = 0;          // guarded by mutex_
  std::uint64_t dropped_ = 0;      // guarded by mutex_; not yet reported
  bool writing_ = false;           // guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  std::size_t flushes_ = 0;        // guarded by mutex_; that wait now

  std::thread thread_;
};

}  // namespace roost
