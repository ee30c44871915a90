// Remembers which workers are gone and what operators erased, to tell the fate of blocks that were computed earlier.
//
//   process of the worker that computed them ─► it is there? no: restarted, left or lost
//                                               yes: it takes no requests, or has evicted them, by which level
//
// Not thread-safe. Bounded: the last kMostGone workers and kMostErasures orders; older ones are not known. Find takes
// O(workers) for a worker other than the chosen one, and O(erasures · the prompt's blocks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/prefix/worker_match.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/route/block_loss.h"

namespace roost::router {

class BlockLosses {
 public:
  static constexpr std::size_t kMostGone = 256;
  static constexpr std::size_t kMostErasures = 16;

  // The worker leaves the registry: kLeft or kLost.
  void OnGone(const Worker& worker, BlockLoss::Worker how);
  void OnEvict(const EvictOrder& order, Instant now);

  struct Question {
    const GenerateSpec& spec;
    const Worker& chosen;                  // where it goes
    std::span<const WorkerMatch> matches;  // of its prompt
    Instant now;
  };
  // The fate of the blocks of the request before this one.
  [[nodiscard]] BlockLoss Find(const Question& question, WorkerRegistry& registry) const;

 private:
  struct Gone {
    std::uint64_t process = 0;
    std::string worker_id;
    BlockLoss::Worker how = BlockLoss::Worker::kLost;
  };
  struct Erasure {
    Instant at;
    EvictOrder order;
  };

  [[nodiscard]] BlockLoss LossOfGone(std::uint64_t process, WorkerRegistry& registry) const;
  [[nodiscard]] BlockLoss::Level LevelOf(const Question& question, const Worker& holder) const;

  std::deque<Gone> gone_;         // the latest last
  std::deque<Erasure> erasures_;  // the latest last
};

}  // namespace roost::router
