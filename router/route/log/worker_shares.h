// The share of its model's last requests that each worker took since it came, and why it took few. Made from the
// decision log.
//
// A worker that takes less than half of an equal share has a reason: the terms of the cost by which it was, on average,
// further from the workers that were chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "router/route/log/decision_log.h"

namespace roost::router {

struct WorkerShare {
  std::uint32_t taken = 0;
  std::uint32_t decisions = 0;  // of its model, the last ones since it came
  std::string_view why = {};    // the reason for few, a literal; empty when it took enough, or too little is known
};

class WorkerShares {
 public:
  static constexpr std::uint32_t kDecisions = 50;     // of a model that count
  static constexpr std::uint32_t kMinDecisions = 10;  // below which nothing is said of a worker

  // O(decisions in the log · candidates).
  explicit WorkerShares(const DecisionLog& log);

  // `worker_count` workers of the model take requests. O(kDecisions).
  [[nodiscard]] WorkerShare Of(std::string_view model, std::string_view worker_id, std::size_t worker_count,
                               Instant came_at) const;

 private:
  // Sums for one worker. The differences are to the chosen candidate, in seconds of the cost, where another was chosen.
  struct Tally {
    std::vector<Instant> taken;
    std::uint32_t compared = 0;
    std::uint64_t matched_tokens = 0;
    double queue_seconds = 0;
    double prefill_seconds = 0;
    double answer_seconds = 0;

    [[nodiscard]] std::string_view Why(bool others_hold_some) const;
  };
  struct OfModel {
    std::vector<Instant> decisions;
    std::uint64_t matched_tokens = 0;  // of the chosen workers
    std::map<std::string, Tally, std::less<>> workers;
  };

  void Count(const DecisionRecord& record);

  std::map<std::string, OfModel, std::less<>> models_;
};

}  // namespace roost::router
