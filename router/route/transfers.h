// The blocks that travel between workers, as a decision sees them: who can fetch from whom, what is on its way, and how
// long more would take.
//
//   hello          ──► Join: how blocks travel to and from the worker
//   load report    ──► Report: bytes on their way to it and from it, of all routers' Holds
//   Hold is sent   ──► Send: the bytes that no report can know yet
//   its answer     ──► End: rates (pair_rates.h), the size of a block, pauses
//
//   transfer  =  start + (bytes + queued) / rate        queued: out of the source or into the worker, the larger
//
// Both queues empty at the same time, and what travels from one to the other stands in both, so the longer one is the
// wait.
//
// A source need not take requests: cordoned, full and draining workers serve. How many bytes a block has is learned
// with the first that comes to any worker of the same layout; until then blocks count as empty, so that some come.
//
// Workers are named by their slots, which are free again after Leave. Not thread-safe, no clock. O(1) per call, except
// where it says otherwise.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "router/route/pair_rates.h"

namespace roost::router {

// The ways of blocks to and from a worker.
struct TransferPlace {
  bool fetches = false;        // it takes Holds
  bool serves = false;         // it has an address
  bool is_loopback = false;    // that only workers of the same host reach
  bool tells_bytes = false;    // its loads tell what is on its way
  std::uint64_t layout = 0;    // see wire::Transfer; 0: it neither fetches nor serves
  std::uint64_t numerics = 0;  // see wire::Transfer
  std::uint64_t host = 0;      // equal for workers of one host on one machine; 0: not told
};

// True if a worker may be told to fetch blocks from another one.
[[nodiscard]] bool CanFetch(const TransferPlace& to, const TransferPlace& from);

// The price of blocks that one worker fetches from another one.
struct TransferPrice {
  double seconds = 0;  // until the last one is there, behind what is queued
  double bytes = 0;
};

struct TransferOffer {
  TransferPrice price;
  bool is_paused = false;  // the pair, after a failure
};

class Transfers {
 public:
  // A report that comes this long after a Hold was sent includes it.
  static constexpr Duration kReportDelay = std::chrono::milliseconds(20);

  // ---- what the fleet tells ----

  void Join(WorkerSlot worker, const TransferPlace& place);
  // Forgets the worker, its pairs and what was on its way. O(pairs + Holds).
  void Leave(WorkerSlot worker);
  // O(Holds).
  void Report(WorkerSlot worker, const wire::Load& load, Instant now);

  // A Hold for so many blocks was sent; `id` is new.
  void Send(std::uint64_t id, WorkerPair ends, std::uint32_t block_count, Instant now);
  // Its answer; empty: there was none in time. Does nothing when `id` is unknown.
  void End(std::uint64_t id, const std::optional<wire::HoldAnswer>& answer, Instant now);
  // Nothing is known of its end, and none is awaited.
  void Drop(std::uint64_t id);

  // ---- what decisions ask ----

  // True if any worker can fetch from any other one, as far as a count of those that serve and fetch tells.
  [[nodiscard]] bool any() const { return serving_count_ > 1 || (serving_count_ == 1 && fetching_count_ > 1); }
  // True if others can fetch from it, if they are of its kind.
  [[nodiscard]] bool Serves(WorkerSlot worker) const {
    return worker.value() < workers_.size() && workers_[worker.value()] && workers_[worker.value()]->place.serves;
  }
  // Empty for a pair that can not fetch.
  [[nodiscard]] std::optional<TransferOffer> Offer(WorkerPair ends, std::uint32_t block_count, Instant now) const;
  // Bytes that wait at the source, by its report and this router's Holds since.
  [[nodiscard]] double QueuedOut(WorkerSlot from) const;
  [[nodiscard]] double QueuedIn(WorkerSlot to) const;

  [[nodiscard]] const PairRates& rates() const { return rates_; }
  // The pairs with Holds under way, and how many. O(Holds).
  [[nodiscard]] std::map<WorkerPair, std::uint32_t> InFlight() const;

 private:
  struct Worker {
    TransferPlace place;
    double block_bytes = 0;  // of a frame; 0: not known
    double reported_out = 0;
    double reported_in = 0;
    double sent_out = 0;  // by this router, in no report yet
    double sent_in = 0;

    [[nodiscard]] double queued_out() const { return reported_out + std::max(0.0, sent_out); }
    [[nodiscard]] double queued_in() const { return reported_in + std::max(0.0, sent_in); }
  };
  struct Open {
    WorkerPair ends;
    double bytes = 0;
    double queued_bytes = 0;  // before it
    Instant sent_at{};
    bool is_out_reported = false;
    bool is_in_reported = false;
  };
  using OpenHolds = std::map<std::uint64_t, Open>;

  [[nodiscard]] Worker* Find(WorkerSlot worker);
  [[nodiscard]] const Worker* Find(WorkerSlot worker) const;
  [[nodiscard]] double Queued(WorkerPair ends) const;
  void Cover(OpenHolds::iterator hold);
  void Observe(const Open& ended, const wire::HoldAnswer& answer, Instant now);
  void LearnBlockBytes(std::uint64_t layout, double bytes);
  void Count(const TransferPlace& place, int by);

  std::vector<std::optional<Worker>> workers_;  // by slot
  int serving_count_ = 0;
  int fetching_count_ = 0;
  OpenHolds open_;
  PairRates rates_;
};

}  // namespace roost::router
