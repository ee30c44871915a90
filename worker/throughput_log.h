// A line in the log about what the worker does, every few seconds while it does something. It passes on what it
// observes.
//
// Threads: constructed anywhere, then called from the link thread alone.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/throughput.h"
#include "worker/link/link_thread.h"

namespace roost::worker {

class ThroughputLog final : public LinkObserver {
 public:
  // Both outlive it.
  ThroughputLog(LinkObserver& next, const Clock& clock) : next_(next), clock_(clock), since_(clock.Now()) {}

  void OnStep(const StepReport& report) override;
  // Logs a line when it is time.
  void OnRound(const LinkCounts& counts, Links links) override;

  // The numbers of the next line.
  [[nodiscard]] const Throughput& interval() const { return interval_; }

 private:
  void CountEnds(const LinkCounts& counts);

  LinkObserver& next_;
  const Clock& clock_;
  Instant since_;  // the last line, or the time of one that had nothing to tell
  Throughput interval_;
  // Totals at the last round.
  std::uint64_t ended_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace roost::worker
