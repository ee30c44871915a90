// Operators' orders and questions, from their acceptance to their answers: the one place that awaits them, ends them in
// time and gathers what workers reply.
//
//   Send ──► a part for each worker that is asked ──► done, with all parts
//              │ its answer has come: OnMessage, OnReport (a cordon), or the end of a copy (a warm-up)
//              │ the worker is lost, or the deadline passes: the part stays empty
//              └────────────────────────────────────► done
//
// Most orders are a message to each worker, and an answer from each that sends such. A warm-up is a copy at each
// worker, which fetches blocks from another one or computes: PrefixCopies. A cordon is a message to the worker, which
// keeps the state and tells all routers of it (schema/roost.capnp, Cordon): its report is the answer. Questions send no
// message: they ask the index and the policy, or the log of decisions.
//
// A new verb is an alternative of Order, a CarryOut in orders.cc, and an answer of workers with an answer_id.
//
// Not thread-safe. The constructor's arguments outlive it. No function calls `done`: it queues the call as an effect.
// Each is O(open orders · workers) at most; kMaxOpen and WorkerRegistry::kMaxWorkers bound both.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/requests/request_table.h"
#include "router/fleet/workers/worker_registry.h"

namespace roost::router {

// The blocks of an order, front to back.
[[nodiscard]] const std::vector<BlockHash>& HashesOf(const PinOrder& order);

// The blocks of the order's prompt in the index of its model. Any thread.
[[nodiscard]] std::vector<WorkerMatch> MatchesOf(const Order& order);

class Orders {
 public:
  static constexpr std::size_t kMaxOpen = 64;  // of those that await reports, and of all others
  // A worker answers at its next step, and reports a cordon at once: this is for a link that is lost meanwhile.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(2);
  // An eviction takes a step for some thousand blocks.
  static constexpr Duration kEvictPatience = std::chrono::seconds(30);

  // Ids of orders count up from `first_id`, which is random, so that a late answer to an earlier router process matches
  // none; no id is 0.
  Orders(std::uint64_t first_id, WorkerRegistry& registry, RequestTable& requests, EffectQueue& effects)
      : next_id_(first_id), worker_registry_(registry), requests_(requests), effects_(effects) {}

  // See Dispatcher; all but ModelAwaited. `matches` is MatchesOf(order). A refused order changes nothing.
  [[nodiscard]] Result<void> Send(Order order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done);
  // The result of a PromptQuery.
  [[nodiscard]] Result<PromptMatch> Match(const PromptQuery& query, std::span<const WorkerMatch> matches, Instant now);

  // False when the message is no answer. Ignores a second answer, one of a worker that was not asked, and one to an
  // order that has ended.
  bool OnMessage(const std::string& worker_id, wire::WorkerMessage& message);
  // The worker has reported, and what its report says is applied.
  void OnReport(const Worker& worker, Instant now);
  // The worker was removed from the registry: no reply from it is awaited any more.
  void OnWorkerLost(const std::string& worker_id);
  // Ends the orders whose time has passed.
  void Expire(Instant now);
  void EndAll();

 private:
  // One worker's part.
  struct Part {
    std::string worker_id;
    WorkerReply reply = {};  // what has come, or was known without asking
    bool is_awaited = true;
    std::shared_ptr<const ServedModel> model = {};  // see WorkerAnswer
  };
  struct Open {
    std::vector<Part> parts;
    Instant deadline;
    AnswersDone done;
    std::optional<CordonOrder> cordon = {};  // its part is a report that confirms it, by the deadline
    Instant idle_until = {};                 // until when a drain then waits for the worker's requests
  };
  using OpenOrders = std::map<std::uint64_t, Open>;
  // The way in which an order came.
  struct Arrival {
    std::span<const WorkerMatch> matches;
    Instant now;
    AnswersDone done;
  };

  template <typename One>  // one for each alternative of Order
  [[nodiscard]] Result<void> CarryOut(One& order, Arrival arrival);

  // kOverloaded while kMaxOpen of its kind are open.
  [[nodiscard]] Result<void> CheckRoom() const;
  [[nodiscard]] Result<void> CheckRoomForCordon() const;
  [[nodiscard]] std::size_t CordonCount() const;
  // The next order's id, which all its messages carry.
  [[nodiscard]] std::uint64_t NextId();
  // An order that awaits no worker ends at once.
  void Begin(std::uint64_t id, Open order);
  // Sends `message` to all of `workers`; awaits those that can answer.
  template <typename Message>
  void Ask(std::span<Worker* const> workers, Message message, Arrival arrival);

  // The workers of the order. kUnavailable when no worker serves the model, kInvalidArgument for the name of a worker
  // that does not serve it.
  [[nodiscard]] Result<std::vector<Worker*>> Chosen(const ServedModel& model, const WorkerChoice& choice,
                                                    std::span<const BlockHash> hashes,
                                                    std::span<const WorkerMatch> matches);
  // The workers of an order to evict, with the same errors.
  [[nodiscard]] Result<std::vector<Worker*>> ToEvictAt(const EvictOrder& order);
  // kInvalidArgument when the order names a worker to fetch from that has not joined with the model's blocks.
  [[nodiscard]] Result<void> CheckSource(const WarmOrder& order);
  // Lets an order for one block go to the revision that has it. kNotFound for a pin when none does.
  [[nodiscard]] Result<void> FindHolder(PinOrder& order);
  [[nodiscard]] Part EvictAt(const EvictOrder& order, Worker& worker, std::uint64_t id);
  [[nodiscard]] Part WarmAt(const WarmOrder& order, Worker& worker, std::uint32_t held_blocks, std::uint64_t id,
                            Instant now);

  void OnReply(std::uint64_t id, const std::string& worker_id, WorkerReply reply);
  // Ends the order if no reply is awaited; returns the next one.
  OpenOrders::iterator EndIfComplete(OpenOrders::iterator order);
  OpenOrders::iterator End(OpenOrders::iterator order);

  std::uint64_t next_id_;
  WorkerRegistry& worker_registry_;
  RequestTable& requests_;
  EffectQueue& effects_;
  OpenOrders open_;
};

}  // namespace roost::router
