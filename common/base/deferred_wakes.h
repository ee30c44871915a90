// Wake-ups of other threads, put off to the end of a scope, so that a thread that is given many things is woken once.
//
//   {
//     const DeferredWakes wakes;
//     …                            gives things to other threads, which call Add instead of waking
//   }                              each of them is woken, once
//
// Without a scope Add refuses, and the caller wakes at once. Scopes may nest: the outermost counts.
//
// Threads: a scope is its thread's own. It delays no other thread: one that wakes the same sleeper does so at once.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

namespace roost {

// Something that runs on a thread which may sleep.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // From any thread.
  virtual void Wake() = 0;
};

class DeferredWakes {
 public:
  DeferredWakes() {
    if (outermost == nullptr) outermost = this;
  }
  DeferredWakes(const DeferredWakes&) = delete;
  DeferredWakes& operator=(const DeferredWakes&) = delete;
  ~DeferredWakes() {
    if (outermost != this) return;
    outermost = nullptr;
    for (const std::shared_ptr<Sleeper>& sleeper : sleepers_) sleeper->Wake();
  }

  // False when this thread is in no scope.
  [[nodiscard]] static bool Add(const std::shared_ptr<Sleeper>& sleeper) {
    if (outermost == nullptr) return false;
    std::vector<std::shared_ptr<Sleeper>>& sleepers = outermost->sleepers_;
    if (std::find(sleepers.begin(), sleepers.end(), sleeper) == sleepers.end()) sleepers.push_back(sleeper);
    return true;
  }

 private:
  static inline thread_local DeferredWakes* outermost = nullptr;

  std::vector<std::shared_ptr<Sleeper>> sleepers_;
};

}  // namespace roost
