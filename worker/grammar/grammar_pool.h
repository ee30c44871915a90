// The worker's Constrainer: a few threads that compile, and a cache of the results.
//
//   Begin ── in the cache, little output so far ──► done at once
//     │
//     └────► queue ──► a thread: in the cache? else compile; accept the output so far ──► done, and `wake` is called
//                        │ being compiled by another thread already
//                        ├──► waits with that one
//                        │ long, and long ones have their threads
//                        └──► queue of long ones
//
// Long compilations (GrammarLibrary::LengthOf) leave one thread to the short ones. A job that is not done within the
// limit of the clock fails, and may be tried again: the threads run at low priority (nice 10), so a busy machine may
// take long for a good constraint. A bad one that took long to find out is remembered, and refused at once from then
// on.
//
// Threads: one thread, the engine's, calls Begin, Drop, HasDone and TakeDone. The pool calls `wake` from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "worker/grammar/constrainer.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {

// Compiled grammars by their source, within a limit in bytes: the least recently used one is removed first. A removed
// grammar lives on while a caller holds it. Not thread-safe. O(1).
class GrammarCache {
 public:
  explicit GrammarCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if there is none.
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> Find(std::string_view key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().grammar;
  }

  // A grammar larger than the limit is not kept.
  void Put(std::string key, std::shared_ptr<const CompiledGrammar> grammar) {
    const std::size_t bytes = grammar->bytes() + key.size();
    if (bytes > max_bytes_ || by_key_.contains(key)) return;
    entries_.push_front({std::move(key), std::move(grammar), bytes});
    by_key_.emplace(entries_.front().key, entries_.begin());
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
    std::size_t bytes = 0;
  };

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;                                                 // the most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;  // keys point into entries_
};

struct GrammarPoolOptions {
  std::uint32_t thread_count = 2;                     // one more if it is 1
  std::size_t cache_bytes = std::size_t{256} << 20U;  // no single grammar takes more than a quarter
  Duration wait_limit = std::chrono::seconds(30);     // of a job, from Begin on
};

class GrammarPool final : public Constrainer {
 public:
  // `clock` outlives it.
  GrammarPool(std::unique_ptr<const GrammarLibrary> library, GrammarPoolOptions options, const Clock& clock,
              std::function<void()> wake);
  // Ends long compilations, and waits for short ones that have begun.
  ~GrammarPool() override;
  GrammarPool(const GrammarPool&) = delete;
  GrammarPool& operator=(const GrammarPool&) = delete;

  void Begin(Job job) override;
  void Drop(std::uint64_t id) override;
  [[nodiscard]] bool HasDone() const override;
  [[nodiscard]] std::vector<Done> TakeDone() override;

 private:
  using Grammar = std::shared_ptr<const CompiledGrammar>;
  struct Task {
    Job job;
    std::string key;
    Instant deadline;
    CompileLength length = CompileLength::kShort;
  };

  void Run();
  // The next task for a thread; nothing if there is none that may begin now.
  [[nodiscard]] std::optional<Task> Next();
  [[nodiscard]] bool MayBeginLong() const { return long_count_ + 1 < threads_count_; }
  void Serve(Task task, std::unique_lock<std::mutex>& lock);
  void Compile(const Task& task, std::unique_lock<std::mutex>& lock);
  void Finish(std::uint64_t id, Result<std::unique_ptr<Automaton>> automaton);
  void EndLate(Instant now);
  // The answer to a remembered constraint, or null.
  [[nodiscard]] const Error* FindCostly(const std::string& key) const;
  [[nodiscard]] bool HasLate(Instant now) const;

  const std::unique_ptr<const GrammarLibrary> library_;
  const GrammarPoolOptions options_;
  const Clock& clock_;
  const std::function<void()> wake_;
  const std::size_t threads_count_;

  mutable std::mutex mutex_;
  std::condition_variable queued_;
  // Guarded by mutex_.
  bool stopping_ = false;
  GrammarCache cache_;
  std::deque<Task> queue_;
  std::deque<Task> long_queue_;
  std::size_t long_count_ = 0;                        // that are being compiled
  std::deque<std::pair<std::string, Error>> costly_;  // bad constraints that took long to compile, the latest last
  // The compilations under way, by key, with the tasks that wait for it.
  std::unordered_map<std::string, std::vector<Task>> compiling_;
  struct Wanted {
    Instant deadline;
    std::string key;
    std::string field;
  };
  std::unordered_map<std::uint64_t, Wanted> wanted_;  // jobs that are not done
  std::vector<Done> done_;

  std::vector<std::thread> threads_;
};

}  // namespace roost::worker
