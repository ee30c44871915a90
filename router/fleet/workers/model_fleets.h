// The workers that take requests, grouped by revision (revisions.h), in the form that decisions need. The registry
// updates it when workers join, report, are charged or leave.
//
// Not thread-safe. Remove must be called before a worker is destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "router/fleet/worker_mode.h"
#include "router/route/fleet_view.h"

namespace roost::router {

struct Worker;

// Hits there are whole blocks of so many tokens; 0: they end where its matches do.
[[nodiscard]] std::uint32_t EngineBlockTokens(const Worker& worker);

// So many tokens of each hit there are computed again; 0 where matches are cut to that already.
[[nodiscard]] std::uint32_t DroppedTokens(const Worker& worker);

// As operators are shown it. llama.cpp tells nothing of its slots: what its worker reports is what they should hold.
[[nodiscard]] WorkerMode ShownMode(const Worker& worker);

// The worker's last report, plus what this router has sent it since.
[[nodiscard]] WorkerView ViewOf(const Worker& worker);

class ModelFleets {
 public:
  // The worker takes requests: adds or updates its view. O(log workers).
  void Set(Worker& worker);
  // The worker takes no requests any more, or is gone.
  void Remove(const Worker& worker);

  // Null when no worker ever took requests of this revision.
  [[nodiscard]] const FleetView* Find(std::string_view revision) const;
  // The worker in this slot; null when there is none.
  [[nodiscard]] Worker* FindAt(WorkerSlot slot) const;
  // The same, for a slot that must have a worker.
  [[nodiscard]] Worker& At(WorkerSlot slot) const;

 private:
  std::map<std::string, FleetView, std::less<>> fleets_;  // by revision; an empty one is kept, for its number
  std::vector<Worker*> workers_;                          // by slot; null: none
};

}  // namespace roost::router
