#include "router/text/text_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::router {
namespace {

// If processors are few, threads that serve sockets go before text threads: sending a token is more urgent than reading
// a prompt.
void LowerPriority() {
  constexpr int kNice = 5;
  // On Linux this affects only the calling thread. Lowering the priority is always allowed.
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);
}

// Jobs end their own requests when memory runs out. Any other exception must not end the process.
void RunJob(const std::function<void()>& job) {
  try {
    job();
  } catch (const std::exception& error) {
    LogError("a request's text work failed", {{"error", error.what()}});
  }
}

}  // namespace

TextPool::TextPool(const TextPoolOptions& options)
    : max_jobs_(options.max_jobs), max_large_running_(std::max<std::size_t>(options.thread_count, 2) - 1) {
  ROOST_CHECK(options.thread_count > 0);
  for (std::uint32_t i = 0; i < options.thread_count; ++i) threads_.emplace_back([this] { Run(); });
}

TextPool::~TextPool() { Stop(); }

bool TextPool::TryPost(std::size_t bytes, std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || small_.size() + large_.size() >= max_jobs_) return false;
    Jobs& jobs = bytes > kLargeBytes ? large_ : small_;
    jobs.emplace(begun_tag_ + bytes + kJobBytes, std::move(job));
  }
  changed_.notify_one();
  return true;
}

void TextPool::Stop() {
  {
    Jobs small;  // destroyed without the lock, because a job's destructor may call back
    Jobs large;
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    small.swap(small_);
    large.swap(large_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

TextPool::Jobs* TextPool::NextJobs() {
  const bool may_be_large = !large_.empty() && large_running_ < max_large_running_;
  if (small_.empty()) return may_be_large ? &large_ : nullptr;
  return may_be_large && large_.begin()->first < small_.begin()->first ? &large_ : &small_;
}

void TextPool::Run() {
  NameThisThread("text");
  LowerPriority();
  std::unique_lock lock(mutex_);
  while (true) {
    Jobs* jobs = nullptr;
    changed_.wait(lock, [&] { return stopped_ || (jobs = NextJobs()) != nullptr; });
    if (stopped_) return;
    const bool is_large = jobs == &large_;
    begun_tag_ = std::max(begun_tag_, jobs->begin()->first);
    std::function<void()> job = std::move(jobs->begin()->second);
    jobs->erase(jobs->begin());
    large_running_ += is_large ? 1 : 0;
    lock.unlock();
    RunJob(job);
    job = nullptr;  // destroyed before the next turn, and without the lock
    lock.lock();
    large_running_ -= is_large ? 1 : 0;
  }
}

}  // namespace roost::router
