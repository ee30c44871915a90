// A router on virtual time: the daemon's FleetCore with its index, policy and ledger, without sockets, HTTP and
// threads. Its messages are sent at once.
//
// The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "deploy/roostctl/simulate/request_log.h"
#include "deploy/roostctl/simulate/timeline.h"
#include "deploy/roostctl/simulate/trace_text.h"
#include "router/fleet/core/fleet_core.h"

namespace roost::simulate {

class SimRouter {
 public:
  using Send = std::function<void(const std::string& worker_id, wire::RouterMessage message)>;

  SimRouter(std::unique_ptr<router::Policy> policy, const router::FleetCoreOptions& options, std::uint64_t seed,
            const TraceText& text, Timeline& timeline, RequestLog& log, Send send);

  // Submits request `number` of the trace. The log shows whether it was refused, now or later.
  void Submit(std::uint32_t number);
  void OnMessage(const std::string& worker_id, wire::WorkerMessage message);
  // Call it several times a second.
  void Tick();

  [[nodiscard]] std::size_t request_count() const { return core_.request_count(); }
  [[nodiscard]] std::size_t copy_count() const { return core_.copy_count(); }
  // Charges that are still open.
  [[nodiscard]] std::uint64_t charge_count();
  [[nodiscard]] const std::map<router::DecisionReason, std::uint64_t>& decisions() const { return metrics_.decisions; }

  static constexpr Duration kTickInterval = std::chrono::milliseconds(100);

 private:
  struct DecisionCounter final : router::FleetMetrics {
    void OnDecision(std::string_view /*policy*/, router::DecisionReason reason) override { ++decisions[reason]; }

    std::map<router::DecisionReason, std::uint64_t> decisions;
  };

  [[nodiscard]] router::GenerateSpec SpecOf(std::uint32_t number,
                                            std::shared_ptr<const router::ServedModel> model) const;
  void CarryOutAll();

  const TraceText& text_;
  Timeline& timeline_;
  RequestLog& log_;
  Send send_;
  const std::uint32_t max_output_tokens_;
  const std::unique_ptr<router::Policy> policy_;
  DecisionCounter metrics_;
  router::FleetCore core_;
};

// The names that MakePolicy knows.
[[nodiscard]] const std::vector<std::string>& RouterPolicyNames();

}  // namespace roost::simulate
