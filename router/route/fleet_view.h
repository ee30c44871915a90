// The workers of one model that may take requests, in the form that decisions need: each worker's last report plus this
// router's charges. It is updated worker by worker, so that a decision need not look at all of them.
//
//   workers_        dense, in no particular order     for policies that compare all workers
//   place_by_slot_  slot → place in workers_          to find a holder that the index names
//   order_          by (load, last_sent, slot)        to find the least loaded; of equals, the least recently used
//
// A worker's load (LoadTokens) is computed when the worker is set. For a worker without known rates it uses the fleet's
// mean at that moment, until the worker's next report. Costs are always computed from the current view.
//
// Not thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "router/route/cost.h"
#include "router/route/worker_view.h"

namespace roost::router {

class FleetView {
 public:
  // `number` distinguishes the fleets of different models, for policies that keep turns for each.
  explicit FleetView(std::uint32_t number = 0) : number_(number) {}

  // Adds the worker of this slot, or replaces its view. O(log n).
  void Set(const WorkerView& worker);
  // O(log n). Does nothing if the slot is empty.
  void Remove(WorkerSlot slot);

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::size_t size() const { return workers_.size(); }

  // Valid until the next change. O(1).
  [[nodiscard]] std::span<const WorkerView> workers() const { return workers_; }
  [[nodiscard]] const WorkerView* Find(WorkerSlot slot) const;

  // The worker in the next higher slot. After the highest slot, or if `slot` is empty, the worker in the lowest slot.
  // Null when there are no workers. O(1) when slots are dense.
  [[nodiscard]] const WorkerView* NextAfter(std::optional<WorkerSlot> slot) const;

  // Calls visit(const WorkerView&) from the least loaded on, until it returns false. O(1) per call.
  template <typename Visit>
  void VisitLeastLoaded(Visit visit) const {
    for (const Place& place : order_) {
      if (!visit(*Find(place.slot))) return;
    }
  }

  [[nodiscard]] FleetSpeed speed() const;
  // True if some workers are for prompts alone, and others take their answers.
  [[nodiscard]] bool has_roles() const { return prefill_count_ > 0 && prefill_count_ < workers_.size(); }
  // True if blocks come from the disk of some worker.
  [[nodiscard]] bool has_disks() const { return disk_count_ > 0; }

 private:
  struct Place {
    double load_tokens = 0;
    std::uint64_t last_sent = 0;
    WorkerSlot slot;

    auto operator<=>(const Place&) const = default;
  };
  // The mean over the workers for which the value is known (not 0).
  struct KnownSum {
    double sum = 0;
    std::size_t count = 0;

    void Add(double value) {
      if (value <= 0) return;
      sum += value;
      ++count;
    }
    void Take(double value) {
      if (value <= 0) return;
      sum = --count == 0 ? 0 : sum - value;  // with no values left, the rest is a rounding error
    }
    [[nodiscard]] double Mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  // Sums over the workers.
  struct Sums {
    KnownSum prefill_tokens_per_second;
    KnownSum decode_step_seconds;
    KnownSum decode_slowness;
    double busy_share = 0;
  };

  [[nodiscard]] std::optional<std::size_t> PlaceOf(WorkerSlot slot) const;
  void AddToSums(const WorkerView& worker);
  void TakeFromSums(const WorkerView& worker);

  const std::uint32_t number_;
  std::vector<WorkerView> workers_;
  std::vector<double> loads_;  // of workers_, the same values as in order_
  std::vector<std::optional<std::size_t>> place_by_slot_;
  std::set<Place> order_;
  Sums sums_;
  std::size_t prefill_count_ = 0;  // workers for prompts
  std::size_t disk_count_ = 0;     // workers with a disk
};

}  // namespace roost::router
