#include "router/fleet/requests/block_losses.h"

#include <algorithm>

#include "router/fleet/evicted.h"

namespace roost::router {

void BlockLosses::OnGone(const Worker& worker, BlockLoss::Worker how) {
  gone_.push_back({worker.hello.process_id, worker.hello.worker_id, how});
  if (gone_.size() > kMostGone) gone_.pop_front();
}

void BlockLosses::OnEvict(const EvictOrder& order, Instant now) {
  erasures_.push_back({now, order});
  if (erasures_.size() > kMostErasures) erasures_.pop_front();
}

BlockLoss BlockLosses::Find(const Question& question, WorkerRegistry& registry) const {
  const std::uint64_t process = question.spec.comparison.process;
  if (process == 0) return {};
  const Worker* holder = question.chosen.hello.process_id == process ? &question.chosen : nullptr;
  if (holder == nullptr) {
    registry.ForEach([&](const Worker& each) {
      if (each.hello.process_id == process) holder = &each;
    });
  }
  if (holder == nullptr) return LossOfGone(process, registry);
  const auto blocks_at = [&](const Worker& worker) {
    const auto match = std::find_if(question.matches.begin(), question.matches.end(),
                                    [&](const WorkerMatch& each) { return each.worker == worker.slot; });
    return match == question.matches.end() ? 0 : match->block_count;
  };
  const bool is_closed = holder != &question.chosen && registry.FindAt(holder->slot) == nullptr;
  const bool holds_more = is_closed && blocks_at(*holder) > blocks_at(question.chosen);
  return {holds_more ? BlockLoss::Worker::kClosed : BlockLoss::Worker::kThere, LevelOf(question, *holder),
          holder->hello.worker_id};
}

BlockLoss BlockLosses::LossOfGone(std::uint64_t process, WorkerRegistry& registry) const {
  const auto found =
      std::find_if(gone_.rbegin(), gone_.rend(), [process](const Gone& each) { return each.process == process; });
  if (found == gone_.rend()) return {};
  const bool is_back = registry.Find(found->worker_id) != nullptr;
  return {.worker = is_back ? BlockLoss::Worker::kRestarted : found->how, .worker_id = found->worker_id};
}

BlockLoss::Level BlockLosses::LevelOf(const Question& question, const Worker& holder) const {
  const Instant computed = question.now - FromSeconds(question.spec.comparison.seconds_ago);
  const bool is_erased = std::any_of(erasures_.begin(), erasures_.end(), [&](const Erasure& each) {
    return each.at >= computed && IsNamed(each.order, question.spec);
  });
  if (is_erased) return BlockLoss::Level::kOperator;
  if (!holder.hello.engine.empty()) return BlockLoss::Level::kEngine;
  return holder.load.disk_bytes_per_second > 0 ? BlockLoss::Level::kDisk : BlockLoss::Level::kMemory;
}

}  // namespace roost::router
