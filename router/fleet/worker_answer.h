// The answers to an operator's question or order: each is about one worker, and most come from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/messages.h"
#include "router/fleet/fleet_reasons.h"
#include "router/fleet/worker_mode.h"
#include "router/route/decision_log.h"
#include "router/route/policy.h"

namespace roost::router {

// Blocks that a worker fetched from another one.
struct Pull {
  std::string source;  // the other worker
  PullOutcome outcome = {};
  std::uint32_t block_count = 0;  // that arrived
  std::uint64_t bytes = 0;
  double seconds = 0;

  bool operator==(const Pull&) const = default;
};

// The result of warming a prompt at one worker.
struct WarmOutcome {
  enum class Kind : std::uint8_t {
    kComputed,  // all of it is there now: some of it was computed
    kPulled,    // all of it is there now: what was missing came from another worker
    kHeld,      // all of it was there already, as the index says
    kRefused,   // the worker computed none or only a part of it: see `reason`
  };
  Kind kind = Kind::kHeld;
  std::uint32_t block_count = 0;      // the prompt's leading blocks that the worker has now
  std::uint64_t computed_tokens = 0;  // for this order
  std::optional<Pull> pull = {};      // before it computed; empty: it was not told to fetch
  std::string reason = {};

  bool operator==(const WarmOutcome&) const = default;
};

// Whether a worker takes requests, and what it still has to do, as its reports say.
struct ServiceState {
  bool is_cordoned = false;
  std::uint32_t running_requests = 0;  // of all routers
  std::uint32_t waiting_requests = 0;
  std::uint32_t in_flight_requests = 0;  // of this router

  [[nodiscard]] bool IsIdle() const { return running_requests + waiting_requests + in_flight_requests == 0; }

  bool operator==(const ServiceState&) const = default;
};

// The worker was not asked: its version does not know such orders.
struct NotSupported {
  bool operator==(const NotSupported&) const = default;
};

// The number of a prompt's blocks, front to back, that one worker has.
struct PromptHolder {
  std::string worker_id;
  WorkerMode mode = WorkerMode::kExact;   // the source of the numbers
  std::uint32_t held_block_count = 0;     // blocks in its cache
  std::uint32_t pending_block_count = 0;  // blocks after these, which it is computing now
};

struct PromptChoice {
  std::string worker_id;  // the worker that the request would go to now
  std::string policy;
  DecisionReason reason = DecisionReason::kOnlyWorker;
  std::uint32_t cached_tokens = 0;
  std::optional<double> ttft_seconds;  // empty while no worker's speed is known
};

// Empty: the worker does not answer such messages, was lost, or took too long.
using WorkerReply = std::variant<std::monostate, wire::PinAnswer, wire::Prefixes, WarmOutcome, wire::EvictAnswer,
                                 ServiceState, NotSupported, PromptHolder, PromptChoice, DecisionRecord>;

struct ServedModel;

struct WorkerAnswer {
  std::string worker_id;
  WorkerReply reply = {};
  std::shared_ptr<const ServedModel> model = {};  // of a PrefixesQuestion: which of its models the worker serves
};

// The caches as a request with a prompt would find them.
struct PromptMatch {
  std::vector<PromptHolder> holders;   // all workers that serve the model, those with most blocks first
  std::optional<PromptChoice> choice;  // empty when none of them takes requests now
};

// As answers: one for each holder, then the choice, if there is one.
[[nodiscard]] inline std::vector<WorkerAnswer> AnswersOf(const PromptMatch& match) {
  std::vector<WorkerAnswer> answers;
  for (const PromptHolder& holder : match.holders) answers.push_back({holder.worker_id, holder});
  if (match.choice) answers.push_back({match.choice->worker_id, *match.choice});
  return answers;
}

[[nodiscard]] inline PromptMatch MatchOf(std::span<const WorkerAnswer> answers) {
  PromptMatch match;
  for (const WorkerAnswer& answer : answers) {
    if (const auto* const holder = std::get_if<PromptHolder>(&answer.reply)) match.holders.push_back(*holder);
    if (const auto* const choice = std::get_if<PromptChoice>(&answer.reply)) match.choice = *choice;
  }
  return match;
}

// Called once on the link thread, with one answer for each worker that was asked, in the same order; Order says what
// else there is. It must not block.
using AnswersDone = std::function<void(std::vector<WorkerAnswer>)>;

}  // namespace roost::router
