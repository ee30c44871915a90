#include "router/fleet/blocks/prefix_copies.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "router/fleet/evicted.h"

namespace roost::router {

namespace {

// After this time requests are no longer sent to a worker because of a pending piece.
constexpr Duration kPiecePatience = std::chrono::seconds(30);

wire::Generate MessageOf(const GenerateSpec& spec, RequestId id, std::uint32_t block_count,
                         std::uint32_t cached_tokens) {
  wire::Generate piece;
  piece.request_id = id;
  piece.root = spec.generate.root;
  piece.own = spec.generate.own;
  piece.prompt.assign(spec.generate.prompt.begin(),
                      spec.generate.prompt.begin() + std::int64_t{block_count} * spec.model->block_tokens);
  piece.block_hashes.assign(spec.generate.block_hashes.begin(), spec.generate.block_hashes.begin() + block_count);
  piece.max_output_tokens = 1;
  piece.ignore_eos = true;
  piece.expected_cached_tokens = cached_tokens;
  piece.tenant = spec.generate.tenant;
  piece.adapter = spec.model->adapter();
  piece.priority = spec.generate.priority;
  return piece;
}

}  // namespace

bool PrefixCopies::Start(const GenerateSpec& spec, const PrefixCopy& copy, Instant now, Wishes wishes) {
  Worker* const found = worker_registry_.FindAt(copy.worker);
  if (found == nullptr || !found->hello.keeps_prefixes) return false;
  Worker& worker = *found;
  const auto [entry, is_new] = copies_.try_emplace(worker.hello.worker_id);
  if (!is_new) return false;
  Copy& fresh = entry->second;
  fresh.spec = spec;
  fresh.spec.generate.block_hashes.resize(copy.block_count);
  fresh.spec.generate.prompt.resize(std::size_t{copy.block_count} * spec.model->block_tokens);
  fresh.done_block_count = copy.held_block_count;
  worker.receives_copy = true;
  if (!StartPull(worker, fresh, wishes, now)) SendNext(worker, fresh, now);
  fresh.done = std::move(wishes.done);
  return true;
}

bool PrefixCopies::StartPull(const Worker& worker, Copy& copy, const Wishes& wishes, Instant now) {
  const std::optional<PrefixPull> pull = holds_.BestSource(worker, copy.spec.generate.block_hashes, wishes.source, now);
  if (!pull) return false;
  const auto on_end = [this, name = worker.hello.worker_id](const HoldEnd& end, Instant then) {
    OnPulled(name, end, then);
  };
  copy.hold = holds_.Start(worker, *pull, copy.spec, copy.spec.generate.block_hashes,
                           {.patience = wishes.pull_patience}, now, on_end);
  if (!copy.hold.has_value()) return false;
  Expect(worker, copy, *pull, now);
  return true;
}

// Requests that come meanwhile follow the blocks, if it is known how long these take.
void PrefixCopies::Expect(const Worker& worker, Copy& copy, const PrefixPull& pull, Instant now) {
  if (pull.price.bytes <= 0 || worker.view.mode() == WorkerMode::kBlind) return;
  const auto chain = std::span(copy.spec.generate.block_hashes).first(pull.end_block());
  copy.pending = router::Expect(worker_registry_.pending(), worker, chain, now + kPiecePatience,
                                {.block_count = pull.end_block(), .at = now + FromSeconds(pull.price.seconds)});
}

void PrefixCopies::OnPulled(const std::string& worker_id, const HoldEnd& end, Instant now) {
  const auto found = copies_.find(worker_id);
  if (found == copies_.end() || found->second.hold != end.id) return;  // the copy has ended, and a request waits on
  Worker& worker = *worker_registry_.Find(worker_id);
  Copy& copy = found->second;
  copy.hold.reset();
  copy.pending = {};
  copy.pull = end.pull;
  copy.done_block_count = std::max(copy.done_block_count, end.block_count);
  worker.view.OnComputed(std::span(copy.spec.generate.block_hashes).first(copy.done_block_count), now);
  GoOn(worker, copy, now);
}

void PrefixCopies::GoOn(Worker& worker, Copy& copy, Instant now) {
  if (copy.done_block_count == copy.spec.generate.block_hashes.size()) {
    Drop(worker, std::nullopt);
  } else {
    SendNext(worker, copy, now);
  }
}

std::uint32_t PrefixCopies::NextPieceBlocks(const Worker& worker, const Copy& copy) {
  const double in_time = worker.prefill_tokens_per_second() * std::max(kPieceSeconds, copy.way_seconds.value_or(0));
  const auto tokens = static_cast<std::uint32_t>(std::clamp<double>(in_time, kMinPieceTokens, kMaxPieceTokens));
  const auto all = static_cast<std::uint32_t>(copy.spec.generate.block_hashes.size());
  const std::uint32_t of_so_many = (all + kMaxPieces - 1) / kMaxPieces;
  return std::max({1U, tokens / copy.spec.model->block_tokens, of_so_many});
}

void PrefixCopies::SendNext(Worker& worker, Copy& copy, Instant now) {
  const std::uint32_t block_tokens = copy.spec.model->block_tokens;
  const auto all = static_cast<std::uint32_t>(copy.spec.generate.block_hashes.size());
  copy.piece_block_count = std::min(all, copy.done_block_count + NextPieceBlocks(worker, copy));
  const std::uint32_t cached_tokens = copy.done_block_count * block_tokens;
  const std::uint32_t uncached_tokens = copy.piece_block_count * block_tokens - cached_tokens;
  copy.id = RequestId(next_id_++);
  copy.sent_at = now;
  copy.charge = InFlightLedger::Add(worker.ledger, uncached_tokens, now, 0, copy.id);
  if (worker.view.mode() != WorkerMode::kBlind) {
    const auto chain = std::span(copy.spec.generate.block_hashes).first(copy.piece_block_count);
    copy.pending = router::Expect(worker_registry_.pending(), worker, chain, now + kPiecePatience);
  }
  effects_.Send(worker.identity, MessageOf(copy.spec, copy.id, copy.piece_block_count, cached_tokens),
                copy.spec.memory);
  worker_registry_.NoteSent(worker, copy.id);
}

bool PrefixCopies::OnEvent(const std::string& worker_id, const wire::TokenEvent& event, Instant now) {
  const auto found = copies_.find(worker_id);
  if (found == copies_.end() || found->second.hold || found->second.id != event.request_id) return false;
  Worker& worker = *worker_registry_.Find(worker_id);
  Copy& copy = found->second;
  const bool ended = event.finish.has_value();
  const bool failed = ended && wire::EndsAllChoices(*event.finish);
  if (failed) {
    Drop(worker, event.error.value_or(Error{ErrorCode::kCancelled, "the worker gave up the request", ""}));
    return true;
  }
  // A piece that ends without a token, at a stop token that the worker should have ignored, has still computed its
  // prompt.
  if (!ended && event.tokens.empty()) return true;
  OnPieceDone(worker, copy, event.cached_token_count, now);
  if (!ended) effects_.Send(worker.identity, wire::Cancel{copy.id});  // a piece must end with its first token
  GoOn(worker, copy, now);
  return true;
}

void PrefixCopies::OnPieceDone(Worker& worker, Copy& copy, std::optional<std::uint32_t> cached_tokens, Instant now) {
  const std::uint32_t block_tokens = copy.spec.model->block_tokens;
  const std::uint32_t tokens = copy.piece_block_count * block_tokens;
  const std::uint32_t computed_tokens =
      tokens - std::min(tokens, cached_tokens.value_or(copy.done_block_count * block_tokens));
  const double rate = worker.prefill_tokens_per_second();
  const double way_seconds = rate > 0 ? ToSeconds(now - copy.sent_at) - computed_tokens / rate : 0;
  copy.way_seconds = std::min(copy.way_seconds.value_or(way_seconds), way_seconds);
  copy.done_block_count = copy.piece_block_count;
  copy.computed_tokens += computed_tokens;
  copy.pending = {};  // the cache events of its blocks have already come
  copy.charge.OnFirstToken();
  worker.view.OnComputed(std::span(copy.spec.generate.block_hashes).first(copy.piece_block_count), now);
  metrics_.OnCopied(copy.spec.model->model_name(), computed_tokens);
}

void PrefixCopies::Drop(Worker& worker, std::optional<Error> error) {
  auto ended = copies_.extract(worker.hello.worker_id);
  const Copy& copy = ended.mapped();
  if (copy.done) {
    copy.done({.done_block_count = copy.done_block_count,
               .computed_tokens = copy.computed_tokens,
               .pull = copy.pull,
               .error = std::move(error)});
  }
  ended = {};
  worker.receives_copy = false;
  worker_registry_.Refresh(worker);
}

void PrefixCopies::Stop(const Worker& worker, const Copy& copy) {
  if (copy.hold) {
    holds_.Leave(*copy.hold);
  } else {
    effects_.Send(worker.identity, wire::Cancel{copy.id});
  }
}

void PrefixCopies::OnWorkerLost(const std::string& worker_id) {
  const auto found = copies_.find(worker_id);
  if (found == copies_.end()) return;
  if (found->second.hold) holds_.Leave(*found->second.hold);
  copies_.erase(found);
}

void PrefixCopies::Evict(const EvictOrder& order) {
  std::vector<Worker*> workers;
  for (const auto& [worker_id, copy] : copies_) {
    if (IsNamed(order, copy.spec)) workers.push_back(worker_registry_.Find(worker_id));
  }
  for (Worker* const worker : workers) {
    Stop(*worker, copies_.at(worker->hello.worker_id));
    Drop(*worker, Error{ErrorCode::kCancelled, "the prefix was evicted", ""});
  }
}

void PrefixCopies::EndAll() {
  for (const auto& [worker_id, copy] : copies_) Stop(*worker_registry_.Find(worker_id), copy);
  while (!copies_.empty()) {
    Drop(*worker_registry_.Find(copies_.begin()->first), Error{ErrorCode::kUnavailable, "the router is stopping", ""});
  }
}

}  // namespace roost::router
