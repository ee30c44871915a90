// The times when requests arrive: the trace's times, stretched to a load. In a trace that is paced turn by turn, a
// session's next turn also waits for the answer to the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/simulate/service_model.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::simulate {

// Scales all arrival times to a load. At the load `utilisation` the fleet is busy for that share of the trace's span,
// if its workers shared one cache that never evicts and their batches were full:
//
//   utilisation = Σ requests (prompt + answer) / (speed · span)
//
//   prompt   its tokens that are not in such a cache
//   answer   its tokens, each with its share of a step of full_batch requests; nothing where decodes are separate
//
// A step's fixed time counts for its decodes. Turns that wait for answers can make the span longer, and so the load
// lower.
struct FleetSize {
  double speed = 1;  // of all workers together
  std::uint32_t full_batch = 1;
};
void ScaleToUtilisation(workload::Trace& trace, double utilisation, const ServiceModel& service,
                        const FleetSize& fleet);

// Scales all arrival times to this many requests per second over the trace's span.
void ScaleToRate(workload::Trace& trace, double requests_per_second);

class Arrivals {
 public:
  // Calls `arrive` for each request of the trace when its time, divided by `speed`, comes. All arguments outlive the
  // run.
  Arrivals(const workload::Trace& trace, double speed, Timeline& timeline,
           std::function<void(std::uint32_t number)> arrive);

  // `start` is the trace's time 0.
  void Begin(Instant start);
  // The request's answer is complete, or will never be.
  void OnEnd(std::uint32_t number);

 private:
  void Plan(std::uint32_t number, Instant when);

  const workload::Trace& trace_;
  const double speed_;
  Timeline& timeline_;
  std::function<void(std::uint32_t number)> arrive_;
  std::vector<std::optional<std::uint32_t>> next_turns_;  // by request
  std::vector<bool> waits_;                               // by request: does it wait for the answer to the turn before?
  std::vector<Instant> arrivals_;
};

}  // namespace roost::simulate
