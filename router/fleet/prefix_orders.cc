#include "router/fleet/prefix_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/wire/codec.h"
#include "router/fleet/evicted.h"
#include "router/fleet/request_book.h"

namespace roost::router {

namespace {

const WorkerMatch* FindMatch(std::span<const WorkerMatch> matches, WorkerSlot slot) {
  const auto found =
      std::find_if(matches.begin(), matches.end(), [slot](const WorkerMatch& match) { return match.worker == slot; });
  return found == matches.end() ? nullptr : &*found;
}

PromptHolder HolderOf(const Worker& worker, std::span<const WorkerMatch> matches) {
  PromptHolder holder{.worker_id = worker.hello.worker_id, .mode = worker.view.mode()};
  if (const WorkerMatch* const match = FindMatch(matches, worker.slot)) {
    holder.held_block_count = match->block_count - match->pending_block_count;
    holder.pending_block_count = match->pending_block_count;
  }
  return holder;
}

bool HoldsMore(const PromptHolder& a, const PromptHolder& b) {
  const auto key = [](const PromptHolder& holder) {
    return std::make_pair(holder.held_block_count + holder.pending_block_count, holder.held_block_count);
  };
  return key(a) > key(b);
}

WarmOutcome OutcomeOf(const CopyEnd& end) {
  WarmOutcome outcome{.kind = WarmOutcome::Kind::kComputed,
                      .block_count = end.done_block_count,
                      .computed_tokens = end.computed_tokens};
  if (end.error.has_value()) {
    outcome.kind = WarmOutcome::Kind::kRefused;
    outcome.reason = end.error->message;
  }
  return outcome;
}

}  // namespace

const std::vector<BlockHash>& HashesOf(const PinOrder& order) {
  return std::visit([](const auto& message) -> const std::vector<BlockHash>& { return message.hashes; }, order.message);
}

Result<std::vector<Worker*>> PrefixOrders::Chosen(const ServedModel& model, const WorkerChoice& choice,
                                                  std::span<const BlockHash> hashes,
                                                  std::span<const WorkerMatch> matches) {
  std::vector<Worker*> workers = roster_.Serving(model);
  if (workers.empty()) return NobodyServes(model);
  if (choice.target == PinTarget::kBestWorker) {
    Worker* const best = decider_.BestFor(model, hashes, matches);
    if (best != nullptr) workers = {best};
  } else if (choice.target == PinTarget::kNamedWorkers) {
    std::vector<Worker*> named;
    for (const std::string& name : choice.names) {
      const auto found = std::find_if(workers.begin(), workers.end(),
                                      [&name](const Worker* worker) { return worker->hello.worker_id == name; });
      if (found == workers.end()) return InvalidArgument("workers", "'{}' does not serve {} now", name, model.name);
      named.push_back(*found);
    }
    workers = std::move(named);
  }
  return workers;
}

template <typename Message>
void PrefixOrders::Ask(std::span<Worker* const> workers, Message message, Instant now, AnswersDone&& done) {
  message.answer_id = inquiries_.NextId();
  std::vector<Inquiries::Asked> asked;
  for (const Worker* worker : workers) {
    asked.push_back(
        {.worker_id = worker->hello.worker_id, .is_awaited = worker->hello.features.contains(wire::Feature::kAnswers)});
    effects_.Send(worker->identity, message);
  }
  inquiries_.Begin(message.answer_id, std::move(asked), now + kAnswerPatience, std::move(done));
}

Result<void> PrefixOrders::Pin(PinOrder order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done) {
  ROOST_RETURN_IF_ERROR(inquiries_.CheckRoom());
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers,
                         Chosen(*order.model, order.workers, HashesOf(order), matches));
  std::visit([&](auto& message) { Ask(workers, std::move(message), now, std::move(done)); }, order.message);
  return {};
}

Result<void> PrefixOrders::MostUsed(const PrefixesQuestion& question, Instant now, AnswersDone done) {
  ROOST_RETURN_IF_ERROR(inquiries_.CheckRoom());
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers, Chosen(*question.model, {}, {}, {}));
  Ask(workers, wire::WantPrefixes{.most = question.most, .tokens = question.tokens}, now, std::move(done));
  return {};
}

Result<void> PrefixOrders::Warm(const WarmOrder& order, std::span<const WorkerMatch> matches, Instant now,
                                AnswersDone done) {
  const GenerateSpec& spec = order.spec;
  if (spec.block_hashes.empty()) return InvalidArgument("prompt", "is shorter than a block");
  if (spec.prompt.size() > wire::WireLimits::kMaxPromptTokens) {
    return InvalidArgument("prompt", "has {} tokens, more than {}", spec.prompt.size(),
                           wire::WireLimits::kMaxPromptTokens);
  }
  ROOST_RETURN_IF_ERROR(inquiries_.CheckRoom());
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers,
                         Chosen(*spec.model, order.workers, spec.block_hashes, matches));
  const std::uint64_t id = inquiries_.NextId();
  std::vector<Inquiries::Asked> asked;
  for (Worker* worker : workers) {
    const WorkerMatch* const match = FindMatch(matches, worker->slot);
    asked.push_back(WarmOne(order, *worker, match == nullptr ? 0 : match->block_count, id, now));
  }
  inquiries_.Begin(id, std::move(asked), order.deadline, std::move(done));
  return {};
}

Inquiries::Asked PrefixOrders::WarmOne(const WarmOrder& order, Worker& worker, std::uint32_t held_blocks,
                                       std::uint64_t inquiry, Instant now) {
  Inquiries::Asked asked{.worker_id = worker.hello.worker_id, .is_awaited = false};
  const auto all = static_cast<std::uint32_t>(order.spec.block_hashes.size());
  if (held_blocks == all) {
    asked.known = WarmOutcome{.kind = WarmOutcome::Kind::kHeld, .block_count = all};
    return asked;
  }
  const auto on_end = [this, inquiry, name = worker.hello.worker_id](const CopyEnd& end) {
    inquiries_.OnReply(inquiry, name, OutcomeOf(end));
  };
  asked.is_awaited = copies_.Start(
      order.spec, {.worker = worker.slot, .held_block_count = held_blocks, .block_count = all}, now, on_end);
  if (!asked.is_awaited) {
    asked.known = WarmOutcome{.kind = WarmOutcome::Kind::kRefused,
                              .block_count = held_blocks,
                              .reason = "the worker takes no requests now, or it is already computing another prefix"};
  }
  return asked;
}

Result<PromptMatch> PrefixOrders::Match(const PromptQuery& query, std::span<const WorkerMatch> matches, Instant now) {
  const std::vector<Worker*> workers = roster_.Serving(*query.model);
  if (workers.empty()) return NobodyServes(*query.model);
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  roster_.pending().Deepen(query.block_hashes, now, depths);
  PromptMatch match;
  for (const Worker* worker : workers) match.holders.push_back(HolderOf(*worker, depths));
  std::stable_sort(match.holders.begin(), match.holders.end(), &HoldsMore);
  const std::optional<Decision> decision =
      decider_.Ask(*query.model, query.prompt_token_count, query.block_hashes, depths);
  if (!decision.has_value()) return match;
  match.choice = {
      .worker_id = roster_.At(decision->slot).hello.worker_id,
      .policy = std::string(decider_.policy_name()),
      .reason = decision->reason,
      .cached_tokens = decision->matched_tokens,
      .ttft_seconds = decision->in_seconds ? std::optional(decision->predicted_ttft_seconds) : std::nullopt};
  return match;
}

Result<std::vector<Worker*>> PrefixOrders::ToEvictAt(const EvictOrder& order) {
  const std::string_view served = order.model.empty() ? "a model" : std::string_view(order.model);
  std::vector<Worker*> workers;
  roster_.ForEach([&](Worker& worker) {
    const bool serves = worker.hello.model == order.model || worker.adapters.contains(order.model);
    if (order.model.empty() || serves) workers.push_back(&worker);
  });
  if (workers.empty()) return Error{ErrorCode::kUnavailable, fmt::format("no worker serves {} now", served), ""};
  if (order.workers.target != PinTarget::kNamedWorkers) return workers;
  const std::vector<std::string>& names = order.workers.names;
  const auto is_named = [&names](const Worker* worker) {
    return std::find(names.begin(), names.end(), worker->hello.worker_id) != names.end();
  };
  for (const std::string& name : names) {
    const bool is_there = std::any_of(workers.begin(), workers.end(),
                                      [&name](const Worker* worker) { return worker->hello.worker_id == name; });
    if (!is_there) return InvalidArgument("workers", "'{}' does not serve {} now", name, served);
  }
  std::erase_if(workers, [&is_named](const Worker* worker) { return !is_named(worker); });
  return workers;
}

Result<void> PrefixOrders::Evict(const EvictOrder& order, Instant now, AnswersDone done) {
  ROOST_RETURN_IF_ERROR(inquiries_.CheckRoom());
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers, ToEvictAt(order));
  const std::uint64_t id = inquiries_.NextId();
  std::vector<Inquiries::Asked> asked;
  asked.reserve(workers.size());
  for (Worker* worker : workers) asked.push_back(EvictAt(order, *worker, id));
  inquiries_.Begin(id, std::move(asked), now + kEvictPatience, std::move(done));
  return {};
}

// A worker whose revision the order lacks has just joined: no request was sent to it yet.
Inquiries::Asked PrefixOrders::EvictAt(const EvictOrder& order, Worker& worker, std::uint64_t inquiry) {
  Inquiries::Asked asked{.worker_id = worker.hello.worker_id, .is_awaited = false};
  wire::Features needs{wire::Feature::kEvicts};
  if (std::holds_alternative<wire::BlockToEvict>(order.what)) needs.insert(wire::Feature::kEvictsBlocks);
  if (!worker.hello.features.contains(needs)) {
    asked.known = NotSupported{};
    return asked;
  }
  std::optional<wire::Evict> message = MessageFor(order, worker.revision);
  if (!message) return asked;
  message->answer_id = inquiry;
  worker.view.ForgetPredictions();
  worker.told.Forget([&order](std::span<const BlockHash> chain) { return MayBeNamed(order, chain); });
  effects_.Send(worker.identity, *std::move(message));
  asked.is_awaited = true;
  return asked;
}

void PrefixOrders::OnAnswer(const std::string& worker_id, const wire::EvictAnswer& answer) {
  inquiries_.OnReply(answer.answer_id, worker_id, answer);
}

void PrefixOrders::OnAnswer(const std::string& worker_id, const wire::PinAnswer& answer) {
  inquiries_.OnReply(answer.answer_id, worker_id, answer);
}

void PrefixOrders::OnAnswer(const std::string& worker_id, wire::Prefixes answer) {
  const std::uint64_t id = answer.answer_id;
  inquiries_.OnReply(id, worker_id, std::move(answer));
}

}  // namespace roost::router
