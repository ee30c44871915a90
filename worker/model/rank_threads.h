// One thread for each rank of a group; the caller's thread is rank 0's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace roost::worker {

class RankThreads {
 public:
  explicit RankThreads(std::uint32_t rank_count);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // `watch` is called now and then while Run waits for other ranks; see watched_wait.h.
  void SetWatch(std::function<void()> watch) { watch_ = std::move(watch); }

  // Calls task(rank) on the thread of every rank, all at the same time, and returns when the last one is done. Call it
  // from one thread at a time, and not within a task.
  void Run(const std::function<void(std::uint32_t rank)>& task);
  // The same; returns the error of the lowest rank that has one. A task that fails must not leave another one waiting
  // for it.
  [[nodiscard]] Result<void> TryRun(const std::function<Result<void>(std::uint32_t rank)>& task);

 private:
  void Serve(std::uint32_t rank);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  // Guarded by mutex_.
  const std::function<void(std::uint32_t)>* task_ = nullptr;  // null: the threads end
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;

  std::function<void()> watch_;
  std::vector<std::thread> threads_;  // of ranks 1, 2, …
};

}  // namespace roost::worker
