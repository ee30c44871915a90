#include "router/fleet/blocks/hold_book.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/prefix/block_hash.h"
#include "common/wire/transfer_ticket.h"
#include "router/route/pulls.h"

namespace roost::router {
namespace {

// While a worker's speed is unknown, what matters is that it computes few blocks.
constexpr double kUnknownBlockSeconds = 1;

// The worker's account of its blocks, within what it was asked for.
HoldEnd EndOf(std::string source, std::uint32_t block_count, const std::optional<wire::HoldAnswer>& answer) {
  HoldEnd end{.pull = {.source = std::move(source)}};
  if (!answer) return end;
  const std::uint32_t held = std::min(answer->held_block_count, block_count);
  end.pull.outcome = answer->outcome;
  end.pull.block_count = std::min(answer->arrived_block_count, block_count - held);
  end.pull.bytes = answer->bytes;
  end.pull.seconds = static_cast<double>(answer->microseconds) * 1e-6;
  end.block_count = held + end.pull.block_count;
  return end;
}

}  // namespace

std::optional<PrefixPull> HoldBook::BestSource(const Worker& worker, std::span<const BlockHash> hashes,
                                               std::string_view name, Instant now) {
  std::vector<WorkerMatch> holders = worker.index->Match(hashes);
  const auto own = std::find_if(holders.begin(), holders.end(),
                                [&worker](const WorkerMatch& holder) { return holder.worker == worker.slot; });
  const std::uint32_t held = own == holders.end() ? 0 : own->block_count;
  const Worker* const named = worker_registry_.Find(name);
  const auto is_other = [named](const WorkerMatch& holder) { return named == nullptr || holder.worker != named->slot; };
  if (!name.empty()) std::erase_if(holders, is_other);
  const auto all = static_cast<std::uint32_t>(std::min(hashes.size(), std::size_t{wire::WireLimits::kMaxHeldHashes}));
  const double rate = worker.prefill_tokens_per_second();
  const double block_seconds = rate > 0 ? worker.hello.block_tokens / rate : kUnknownBlockSeconds;
  return Sources(holders, worker_registry_.transfers())
      .BestSource({.by = worker.slot, .held = held, .first = held, .end = all, .from_paused = true}, now,
                  std::numeric_limits<double>::infinity(), [&](const PrefixPull& pull, double /*least*/) {
                    return pull.price.seconds + block_seconds * (all - pull.end_block());
                  });
}

// Empty where the source asks for none, and between two revisions.
std::string HoldBook::TicketFor(const Worker& worker, const Worker& source) {
  if (source.revision != worker.revision) return {};
  const Result<wire::TransferSecret> secret = wire::TransferSecret::Parse(source.hello.transfer.secret);
  if (!secret.ok()) return {};
  const wire::WallSeconds now{std::chrono::seconds(worker_registry_.UnixSeconds())};
  return wire::MintTicket(*secret, worker.hello.worker_id, now).ToText();
}

std::optional<std::uint64_t> HoldBook::Start(const Worker& worker, const PrefixPull& pull, const GenerateSpec& spec,
                                             std::span<const BlockHash> hashes, const Wishes& wishes, Instant now,
                                             HoldDone done) {
  using std::chrono::milliseconds;
  const Worker* const source = worker_registry_.InSlot(pull.source);
  const std::size_t end =
      std::min({hashes.size(), std::size_t{pull.end_block()}, std::size_t{wire::WireLimits::kMaxHeldHashes}});
  if (source == nullptr || end == 0 || is_full()) return std::nullopt;
  const auto patience = std::clamp(std::chrono::duration_cast<milliseconds>(wishes.patience), milliseconds(1),
                                   milliseconds(wire::kMaxHoldMs));
  if (next_id_ == 0) ++next_id_;
  const std::uint64_t id = next_id_++;
  const std::span<const BlockHash> named = hashes.first(end);
  wire::Hold hold{.answer_id = id,
                  .root = spec.generate.root,
                  .parent = spec.generate.root,
                  .hashes = {named.begin(), named.end()},
                  .own = spec.generate.own,
                  .tenant = spec.generate.tenant,
                  .purpose = wishes.purpose,
                  .patience_ms = static_cast<std::uint64_t>(patience.count()),
                  .source = {.worker_id = source->hello.worker_id,
                             .address = source->hello.transfer.address,
                             .follow = wishes.follows,
                             .ticket = TicketFor(worker, *source)},
                  .hits = wishes.hits};
  if (hold.own && hold.own->first_block >= end) hold.own.reset();
  effects_.Send(worker.identity, std::move(hold), spec.memory);
  if (end > pull.first_block) {
    worker_registry_.transfers().Send(id, {.from = pull.source, .to = worker.slot},
                                      static_cast<std::uint32_t>(end) - pull.first_block, now);
  }
  open_.emplace(id, Open{.worker_id = worker.hello.worker_id,
                         .source = source->hello.worker_id,
                         .model = spec.model->model_name(),
                         .hashes = {named.begin(), named.end()},
                         .memory = spec.memory,
                         .block_tokens = spec.model->block_tokens,
                         .deadline = now + patience + kAnswerPatience,
                         .done = std::move(done)});
  return id;
}

std::optional<std::uint64_t> HoldBook::Join(const Worker& worker, std::span<const BlockHash> hashes) {
  if (hashes.empty()) return std::nullopt;
  for (auto& [id, hold] : open_) {
    const std::size_t last = hashes.size() - 1;
    if (hold.worker_id != worker.hello.worker_id || last >= hold.hashes.size()) continue;
    if (hold.hashes[last] != hashes[last]) continue;
    ++hold.waiter_count;
    return id;
  }
  return std::nullopt;
}

void HoldBook::OnAnswer(const std::string& worker_id, const wire::HoldAnswer& answer, Instant now) {
  const auto hold = open_.find(answer.answer_id);
  if (hold != open_.end() && hold->second.worker_id == worker_id) End(hold, answer, now);
}

void HoldBook::OnWorkerLost(const std::string& worker_id) {
  std::erase_if(last_ends_, [&worker_id](const auto& known) {
    return known.first.source == worker_id || known.first.worker == worker_id;
  });
  for (auto hold = open_.begin(); hold != open_.end();) {
    const bool is_lost = hold->second.worker_id == worker_id;
    if (is_lost) {
      metrics_.OnPull(hold->second.model, std::nullopt, 0);
      worker_registry_.transfers().Drop(hold->first);
    }
    hold = is_lost ? open_.erase(hold) : std::next(hold);
  }
}

void HoldBook::Leave(std::uint64_t id) {
  const auto hold = open_.find(id);
  if (hold == open_.end() || --hold->second.waiter_count > 0) return;
  metrics_.OnPull(hold->second.model, wire::HoldOutcome::kCancelled, 0);
  worker_registry_.transfers().Drop(id);
  open_.erase(hold);
}

// `done` may start and forget others, so each overdue one is looked for anew.
void HoldBook::Expire(Instant now) {
  const auto is_overdue = [now](const auto& entry) { return now >= entry.second.deadline; };
  while (true) {
    const auto hold = std::find_if(open_.begin(), open_.end(), is_overdue);
    if (hold == open_.end()) return;
    End(hold, std::nullopt, now);
  }
}

wire::HoldCause HoldBook::LastCause(const std::string& source, const std::string& worker) const {
  const auto known = last_ends_.find({source, worker});
  return known == last_ends_.end() ? wire::HoldCause::kNone : known->second.cause;
}

// A worker that leaves a source alone, or has its hands full, told why the source had failed before.
void HoldBook::NoteCause(const Open& ended, const wire::HoldAnswer& answer, Instant now) {
  const Ends ends{ended.source, ended.worker_id};
  const auto known = last_ends_.find(ends);
  if (answer.cause == wire::HoldCause::kNone) {
    if (known != last_ends_.end()) known->second.cause = answer.cause;
    return;
  }
  if (known == last_ends_.end() && last_ends_.size() >= kMaxLastEnds) return;
  LastEnd& last = last_ends_[ends];
  const bool is_failure = answer.cause != wire::HoldCause::kPaused && answer.cause != wire::HoldCause::kOwnLimit;
  if (!is_failure && last.cause != wire::HoldCause::kNone) return;
  const bool is_other = std::exchange(last.cause, answer.cause) != answer.cause;
  if (!is_failure || (last.told_at && now < *last.told_at + kLogPause && !is_other)) return;
  last.told_at = now;
  LogWarning("a worker could not fetch blocks",
             {{"worker", ended.worker_id},
              {"source", ended.source},
              {"outcome", NameOf(answer.outcome)},
              {"cause", wire::kHoldCauseNames[static_cast<std::size_t>(answer.cause)]}});
}

void HoldBook::End(OpenHolds::iterator hold, const std::optional<wire::HoldAnswer>& answer, Instant now) {
  const std::uint64_t id = hold->first;
  worker_registry_.transfers().End(id, answer, now);
  const Open ended = std::move(open_.extract(hold).mapped());
  if (answer) NoteCause(ended, *answer, now);
  HoldEnd end = EndOf(ended.source, static_cast<std::uint32_t>(ended.hashes.size()), answer);
  end.id = id;
  metrics_.OnPull(ended.model, end.pull.outcome, std::uint64_t{end.pull.block_count} * ended.block_tokens);
  ended.done(end, now);
}

}  // namespace roost::router
