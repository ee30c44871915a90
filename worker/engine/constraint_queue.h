// Requests under a constraint that wait for their automata. They are no sequences yet: nothing is scheduled for them.
//
//   Push ─▶ [by job] ─ TakeReady: the automaton is there, or there is none
//              └────── DropWhere: cancelled, late, or the link is gone
//
// Not thread-safe. The constrainer outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/engine_api/exchange.h"
#include "worker/grammar/constrainer.h"

namespace roost::worker {

struct ConstrainedSubmit {
  RequestKey key;
  wire::Generate generate;
  Instant received;

  [[nodiscard]] bool IsLate(Instant now) const {
    return generate.deadline_ms > 0 && generate.deadline_ms <= wire::kMaxKeepMs &&
           received + std::chrono::milliseconds(generate.deadline_ms) <= now;
  }
};

class ConstraintQueue {
 public:
  // Without `constrainer` it refuses all; at most `limit` wait.
  ConstraintQueue(Constrainer* constrainer, std::size_t limit) : constrainer_(constrainer), limit_(limit) {}

  [[nodiscard]] Result<void> Push(ConstrainedSubmit submit);

  struct Ready {
    ConstrainedSubmit submit;
    Result<std::unique_ptr<Automaton>> automaton;
  };
  [[nodiscard]] std::vector<Ready> TakeReady();
  // True if one is ready or late.
  [[nodiscard]] bool IsDue(Instant now) const;

  // Drops those for which `which(submit)` is true, and returns them.
  template <typename Which>
  std::vector<ConstrainedSubmit> DropWhere(const Which& which) {
    std::vector<ConstrainedSubmit> dropped;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (!which(std::as_const(each->second))) {
        ++each;
        continue;
      }
      constrainer_->Drop(each->first);
      dropped.push_back(std::move(each->second));
      each = waiting_.erase(each);
    }
    return dropped;
  }

  // Those whose requests `which` names leave nothing in the cache.
  template <typename Which>
  void KeepOutWhere(const Which& which) {
    for (auto& [job, submit] : waiting_) {
      if (which(std::as_const(submit.generate))) submit.generate.cache_mode = wire::CacheMode::kOff;
    }
  }

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] bool Contains(RequestKey key) const;
  // True if a request has this block at this place of its prompt.
  [[nodiscard]] bool Wants(BlockHash block, std::uint32_t position) const;

 private:
  Constrainer* const constrainer_;
  const std::size_t limit_;
  std::map<std::uint64_t, ConstrainedSubmit> waiting_;  // by job
  std::uint64_t last_job_ = 0;
};

}  // namespace roost::worker
