#include "router/fleet/core/orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/wire/codec.h"
#include "router/fleet/evicted.h"

namespace roost::router {

namespace {

const WorkerMatch* FindMatch(std::span<const WorkerMatch> matches, WorkerSlot slot) {
  const auto found =
      std::find_if(matches.begin(), matches.end(), [slot](const WorkerMatch& match) { return match.worker == slot; });
  return found == matches.end() ? nullptr : &*found;
}

PromptHolder HolderOf(const Worker& worker, std::span<const WorkerMatch> matches,
                      std::span<const HeldBlocks> held = {}) {
  PromptHolder holder{.worker_id = worker.hello.worker_id,
                      .mode = ShownMode(worker),
                      .engine_block_tokens = EngineBlockTokens(worker),
                      .dropped_tokens = DroppedTokens(worker)};
  if (const WorkerMatch* const match = FindMatch(matches, worker.slot)) {
    holder.held_block_count = match->block_count - match->pending_block_count;
    holder.pending_block_count = match->pending_block_count;
  }
  const WorkerMatch* const disk = FindMatch(matches, DiskOf(worker.slot));
  if (disk != nullptr && disk->block_count > holder.held_block_count) {
    holder.disk_block_count = disk->block_count - holder.held_block_count;
  }
  for (const HeldBlocks& all : held) {
    if (all.worker == worker.slot)
      holder.resumable_block_count = std::exchange(holder.held_block_count, all.block_count);
  }
  return holder;
}

bool HoldsMore(const PromptHolder& a, const PromptHolder& b) {
  const auto key = [](const PromptHolder& holder) {
    return std::make_pair(holder.usable_block_count(), holder.held_block_count);
  };
  return key(a) > key(b);
}

WarmOutcome OutcomeOf(const CopyEnd& end) {
  WarmOutcome outcome{.kind = WarmOutcome::Kind::kComputed,
                      .block_count = end.done_block_count,
                      .computed_tokens = end.computed_tokens,
                      .pull = end.pull};
  if (end.pull && end.computed_tokens == 0) outcome.kind = WarmOutcome::Kind::kPulled;
  if (end.error.has_value()) {
    outcome.kind = WarmOutcome::Kind::kRefused;
    outcome.reason = end.error->message;
  }
  return outcome;
}

bool WantsCordon(const CordonOrder& order) { return order.service == Service::kCordoned; }

bool IsConfirmed(const CordonOrder& order, const Worker& worker) { return worker.load.cordoned == WantsCordon(order); }

ServiceState StateOf(const Worker& worker) {
  return {.is_cordoned = worker.load.cordoned,
          .running_requests = worker.load.running_requests,
          .waiting_requests = worker.load.waiting_requests,
          .in_flight_requests = worker.ledger->request_count() + worker.forward_count};
}

// Worker messages that answer an order are those with its id.
template <typename Message>
constexpr bool kIsAnswer = requires(Message message, WorkerReply reply) {
  message.answer_id;
  reply = message;
};

}  // namespace

const std::vector<BlockHash>& HashesOf(const PinOrder& order) {
  return std::visit([](const auto& message) -> const std::vector<BlockHash>& { return message.hashes; }, order.message);
}

std::vector<WorkerMatch> MatchesOf(const Order& order) {
  if (const auto* const pin = std::get_if<PinOrder>(&order)) return pin->model->index->Match(HashesOf(*pin));
  if (const auto* const query = std::get_if<PromptQuery>(&order))
    return query->model->index->Match(query->block_hashes);
  const auto* const warm = std::get_if<WarmOrder>(&order);
  if (warm == nullptr) return {};
  return warm->spec.model->index->Match(warm->spec.generate.block_hashes);
}

// ---- orders ----

template <>
Result<void> Orders::CarryOut(PinOrder& order, Arrival arrival) {
  ROOST_RETURN_IF_ERROR(CheckRoom());
  if (order.what == PinOrder::What::kBlock) ROOST_RETURN_IF_ERROR(FindHolder(order));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers,
                         Chosen(*order.model, order.workers, HashesOf(order), arrival.matches));
  std::visit([&](auto& message) { Ask(workers, std::move(message), std::move(arrival)); }, order.message);
  return {};
}

Result<void> Orders::FindHolder(PinOrder& order) {
  const std::vector<BlockHash>& block = HashesOf(order);
  std::shared_ptr<const ServedModel> holder;
  for (const std::shared_ptr<const ServedModel>& model :
       worker_registry_.revisions().directory()->AllOf(order.model->name)) {
    const std::vector<WorkerMatch> matches = model->index->Match(block);
    for (const Worker* const worker : worker_registry_.Serving(*model)) {
      if (HolderOf(*worker, matches).held_block_count > 0) holder = model;
    }
  }
  if (holder != nullptr) {
    order.model = std::move(holder);
  } else if (std::holds_alternative<wire::Pin>(order.message)) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("no worker of {} has block {}", order.model->name, block.front().ToHex()), "hash"};
  }
  return {};
}

template <>
Result<void> Orders::CarryOut(PrefixesQuestion& question, Arrival arrival) {
  ROOST_RETURN_IF_ERROR(CheckRoom());
  const std::uint64_t id = NextId();
  const wire::WantPrefixes message{.answer_id = id, .most = question.most, .tokens = question.tokens};
  Open open{.parts = {}, .deadline = arrival.now + kAnswerPatience, .done = std::move(arrival.done)};
  for (const std::shared_ptr<const ServedModel>& model : question.models) {
    for (const Worker* worker : worker_registry_.Serving(*model)) {
      open.parts.push_back({.worker_id = worker->hello.worker_id,
                            .is_awaited = worker->hello.features.contains(wire::Feature::kAnswers),
                            .model = model});
      effects_.Send(worker->identity, message);
    }
  }
  if (open.parts.empty() && !question.models.empty()) return NobodyServes(*question.models.front());
  Begin(id, std::move(open));
  return {};
}

template <>
Result<void> Orders::CarryOut(WarmOrder& order, Arrival arrival) {
  const GenerateSpec& spec = order.spec;
  if (spec.generate.block_hashes.empty()) return InvalidArgument("prompt", "is shorter than a block");
  if (spec.generate.prompt.size() > wire::WireLimits::kMaxPromptTokens) {
    return InvalidArgument("prompt", "has {} tokens, more than {}", spec.generate.prompt.size(),
                           wire::WireLimits::kMaxPromptTokens);
  }
  ROOST_RETURN_IF_ERROR(CheckRoom());
  ROOST_RETURN_IF_ERROR(CheckSource(order));
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers,
                         Chosen(*spec.model, order.workers, spec.generate.block_hashes, arrival.matches));
  const std::uint64_t id = NextId();
  Open open{.parts = {}, .deadline = order.deadline, .done = std::move(arrival.done)};
  for (Worker* worker : workers) {
    const WorkerMatch* const match = FindMatch(arrival.matches, worker->slot);
    open.parts.push_back(WarmAt(order, *worker, match == nullptr ? 0 : match->block_count, id, arrival.now));
  }
  Begin(id, std::move(open));
  return {};
}

// A source may be cordoned, full or draining.
Result<void> Orders::CheckSource(const WarmOrder& order) {
  if (order.source.empty()) return {};
  const Worker* const source = worker_registry_.Find(order.source);
  if (source != nullptr && source->revision == order.spec.model->revision) return {};
  return InvalidArgument("from", "'{}' does not serve {} now", order.source, order.spec.model->name);
}

Orders::Part Orders::WarmAt(const WarmOrder& order, Worker& worker, std::uint32_t held_blocks, std::uint64_t id,
                            Instant now) {
  Part part{.worker_id = worker.hello.worker_id, .is_awaited = false};
  const auto all = static_cast<std::uint32_t>(order.spec.generate.block_hashes.size());
  if (held_blocks == all) {
    part.reply = WarmOutcome{.kind = WarmOutcome::Kind::kHeld, .block_count = all};
    return part;
  }
  const auto on_end = [this, id, name = worker.hello.worker_id](const CopyEnd& end) {
    OnReply(id, name, OutcomeOf(end));
  };
  part.is_awaited =
      requests_.copies().Start(order.spec, {.worker = worker.slot, .held_block_count = held_blocks, .block_count = all},
                               now, {.source = order.source, .pull_patience = order.deadline - now, .done = on_end});
  if (!part.is_awaited) {
    part.reply = WarmOutcome{.kind = WarmOutcome::Kind::kRefused,
                             .block_count = held_blocks,
                             .reason = "the worker takes no requests now, or it is already computing another prefix"};
  }
  return part;
}

template <>
Result<void> Orders::CarryOut(EvictOrder& order, Arrival arrival) {
  ROOST_RETURN_IF_ERROR(CheckRoom());
  ROOST_ASSIGN_OR_RETURN(const std::vector<Worker*> workers, ToEvictAt(order));
  const std::uint64_t id = NextId();
  Open open{.parts = {}, .deadline = arrival.now + kEvictPatience, .done = std::move(arrival.done)};
  for (Worker* worker : workers) open.parts.push_back(EvictAt(order, *worker, id));
  Begin(id, std::move(open));
  requests_.KeepOut(order, arrival.now);
  return {};
}

// A worker whose revision the order lacks has just joined: no request was sent to it yet.
Orders::Part Orders::EvictAt(const EvictOrder& order, Worker& worker, std::uint64_t id) {
  Part part{.worker_id = worker.hello.worker_id, .is_awaited = false};
  wire::Features needs{wire::Feature::kEvicts};
  if (std::holds_alternative<wire::BlockToEvict>(order.what)) needs.insert(wire::Feature::kEvictsBlocks);
  if (!worker.hello.features.contains(needs)) {
    part.reply = NotSupported{};
    return part;
  }
  std::optional<wire::Evict> message = MessageFor(order, worker.revision);
  if (!message) return part;
  message->answer_id = id;
  worker.view.ForgetPredictions();
  worker.told.Forget([&order](std::span<const BlockHash> chain) { return MayBeNamed(order, chain); });
  effects_.Send(worker.identity, *std::move(message));
  part.is_awaited = true;
  return part;
}

template <>
Result<void> Orders::CarryOut(CordonOrder& order, Arrival arrival) {
  ROOST_RETURN_IF_ERROR(CheckRoomForCordon());
  Worker* const worker = worker_registry_.Find(order.worker_id);
  if (worker == nullptr) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no worker '{}'", order.worker_id), "worker"};
  }
  Open open{.parts = {{.worker_id = order.worker_id}},
            .deadline = arrival.now + kAnswerPatience,
            .done = std::move(arrival.done),
            .cordon = order,
            .idle_until = arrival.now + order.patience};
  if (!worker->hello.features.contains(wire::Feature::kCordons)) {
    open.parts.front() = {.worker_id = order.worker_id, .reply = NotSupported{}, .is_awaited = false};
    Begin(NextId(), std::move(open));
    return {};
  }
  // A cordon alone has no patience.
  worker->is_drained = WantsCordon(order) && order.patience > Duration::zero();
  effects_.Send(worker->identity, wire::Cordon{.in_force = WantsCordon(order)});
  if (WantsCordon(order)) {
    // It would refuse what is sent from here on. Its next report says so itself.
    worker->is_leaving = true;
    worker_registry_.Refresh(*worker);
  }
  Begin(NextId(), std::move(open));
  return {};
}

template <>
Result<void> Orders::CarryOut(PromptQuery& query, Arrival arrival) {
  ROOST_ASSIGN_OR_RETURN(const PromptMatch match, Match(query, arrival.matches, arrival.now));
  effects_.Push(NotifyAnswers{std::move(arrival.done), AnswersOf(match)});
  return {};
}

Result<PromptMatch> Orders::Match(const PromptQuery& query, std::span<const WorkerMatch> matches, Instant now) {
  const std::vector<Worker*> workers = worker_registry_.Serving(*query.model);
  if (workers.empty()) return NobodyServes(*query.model);
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  const std::vector<HeldBlocks> held =
      worker_registry_.CutToResumable(query.block_hashes, query.prompt_token_count, depths);
  worker_registry_.pending().Deepen(query.block_hashes, now, depths);
  PromptMatch match;
  for (const Worker* worker : workers) match.holders.push_back(HolderOf(*worker, depths, held));
  std::stable_sort(match.holders.begin(), match.holders.end(), &HoldsMore);
  const std::optional<Decision> decision =
      requests_.decider().Ask(*query.model, query.prompt_token_count, query.block_hashes, depths);
  if (!decision.has_value()) return match;
  match.choice = {
      .worker_id = worker_registry_.At(decision->slot).hello.worker_id,
      .policy = std::string(requests_.decider().policy_name()),
      .reason = decision->reason,
      .cached_tokens = decision->matched_tokens,
      .ttft_seconds = decision->in_seconds ? std::optional(decision->predicted_ttft_seconds) : std::nullopt};
  return match;
}

template <>
Result<void> Orders::CarryOut(DecisionsQuestion& question, Arrival arrival) {
  const auto* const id = std::get_if<std::string>(&question.which);
  const DecisionLog& log = requests_.decider().log();
  std::vector<WorkerAnswer> answers;
  for (DecisionRecord& record : id == nullptr ? log.Latest(std::get<std::size_t>(question.which)) : log.Find(*id)) {
    answers.push_back({record.worker_id, std::move(record)});
  }
  effects_.Push(NotifyAnswers{std::move(arrival.done), std::move(answers)});
  return {};
}

Result<void> Orders::Send(Order order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done) {
  Arrival arrival{.matches = matches, .now = now, .done = std::move(done)};
  return std::visit(
      [&]<typename One>(One& each) -> Result<void> {
        if constexpr (std::is_same_v<One, ModelAwaited>) {
          return Error{ErrorCode::kInternal, "arrivals of models are awaited elsewhere", ""};
        } else {
          return CarryOut(each, std::move(arrival));
        }
      },
      order);
}

// ---- the workers of an order ----

Result<std::vector<Worker*>> Orders::Chosen(const ServedModel& model, const WorkerChoice& choice,
                                            std::span<const BlockHash> hashes, std::span<const WorkerMatch> matches) {
  std::vector<Worker*> workers = worker_registry_.Serving(model);
  if (workers.empty()) return NobodyServes(model);
  if (choice.target == PinTarget::kBestWorker) {
    Worker* const best = requests_.decider().BestFor(model, hashes, matches);
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

Result<std::vector<Worker*>> Orders::ToEvictAt(const EvictOrder& order) {
  const std::string_view served = order.model.empty() ? "a model" : std::string_view(order.model);
  std::vector<Worker*> workers;
  worker_registry_.ForEach([&](Worker& worker) {
    const bool serves = worker.hello.model == order.model || worker.adapters.contains(order.model);
    if (order.model.empty() || serves) workers.push_back(&worker);
  });
  if (workers.empty()) return Error{ErrorCode::kUnavailable, fmt::format("no worker serves {} now", served), "model"};
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

template <typename Message>
void Orders::Ask(std::span<Worker* const> workers, Message message, Arrival arrival) {
  message.answer_id = NextId();
  Open open{.parts = {}, .deadline = arrival.now + kAnswerPatience, .done = std::move(arrival.done)};
  for (const Worker* worker : workers) {
    open.parts.push_back(
        {.worker_id = worker->hello.worker_id, .is_awaited = worker->hello.features.contains(wire::Feature::kAnswers)});
    effects_.Send(worker->identity, message);
  }
  Begin(message.answer_id, std::move(open));
}

// ---- open orders ----

std::size_t Orders::CordonCount() const {
  return static_cast<std::size_t>(
      std::count_if(open_.begin(), open_.end(), [](const auto& entry) { return entry.second.cordon.has_value(); }));
}

Result<void> Orders::CheckRoom() const {
  if (open_.size() - CordonCount() < kMaxOpen) return {};
  return Error{ErrorCode::kOverloaded, fmt::format("{} questions to workers are already waiting for answers", kMaxOpen),
               ""};
}

Result<void> Orders::CheckRoomForCordon() const {
  if (CordonCount() < kMaxOpen) return {};
  return Error{ErrorCode::kOverloaded, fmt::format("{} such orders are already waiting for workers", kMaxOpen), ""};
}

std::uint64_t Orders::NextId() {
  if (next_id_ == 0) ++next_id_;
  return next_id_++;
}

void Orders::Begin(std::uint64_t id, Open order) { EndIfComplete(open_.emplace(id, std::move(order)).first); }

bool Orders::OnMessage(const std::string& worker_id, wire::WorkerMessage& message) {
  return std::visit(
      [&]<typename Message>(Message& answer) {
        if constexpr (kIsAnswer<Message>) {
          const std::uint64_t id = answer.answer_id;
          OnReply(id, worker_id, std::move(answer));
        }
        return kIsAnswer<Message>;
      },
      message);
}

void Orders::OnReply(std::uint64_t id, const std::string& worker_id, WorkerReply reply) {
  const auto order = open_.find(id);
  if (order == open_.end()) return;
  std::vector<Part>& parts = order->second.parts;
  const auto part =
      std::find_if(parts.begin(), parts.end(), [&worker_id](const Part& each) { return each.worker_id == worker_id; });
  if (part == parts.end() || !std::exchange(part->is_awaited, false)) return;
  part->reply = std::move(reply);
  EndIfComplete(order);
}

void Orders::OnReport(const Worker& worker, Instant now) {
  for (auto order = open_.begin(); order != open_.end();) {
    Open& open = order->second;
    const bool is_about_it = open.cordon && open.cordon->worker_id == worker.hello.worker_id;
    if (is_about_it && IsConfirmed(*open.cordon, worker)) {
      const bool is_over = !WantsCordon(*open.cordon) || StateOf(worker).IsIdle() || now >= open.idle_until;
      if (is_over) open.parts.front() = {worker.hello.worker_id, StateOf(worker), false};
    }
    order = EndIfComplete(order);
  }
}

void Orders::OnWorkerLost(const std::string& worker_id) {
  for (auto order = open_.begin(); order != open_.end();) {
    for (Part& part : order->second.parts) {
      if (part.worker_id == worker_id) part.is_awaited = false;
    }
    order = EndIfComplete(order);
  }
}

// A cordon that the worker has confirmed ends with a report: they come several times a second.
void Orders::Expire(Instant now) {
  for (auto order = open_.begin(); order != open_.end();) {
    const std::optional<CordonOrder>& cordon = order->second.cordon;
    const Worker* const worker = cordon ? worker_registry_.Find(cordon->worker_id) : nullptr;
    const bool waits_on = worker != nullptr && IsConfirmed(*cordon, *worker);
    order = now >= order->second.deadline && !waits_on ? End(order) : std::next(order);
  }
}

void Orders::EndAll() {
  while (!open_.empty()) End(open_.begin());
}

Orders::OpenOrders::iterator Orders::EndIfComplete(OpenOrders::iterator order) {
  const std::vector<Part>& parts = order->second.parts;
  const bool awaits = std::any_of(parts.begin(), parts.end(), [](const Part& each) { return each.is_awaited; });
  return awaits ? std::next(order) : End(order);
}

Orders::OpenOrders::iterator Orders::End(OpenOrders::iterator order) {
  std::vector<WorkerAnswer> answers;
  answers.reserve(order->second.parts.size());
  for (Part& each : order->second.parts)
    answers.push_back({std::move(each.worker_id), std::move(each.reply), std::move(each.model)});
  effects_.Push(NotifyAnswers{std::move(order->second.done), std::move(answers)});
  return open_.erase(order);
}

}  // namespace roost::router
