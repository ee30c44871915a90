// The operators' commands on prefixes: pin them, evict them, list the most used ones, match a prompt without running
// it, and warm prompts that no request needs yet.
//
//   Pin, MostUsed   one message to each worker, one answer from each    Inquiries
//   Evict           the same, to all workers that know such orders
//   Warm            pieces of a copy at each worker                     PrefixCopies
//   Match           no message: asks the index and the policy
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/decider.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/inquiries.h"
#include "router/fleet/prefix_copies.h"
#include "router/fleet/roster.h"

namespace roost::router {

// The blocks of an order, front to back.
[[nodiscard]] const std::vector<BlockHash>& HashesOf(const PinOrder& order);

// The blocks of the order's prompt in the index of its model. Any thread.
[[nodiscard]] std::vector<WorkerMatch> MatchesOf(const Order& order);

class PrefixOrders {
 public:
  // A worker answers at its next step. After this time its answer is empty.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(2);
  // An eviction takes a step for some thousand blocks.
  static constexpr Duration kEvictPatience = std::chrono::seconds(30);

  // `first_id` is random, so that a late answer to an earlier router process matches no id.
  PrefixOrders(std::uint64_t first_id, Roster& roster, Decider& decider, PrefixCopies& copies, EffectQueue& effects)
      : roster_(roster), decider_(decider), copies_(copies), effects_(effects), inquiries_(first_id, effects) {}

  // See Dispatcher. `matches` is the result of PrefixIndex::Match for the prompt's blocks.
  [[nodiscard]] Result<void> Pin(PinOrder order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done);
  [[nodiscard]] Result<void> MostUsed(const PrefixesQuestion& question, Instant now, AnswersDone done);
  [[nodiscard]] Result<void> Warm(const WarmOrder& order, std::span<const WorkerMatch> matches, Instant now,
                                  AnswersDone done);
  [[nodiscard]] Result<PromptMatch> Match(const PromptQuery& query, std::span<const WorkerMatch> matches, Instant now);
  // Forgets what the workers' views have of it, too.
  [[nodiscard]] Result<void> Evict(const EvictOrder& order, Instant now, AnswersDone done);

  void OnAnswer(const std::string& worker_id, const wire::PinAnswer& answer);
  void OnAnswer(const std::string& worker_id, wire::Prefixes answer);
  void OnAnswer(const std::string& worker_id, const wire::EvictAnswer& answer);
  // The worker was removed from the roster.
  void OnWorkerLost(const std::string& worker_id) { inquiries_.OnWorkerLost(worker_id); }
  void Expire(Instant now) { inquiries_.Expire(now); }
  void EndAll() { inquiries_.EndAll(); }

 private:
  // The workers of the order. kUnavailable when no worker serves the model, kInvalidArgument for the name of a worker
  // that does not serve it.
  [[nodiscard]] Result<std::vector<Worker*>> Chosen(const ServedModel& model, const WorkerChoice& choice,
                                                    std::span<const BlockHash> hashes,
                                                    std::span<const WorkerMatch> matches);
  // Lets an order for one block go to the revision that has it. kNotFound for a pin when none does.
  [[nodiscard]] Result<void> FindHolder(PinOrder& order);
  // The workers of an order to evict, with the same errors.
  [[nodiscard]] Result<std::vector<Worker*>> ToEvictAt(const EvictOrder& order);
  [[nodiscard]] Inquiries::Asked EvictAt(const EvictOrder& order, Worker& worker, std::uint64_t inquiry);
  // Sends `message` to all of `workers` that can answer; `done` gets the answers.
  template <typename Message>
  void Ask(std::span<Worker* const> workers, Message message, Instant now, AnswersDone&& done);
  [[nodiscard]] Inquiries::Asked WarmOne(const WarmOrder& order, Worker& worker, std::uint32_t held_blocks,
                                         std::uint64_t inquiry, Instant now);

  Roster& roster_;
  Decider& decider_;
  PrefixCopies& copies_;
  EffectQueue& effects_;
  Inquiries inquiries_;
};

}  // namespace roost::router
