// A whole cluster with one virtual clock: routers and workers in which only sockets, threads and the model are not
// real, over lines that fail. The same seed gives the same run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/sim/faulty_line.h"
#include "tests/sim/sim_router.h"
#include "tests/sim/sim_worker.h"

namespace roost::sim {

// Whether workers fetch blocks from each other.
enum class Blocks : std::uint8_t { kStay, kTravel };

class ClusterSim {
 public:
  explicit ClusterSim(std::uint64_t seed, Blocks blocks = Blocks::kStay);

  // Time passes in rounds of 5 to 25 ms. In each round a fault may happen: a line is cut for up to four seconds, either
  // side restarts, a report is lost, events are dropped. Clients come and go.
  void RunWithFaults(int rounds);
  // Runs without faults and with requests: for `time`, and until every router can use every worker.
  void Recover(Duration time);
  // Runs without new requests until all have ended by themselves.
  void Drain();
  // Lets time pass, nothing else.
  void Pass(Duration time);

  // Checks that every router's view of every worker equals what the worker holds, hash by hash.
  void CheckViews();
  // Checks that nothing is charged, pending or in flight; call it last.
  void CheckNothingIsLeft();
  // The ends of Holds at the workers that live, by outcome.
  [[nodiscard]] SimWorker::HoldEnds HoldEnds() const;

 private:
  static constexpr std::uint32_t kMaxNodes = 3;

  // Both directions between one router and one worker.
  struct Lines {
    FaultyLine<wire::RouterMessage> to_worker;
    FaultyLine<wire::WorkerMessage> to_router;
  };

  void StartRouter(std::uint32_t router);
  void SendBlocks(std::uint32_t from, const std::string& to, TransferMessage message);
  void BlocksAct();
  void StartWorker(std::uint32_t worker);
  void Misfortune();
  void ClientsAct();
  void Round();
  [[nodiscard]] bool AllAreReady() const;
  [[nodiscard]] bool AllHaveEnded() const;
  void Deliver(std::uint32_t router, std::uint32_t worker);
  [[nodiscard]] std::vector<TokenId> RandomPrompt();
  [[nodiscard]] std::uint32_t WorkerNumber(const std::string& id) const;

  Rng rng_;
  ManualClock clock_;
  Faults faults_;
  std::uint32_t forgotten_events_ = 0;  // steps in a thousand that lose their events
  const Blocks blocks_;
  const std::uint32_t router_count_;
  const std::uint32_t worker_count_;
  std::uint64_t next_epoch_ = 1;
  std::vector<bool> sends_cache_events_;  // by worker
  std::map<std::pair<std::uint32_t, std::uint32_t>, Lines> lines_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, FaultyLine<TransferMessage>> block_lines_;  // from, to
  Answers answers_;
  std::vector<std::unique_ptr<SimRouter>> routers_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  Instant next_tick_;
};

}  // namespace roost::sim
