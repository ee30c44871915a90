#include "common/base/log_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "common/base/thread_name.h"

namespace roost {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // interval at which the thread checks whether it should stop
constexpr std::size_t kBatchBytes = 64 * 1024;   // the thread takes this many at a time
constexpr std::size_t kAtOnceBytes = PIPE_BUF;   // a pipe that poll calls writable takes this many without a wait

enum class Step { kWrote, kNotYet, kBroken };

// Writes what `fd` takes at once, after a wait of at most `wait`. Moves `text` past what was written.
Step WriteSome(int fd, std::string_view& text, std::chrono::milliseconds wait) {
  pollfd ready{fd, POLLOUT, 0};
  const int count = ::poll(&ready, 1, static_cast<int>(wait.count()));
  if (count == 0 || (count < 0 && errno == EINTR)) return Step::kNotYet;
  if (count < 0) return Step::kBroken;
  const ssize_t written = ::write(fd, text.data(), std::min(text.size(), kAtOnceBytes));
  if (written < 0) return errno == EINTR || errno == EAGAIN ? Step::kNotYet : Step::kBroken;
  text.remove_prefix(static_cast<std::size_t>(written));
  return Step::kWrote;
}

}  // namespace

bool WriteWithin(int fd, std::string_view text, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!text.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const Step step = WriteSome(fd, text, std::max(left, std::chrono::milliseconds(0)));
    if (step == Step::kBroken || (step == Step::kNotYet && left.count() <= 0)) return false;
  }
  return true;
}

LogQueue::LogQueue(int fd, std::function<std::string(std::uint64_t)> tell_dropped)
    : fd_(fd), tell_dropped_(std::move(tell_dropped)), thread_([this] { Run(); }) {}

LogQueue::~LogQueue() {
  Flush(kFlushTime);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void LogQueue::Put(std::string line) {
  const std::lock_guard lock(mutex_);
  const bool begins_batch = lines_.empty();
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  while (bytes_ > kMaxBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++dropped_;
  }
  if (begins_batch || bytes_ >= kBatchBytes) changed_.notify_all();
}

bool LogQueue::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  ++flushes_;
  changed_.notify_all();
  const bool written =
      changed_.wait_for(lock, timeout, [this] { return lines_.empty() && dropped_ == 0 && !writing_; });
  --flushes_;
  return written;
}

std::string LogQueue::Take() {
  std::unique_lock lock(mutex_);
  writing_ = false;
  changed_.notify_all();
  if (lines_.empty() && dropped_ == 0) {
    changed_.wait(lock, [this] { return stopping_ || dropped_ > 0 || !lines_.empty(); });
    changed_.wait_for(lock, kGather, [this] { return stopping_ || flushes_ > 0 || bytes_ >= kBatchBytes; });
  }
  std::string batch;
  if (stopping_) return batch;
  writing_ = true;
  if (dropped_ > 0) batch += tell_dropped_(std::exchange(dropped_, 0));
  while (!lines_.empty() && batch.size() < kBatchBytes) {
    bytes_ -= lines_.front().size();
    batch += lines_.front();
    lines_.pop_front();
  }
  return batch;
}

void LogQueue::Run() {
  NameThisThread("log");
  for (std::string batch = Take(); !batch.empty(); batch = Take()) {
    std::string_view rest = batch;
    while (!rest.empty()) {
      // There is no place to report a broken descriptor: its lines are dropped.
      if (WriteSome(fd_, rest, kLook) == Step::kBroken) break;
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
  }
}

}  // namespace roost
