#include "worker/model/rank_threads.h"

#include <optional>

#include "common/base/check.h"
#include "kernels/watched_wait.h"

namespace roost::worker {

RankThreads::RankThreads(std::uint32_t rank_count) {
  ROOST_CHECK(rank_count > 0);
  for (std::uint32_t rank = 1; rank < rank_count; ++rank) threads_.emplace_back([this, rank] { Serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    task_ = nullptr;
    ++round_;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::Run(const std::function<void(std::uint32_t rank)>& task) {
  {
    const std::lock_guard lock(mutex_);
    ROOST_CHECK(busy_ == 0, "a task within a task");
    task_ = &task;
    ++round_;
    busy_ = threads_.size();
  }
  begun_.notify_all();
  task(0);
  std::unique_lock lock(mutex_);
  kernels::WatchedWait(done_, lock, watch_, [this] { return busy_ == 0; });
}

Result<void> RankThreads::TryRun(const std::function<Result<void>(std::uint32_t rank)>& task) {
  std::vector<Result<void>> results(threads_.size() + 1);  // each written by its rank
  Run([&](std::uint32_t rank) { results[rank] = task(rank); });
  for (const Result<void>& result : results) ROOST_RETURN_IF_ERROR(result);
  return {};
}

void RankThreads::Serve(std::uint32_t rank) {
  for (std::uint64_t seen = 0;;) {
    const std::function<void(std::uint32_t)>* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      task = task_;
    }
    if (task == nullptr) return;
    (*task)(rank);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace roost::worker
