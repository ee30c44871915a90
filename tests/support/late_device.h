// Devices that compute as late as they may, in any order: each stream is a queue, and nothing runs before a
// thread waits for it. Then whatever may run next is drawn among the heads of all queues of all devices, until that is
// done. So what only happens to come first does not here.
//
//   device 0   ops      │ upload │ kernel │ meet 7 │ kernel │ readback ●     a collective op meets when it is the head
//   of
//              in       │ copy: poison │ copy: bytes │ mark ●                the ops of all its ranks
//   device 1   ops      │ upload │ kernel │ meet 7 │ …
//
// Thread-safe; one for the process.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::testing_support {

// Faults of a device, or of the code that drives it, that a test plants.
enum class LateFault : std::uint8_t {
  kNone,
  kOnlyTheFirstRankIsAwaited,
  kOpsDoNotWaitForGathers,
  kCopiesAreNotAwaited,
  kScattersComeLast,
  kNeighboursHeadsAreTaken,
};

class LateStreams {
 public:
  // Ranks that compute together.
  struct Group {
    std::size_t rank_count = 0;
  };

  struct Stream;

  struct Entry {
    std::deque<std::function<void()>> parts;  // one after the other; other streams go on in between
    const Stream* awaited = nullptr;          // runs when this stream has done so much
    std::uint64_t awaited_count = 0;
    std::shared_ptr<Group> group = nullptr;  // runs with the heads of the group's other ranks
  };

  struct Stream {
    std::deque<Entry> entries;
    std::uint64_t queued_count = 0;
    std::uint64_t done_count = 0;
  };

  static LateStreams& All() {
    static LateStreams all;
    return all;
  }

  void Reset(std::uint64_t seed, LateFault fault = LateFault::kNone) {
    const std::lock_guard lock(mutex_);
    ROOST_CHECK(streams_.empty(), "{} streams are left", streams_.size());
    closed_.clear();
    rng_ = Rng(seed);
    fault_ = fault;
  }
  // While streams are open.
  void ResetOrder(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    rng_ = Rng(seed);
  }
  [[nodiscard]] bool Has(LateFault fault) {
    const std::lock_guard lock(mutex_);
    return fault_ == fault;
  }

  Stream* Open() {
    const std::lock_guard lock(mutex_);
    return streams_.emplace_back(std::make_unique<Stream>()).get();
  }
  void Close(Stream* stream) {
    Await(stream, Mark(stream));
    const std::lock_guard lock(mutex_);
    const auto is_it = [stream](const auto& each) { return each.get() == stream; };
    closed_.splice(closed_.end(), streams_, std::find_if(streams_.begin(), streams_.end(), is_it));
  }

  void Add(Stream* stream, Entry entry) {
    {
      const std::lock_guard lock(mutex_);
      stream->entries.push_back(std::move(entry));
      ++stream->queued_count;
    }
    added_.notify_all();
  }
  void Add(Stream* stream, std::function<void()> work) {
    Entry entry;
    entry.parts.push_back(std::move(work));
    Add(stream, std::move(entry));
  }
  // All that the stream was given so far, as an event behind it.
  [[nodiscard]] std::uint64_t Mark(const Stream* stream) {
    const std::lock_guard lock(mutex_);
    return stream->queued_count;
  }
  // The stream waits for the other one's mark.
  void AddWait(Stream* stream, const Stream* other, std::uint64_t mark) {
    Add(stream, {.parts = {}, .awaited = other, .awaited_count = mark});
  }
  // The caller waits. It runs what others wait for, too.
  void Await(const Stream* stream, std::uint64_t mark) {
    std::unique_lock lock(mutex_);
    while (stream->done_count < mark) {
      if (!RunOne()) added_.wait(lock);
    }
    added_.notify_all();
  }
  // Runs all that may run.
  void RunAll() {
    {
      const std::lock_guard lock(mutex_);
      while (RunOne()) {
      }
    }
    added_.notify_all();
  }
  // Work that no thread has waited for.
  [[nodiscard]] std::size_t pending_count() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& stream : streams_) count += stream->entries.size();
    return count;
  }

 private:
  [[nodiscard]] bool MayRun(const Stream& stream) const {
    if (stream.entries.empty()) return false;
    const Entry& head = stream.entries.front();
    if (head.awaited != nullptr) return head.awaited->done_count >= head.awaited_count;
    return head.group == nullptr || RanksAt(head.group).size() == head.group->rank_count;
  }
  [[nodiscard]] std::vector<Stream*> RanksAt(const std::shared_ptr<Group>& group) const {
    std::vector<Stream*> ranks;
    for (const auto& stream : streams_) {
      if (!stream->entries.empty() && stream->entries.front().group == group) ranks.push_back(stream.get());
    }
    return ranks;
  }

  // Runs a part of a head that is drawn. False when none may run.
  bool RunOne() {
    std::vector<Stream*> ready;
    for (const auto& stream : streams_) {
      if (MayRun(*stream)) ready.push_back(stream.get());
    }
    if (ready.empty()) return false;
    Stream& stream = *ready[rng_.Below(ready.size())];
    Entry& head = stream.entries.front();
    if (head.group != nullptr) {
      Meet(RanksAt(head.group));
      return true;
    }
    if (!head.parts.empty()) {
      head.parts.front()();
      head.parts.pop_front();
    }
    if (head.parts.empty()) Pop(stream);
    return true;
  }
  // Every rank has the same parts: first all bring what they have, then all take what came of it.
  static void Meet(const std::vector<Stream*>& ranks) {
    const std::size_t part_count = ranks.front()->entries.front().parts.size();
    for (std::size_t part = 0; part < part_count; ++part) {
      for (Stream* const rank : ranks) rank->entries.front().parts[part]();
    }
    for (Stream* const rank : ranks) Pop(*rank);
  }
  static void Pop(Stream& stream) {
    stream.entries.pop_front();
    ++stream.done_count;
  }

  std::mutex mutex_;
  std::condition_variable added_;
  // Guarded by mutex_.
  std::list<std::unique_ptr<Stream>> streams_;
  std::list<std::unique_ptr<Stream>> closed_;  // others may still wait for their marks
  Rng rng_{0};
  LateFault fault_ = LateFault::kNone;
};

}  // namespace roost::testing_support
