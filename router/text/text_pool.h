// A few threads that process the text of requests, in fair turns.
//
//   waiting     small   S ─ S ─ S       jobs in the order of their finish tags
//               large   L ─ L           more than kLargeBytes: never on all threads at once
//   threads     [S] [L] [S]
//
// Turns follow self-clocked fair queueing (Golestani, A Self-Clocked Fair Queueing Scheme for Broadband Applications,
// INFOCOM 1994). A job's tag is its size in bytes plus the tag of the job that had begun last when it came; the lowest
// tag goes next. A connection has one job at a time, so all waiting connections get equal shares of the bytes: a short
// request overtakes a long one that came shortly before it, and a long one runs once others have had as many bytes. A
// running job is not interrupted. Large jobs never take all threads, so a small job never waits for the end of a large
// one.
//
// Threads: TryPost from any; Stop and the destructor from one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "router/text/text_work.h"

namespace roost::router {

struct TextPoolOptions {
  std::uint32_t thread_count = 2;  // with one, small jobs wait for large ones
  std::size_t max_jobs = 10'000;   // waiting jobs, at most
};

class TextPool final : public TextWork {
 public:
  static constexpr std::size_t kLargeBytes = 256 * 1024;
  // Added to each job's bytes, so that empty jobs take turns too.
  static constexpr std::size_t kJobBytes = 1024;

  explicit TextPool(const TextPoolOptions& options);
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;
  ~TextPool() override;

  [[nodiscard]] bool TryPost(std::size_t bytes, std::function<void()> job) override;

  // Drops the waiting jobs, and returns when no job runs. From then on no job is accepted. A second call does nothing.
  void Stop();

 private:
  using Jobs = std::multimap<std::uint64_t, std::function<void()>>;  // by finish tag; equal ones in order of arrival

  void Run();
  // The list whose first job is next; null when this thread may begin none. Needs mutex_.
  [[nodiscard]] Jobs* NextJobs();

  const std::size_t max_jobs_;
  const std::size_t max_large_running_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Jobs small_;  // guarded by mutex_, as all below
  Jobs large_;
  std::uint64_t begun_tag_ = 0;  // of the job that began last
  std::size_t large_running_ = 0;
  bool stopped_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace roost::router
