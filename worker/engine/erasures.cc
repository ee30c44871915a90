#include "worker/engine/erasures.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <variant>

namespace roost::worker {
namespace {

BlockChain ChainOf(const wire::PromptToEvict& prompt) {
  return {prompt.root, prompt.block_hashes, prompt.tokens, prompt.own};
}

bool BeginsWith(std::span<const TokenId> tokens, std::span<const TokenId> front) {
  return tokens.size() >= front.size() && std::equal(front.begin(), front.end(), tokens.begin());
}

bool Has(std::span<const BlockHash> hashes, BlockHash block) {
  return std::find(hashes.begin(), hashes.end(), block) != hashes.end();
}

void KeepOutOf(Sequence& sequence) {
  sequence.is_erased = true;
  sequence.can_commit = false;
}

}  // namespace

bool Erasures::Names(const wire::Evict& order, const wire::Generate& request, std::uint32_t block_tokens) {
  if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&order.what)) {
    return request.root == prompt->root && BeginsWith(request.prompt, prompt->tokens);
  }
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what)) {
    return request.tenant == tenant->tenant;
  }
  const BlockHash block = std::get<wire::BlockToEvict>(order.what).hash;
  return Has(HashBlocks(request.root, request.own, request.prompt, block_tokens), block);
}

void Erasures::Begin(LinkId link, wire::Evict order) {
  if (disk_ != nullptr) disk_->SetHidden(true);
  Open& open = open_.emplace_back(Open{.link = link, .order = std::move(order)});
  if (auto* const prompt = std::get_if<wire::PromptToEvict>(&open.order.what)) {
    if (prompt->block_hashes.size() != prompt->tokens.size() / cache_.block_tokens()) {
      prompt->block_hashes = HashBlocks(prompt->root, prompt->own, prompt->tokens, cache_.block_tokens());
    }
  }
  if (const auto* const block = std::get_if<wire::BlockToEvict>(&open.order.what)) {
    open.chain = CacheEraser(cache_).ChainTo(block->hash);
  }
  std::visit([this](const auto& what) { KeepOut(what); }, open.order.what);
}

// A sequence continues the prompt: it has the last full block, or begins like a prompt that has none. The tokens of
// blocks that are to come are not known: a prompt without a full block may be the front of any.
void Erasures::KeepOut(const wire::PromptToEvict& prompt) {
  const std::size_t count = prompt.block_hashes.size();
  const auto may_bring = [&](const ArrivalSpec& spec) {
    return count > 0 ? spec.Names(prompt.block_hashes.back()) : spec.chain.root == prompt.root;
  };
  arrivals_.EndWhere(may_bring, wire::HoldOutcome::kCancelled);
  const auto continues = [&](const Sequence& sequence) {
    if (sequence.root != prompt.root) return false;
    if (count > 0) return sequence.hashes.size() >= count && sequence.hashes[count - 1] == prompt.block_hashes.back();
    return BeginsWith(std::span(sequence.tokens).first(sequence.known_count()), prompt.tokens);
  };
  sequences_.VisitAll([&](Sequence& each) {
    if (continues(each)) KeepOutOf(each);
  });
}

void Erasures::KeepOut(const wire::TenantToEvict& tenant) {
  arrivals_.EndWhere([&](const ArrivalSpec& spec) { return spec.tenant == tenant.tenant; },
                     wire::HoldOutcome::kCancelled);
  const std::optional<TenantId> known = cache_.tenants().Find(tenant.tenant);
  sequences_.VisitAll([&](Sequence& each) {
    if (each.tenant == known) KeepOutOf(each);
  });
}

void Erasures::KeepOut(const wire::BlockToEvict& block) {
  arrivals_.EndWhere([&](const ArrivalSpec& spec) { return spec.Names(block.hash); }, wire::HoldOutcome::kCancelled);
  sequences_.VisitAll([&](Sequence& each) {
    if (Has(each.hashes, block.hash)) KeepOutOf(each);
  });
}

void Erasures::Continue(std::uint32_t budget) {
  while (!open_.empty() && budget > 0) {
    Open& open = open_.front();
    EraseStep step{.budget = budget};
    const EraseProgress progress = Erase(open, step);
    ForgetDiscarded();
    budget = step.budget;
    open.erased.freed += step.freed;
    open.erased.busy += step.busy;
    if (progress == EraseProgress::kUnfinished) return;
    in_pool_.push_back(std::move(open));
    open_.pop_front();
  }
}

EngineAnswer Erasures::Open::Answer(std::uint32_t disk_block_count) const {
  return {link, wire::EvictAnswer{.answer_id = order.answer_id,
                                  .evicted_block_count = erased.freed,
                                  .busy_block_count = erased.busy,
                                  .disk_block_count = disk_block_count}};
}

void Erasures::PassOn(std::vector<EngineAnswer>& answers) {
  for (const BlockHash block : std::exchange(wrong_, {})) disk_->Drop(block);
  for (Open& open : std::exchange(in_pool_, {})) {
    if (wiper_ != nullptr) {
      wiping_.emplace_back(wiper_->Begin(), std::move(open));
    } else {
      GoOn(std::move(open), answers);
    }
  }
  for (; IsWiped(); wiping_.pop_front()) GoOn(std::move(wiping_.front().second), answers);
}

void Erasures::GoOn(Open open, std::vector<EngineAnswer>& answers) {
  if (disk_ == nullptr) return answers.push_back(open.Answer(0));
  const std::uint64_t number = ++last_number_;
  disk_->Erase(number, open.order);
  on_disk_.emplace(number, std::move(open));
}

void Erasures::TakeErased(std::span<const DiskNews::Erased> erased, std::vector<EngineAnswer>& answers) {
  for (const DiskNews::Erased& each : erased) {
    answers.push_back(on_disk_.extract(each.id).mapped().Answer(each.block_count));
  }
  if (open_count() == 0) disk_->SetHidden(false);
}

EraseProgress Erasures::Erase(const Open& open, EraseStep& step) {
  CacheEraser eraser(cache_);
  if (!open.chain.empty()) return eraser.EraseChain(open.chain, step);
  if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&open.order.what)) {
    return eraser.ErasePrompt(ChainOf(*prompt), step);
  }
  const auto known = cache_.tenants().Find(std::get<wire::TenantToEvict>(open.order.what).tenant);
  return known ? eraser.EraseTenant(*known, step) : EraseProgress::kComplete;
}

void Erasures::Discard(SequenceId id) {
  Sequence& sequence = sequences_.all.At(id);
  if (!sequence.uses_cache()) return;
  const auto none = static_cast<std::uint32_t>(sequence.hashes.size());
  Discard(sequence, sequence.chain(), sequence.first_stored_block.value_or(none));
}

// A sequence that does not use the cache has no hashes.
void Erasures::DiscardPrefix(SequenceId id) {
  Sequence& sequence = sequences_.all.At(id);
  const auto prompt = std::span(sequence.tokens).first(sequence.prompt_token_count);
  const auto hashes =
      sequence.uses_cache() ? sequence.hashes : HashBlocks(sequence.root, sequence.own, prompt, cache_.block_tokens());
  Discard(sequence, {sequence.root, hashes, sequence.tokens, sequence.own, sequence.tenant}, 0);
}

void Erasures::Discard(Sequence& sequence, const BlockChain& chain, std::uint32_t first_block) {
  CacheEraser(cache_).Discard(chain, first_block);
  if (disk_ != nullptr && first_block < chain.hashes.size()) wrong_.push_back(chain.hashes[first_block]);
  sequence.can_commit = false;
  ForgetDiscarded();
}

// Rows of such a block may be in a block of a running sequence that is not committed yet.
std::uint32_t Erasures::DiscardFrom(SourceId source) {
  arrivals_.EndWhere([source](const ArrivalSpec& spec) { return spec.source == source; }, wire::HoldOutcome::kWrong);
  const auto is_of_it = [&](BlockId block) { return cache_.tree()[block.value()].source == source; };
  for (Sequence* const each : sequences_.running) {
    const auto own = std::span(each->blocks).subspan(each->committed_block_count);
    if (std::any_of(own.begin(), own.end(), is_of_it)) each->can_commit = false;
  }
  const std::uint32_t count = CacheEraser(cache_).DiscardFrom(source);
  ForgetDiscarded();
  return count;
}

// The running sequences and the arrivals have no ready block where one has left.
void Erasures::ForgetDiscarded() {
  for (Sequence* const each : sequences_.running) {
    while (each->committed_block_count > 0 && !cache_.IsReady(each->blocks[each->committed_block_count - 1])) {
      --each->committed_block_count;
      each->can_commit = false;
    }
  }
  arrivals_.CancelErased();
}

}  // namespace roost::worker
