// Operators' orders that a worker shall get no new requests, or get them again.
//
//   Order ──► Cordon to the worker ──► its report says so ─┬─► done
//                 │ no such report in kAnswerPatience      └─► its requests have ended, or the order's patience is over
//                 │ or the worker is lost                        └─► done
//                 └─► done, without a reply
//
// The worker keeps the state and tells all routers of it (schema/roost.capnp, Cordon), so this class only waits.
//
// Not thread-safe. It calls no `done`: it queues the call as an effect. Each function is O(open orders) at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/roster.h"
#include "router/fleet/worker.h"
#include "router/fleet/worker_answer.h"

namespace roost::router {

class Cordons {
 public:
  static constexpr std::size_t kMaxOpen = 64;
  // Workers answer at once; this is for a link that is lost meanwhile.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(2);

  Cordons(Roster& roster, EffectQueue& effects) : roster_(roster), effects_(effects) {}

  // kNotFound: there is no such worker. kOverloaded while kMaxOpen are open.
  [[nodiscard]] Result<void> Order(const CordonOrder& order, Instant now, AnswersDone done);

  // The worker has reported, and what its report says is applied.
  void OnReport(const Worker& worker, Instant now);
  // The worker was removed from the roster.
  void OnWorkerLost(const std::string& worker_id);
  void Expire(Instant now);
  void EndAll();

 private:
  struct Open {
    CordonOrder order;
    Instant confirm_until;  // without the worker's report by then, there is no reply
    Instant wait_until;     // for its requests to end
    AnswersDone done;
  };

  // The reply to an order, if its time has come.
  [[nodiscard]] static bool IsOver(const Open& open, const Worker& worker, Instant now);
  void End(Open& open, WorkerReply reply);

  Roster& roster_;
  EffectQueue& effects_;
  std::vector<Open> open_;
};

}  // namespace roost::router
