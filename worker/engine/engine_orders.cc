// Orders on the cache. Pins and questions are carried out at once. An eviction is taken at any time, and carried out at
// the beginning of the steps after it, a bounded number of blocks in each, one order after the other.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "worker/cache/cache_eraser.h"
#include "worker/cache/cache_views.h"
#include "worker/engine/engine_state.h"

namespace roost::worker {
namespace {

BlockChain ChainOf(const wire::PromptToEvict& prompt) {
  return {prompt.root, prompt.block_hashes, prompt.tokens, prompt.own};
}

}  // namespace

wire::PinAnswer Engine::State::PinsOf(std::uint64_t answer_id, std::span<const BlockHash> hashes) const {
  const PinCounts counts = cache.claims().PinsOf(hashes);
  return {.answer_id = answer_id,
          .kept_block_count = counts.kept,
          .awaited_block_count = counts.awaited,
          .refused_block_count = counts.refused};
}

template <>
std::optional<OrderReply> Engine::State::CarryOutOne(LinkId /*link*/, wire::Pin& pin) {
  const Instant now = clock.Now();
  scheduler.AdvanceTo(now);
  cache.claims().Pin(pin.hashes, After(pin.duration_ms, now));
  return PinsOf(pin.answer_id, pin.hashes);
}

template <>
std::optional<OrderReply> Engine::State::CarryOutOne(LinkId /*link*/, wire::Unpin& unpin) {
  cache.claims().Unpin(unpin.hashes);
  return PinsOf(unpin.answer_id, unpin.hashes);
}

template <>
std::optional<OrderReply> Engine::State::CarryOutOne(LinkId /*link*/, wire::WantPrefixes& want) {
  return wire::Prefixes{.answer_id = want.answer_id, .prefixes = MostUsed(cache.tree(), want.most, want.tokens)};
}

// Nothing comes for a Hold without a receipt.
template <>
std::optional<OrderReply> Engine::State::CarryOutOne(LinkId /*link*/, wire::Hold& hold) {
  return Refusal(hold);
}

// ---- holds ----

std::optional<OrderReply> Engine::State::BeginHold(LinkId link, const wire::Hold& hold, HoldReceipt receipt) {
  if (options.arriving == nullptr || options.readable == nullptr) return Refusal(hold);
  const Instant now = clock.Now();
  scheduler.AdvanceTo(now);
  last_hold = receipt.id;
  ArrivalSpec spec{.id = receipt.id,
                   .chain = ChainOf(hold),
                   .tenant = hold.tenant,
                   .group = GroupOf(hold.tenant),
                   .source = sources.IdOf(hold.source.worker_id),
                   .purpose = hold.purpose,
                   .begin = receipt.received,
                   .patience_end = receipt.received + std::chrono::milliseconds(hold.patience_ms)};
  if (!scheduler.arrivals().Begin(std::move(spec))) {
    if (options.source != nullptr) options.source->Cancel(receipt.id);
    return Refusal(hold);
  }
  holds.emplace(receipt.id, OpenHold{link, hold.answer_id});
  return std::nullopt;
}

// A source may be quicker than the order: what it tells waits for it.
void Engine::State::TakeNews() {
  if (options.arriving == nullptr || (!options.arriving->has_news() && early_news.empty())) return;
  std::vector<FrameNews> all = std::exchange(early_news, {});
  std::vector<FrameNews> fresh = options.arriving->Take();
  std::move(fresh.begin(), fresh.end(), std::back_inserter(all));
  for (FrameNews& news : all) {
    const HoldId id = std::visit([](const auto& each) { return each.id; }, news);
    if (id > last_hold) {
      early_news.push_back(std::move(news));
    } else {
      scheduler.arrivals().Take(std::move(news));
    }
  }
}

// Requests that wait for their automata are no sequences yet.
void Engine::State::EndUnwantedHolds(Instant now) {
  scheduler.arrivals().EndUnwanted(now, [this](BlockHash block, std::uint32_t position) {
    const auto is_of = [&](const auto& each) {
      const std::vector<BlockHash>& hashes = each.second.generate.block_hashes;
      return position < hashes.size() && hashes[position] == block;
    };
    return scheduler.Wants(block, position) || std::any_of(constraining.begin(), constraining.end(), is_of);
  });
}

void Engine::State::CountArrival(const wire::HoldAnswer& answer, StepCounts& counts) const {
  constexpr double kMicrosecond = 1e-6;
  ++counts.arrivals[static_cast<std::size_t>(answer.outcome)];
  if (answer.arrived_block_count == 0) return;
  counts.arrived_blocks += answer.arrived_block_count;
  counts.arrived_bytes += answer.bytes;
  counts.arrived_prefill_seconds += scheduler.PrefillSecondsOf(answer.arrived_block_count * model.block_tokens());
  counts.arrival_seconds.push_back(static_cast<double>(answer.microseconds) * kMicrosecond);
  counts.arrival_first_frame_seconds.push_back(static_cast<double>(answer.first_frame_microseconds) * kMicrosecond);
}

void Engine::State::AnswerHolds(StepReport& report) {
  if (!scheduler.arrivals().has_ended()) return;
  const Instant now = clock.Now();
  const auto micros = [](Duration time) {
    return static_cast<std::uint64_t>(
        std::max<Duration::rep>(std::chrono::duration_cast<std::chrono::microseconds>(time).count(), 0));
  };
  for (const EndedArrival& ended : scheduler.arrivals().TakeEnded()) {
    if (!ended.source_ended && options.source != nullptr) options.source->Cancel(ended.id);
    const auto hold = holds.find(ended.id);
    // The time that the blocks took, without that of the step under way when the last one came.
    const Instant end = ended.outcome == wire::HoldOutcome::kComplete ? ended.last_frame.value_or(now) : now;
    wire::HoldAnswer answer{.answer_id = hold->second.answer_id,
                            .held_block_count = ended.held_count,
                            .arrived_block_count = ended.arrived_count,
                            .missing_block_count = ended.missing_count,
                            .bytes = std::uint64_t{ended.arrived_count} * options.readable->sizes().frame_bytes(),
                            .microseconds = micros(end - ended.begin),
                            .outcome = ended.outcome,
                            .cause = ended.cause};
    if (ended.first_frame)
      answer.first_frame_microseconds = std::max<std::uint64_t>(1, micros(*ended.first_frame - ended.begin));
    CountArrival(answer, report.counts);
    report.answers.push_back({hold->second.link, answer});
    holds.erase(hold);
  }
}

// ---- evictions ----

template <>
std::optional<OrderReply> Engine::State::CarryOutOne(LinkId link, wire::Evict& order) {
  if (evictions.size() >= kMaxEvictions) return Refusal(order);
  OpenEviction& eviction = evictions.emplace_back();
  eviction.link = link;
  eviction.order = std::move(order);
  if (auto* const prompt = std::get_if<wire::PromptToEvict>(&eviction.order.what)) {
    if (prompt->block_hashes.size() != prompt->tokens.size() / model.block_tokens()) {
      prompt->block_hashes = HashBlocks(prompt->root, prompt->own, prompt->tokens, model.block_tokens());
    }
  }
  if (const auto* const block = std::get_if<wire::BlockToEvict>(&eviction.order.what)) {
    eviction.chain = CacheEraser(cache).ChainTo(block->hash);
  }
  std::visit([this](const auto& what) { KeepOut(what); }, eviction.order.what);
  return std::nullopt;
}

// Requests that wait for their automata are no sequences yet.
void Engine::State::KeepOut(const wire::PromptToEvict& prompt) {
  scheduler.KeepOut(ChainOf(prompt));
  for (auto& [id, submit] : constraining) {
    const std::vector<TokenId>& tokens = submit.generate.prompt;
    const bool is_longer = submit.generate.root == prompt.root && tokens.size() >= prompt.tokens.size();
    if (!is_longer || !std::equal(prompt.tokens.begin(), prompt.tokens.end(), tokens.begin())) continue;
    submit.generate.cache_mode = wire::CacheMode::kOff;
  }
}

void Engine::State::KeepOut(const wire::TenantToEvict& tenant) {
  scheduler.KeepOut(tenant.tenant);
  for (auto& [id, submit] : constraining) {
    if (submit.generate.tenant == tenant.tenant) submit.generate.cache_mode = wire::CacheMode::kOff;
  }
}

void Engine::State::KeepOut(const wire::BlockToEvict& block) {
  scheduler.KeepOut(block.hash);
  for (auto& [id, submit] : constraining) {
    const wire::Generate& generate = submit.generate;
    const std::vector<BlockHash> hashes =
        HashBlocks(generate.root, generate.own, generate.prompt, model.block_tokens());
    if (std::find(hashes.begin(), hashes.end(), block.hash) == hashes.end()) continue;
    submit.generate.cache_mode = wire::CacheMode::kOff;
  }
}

EraseProgress Engine::State::Erase(const OpenEviction& eviction, EraseStep& step) {
  if (!eviction.chain.empty()) return scheduler.EraseChain(eviction.chain, step);
  if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&eviction.order.what)) {
    return scheduler.Erase(ChainOf(*prompt), step);
  }
  return scheduler.Erase(std::get<wire::TenantToEvict>(eviction.order.what).tenant, step);
}

void Engine::State::ContinueEvictions(StepReport& report) {
  std::uint32_t budget = kErasedPerStep;
  while (!evictions.empty() && budget > 0) {
    OpenEviction& eviction = evictions.front();
    EraseStep step{.budget = budget};
    const EraseProgress progress = Erase(eviction, step);
    budget = step.budget;
    eviction.erased.freed += step.freed;
    eviction.erased.busy += step.busy;
    if (progress == EraseProgress::kUnfinished) return;
    report.answers.push_back({eviction.link, wire::EvictAnswer{.answer_id = eviction.order.answer_id,
                                                               .evicted_block_count = eviction.erased.freed,
                                                               .busy_block_count = eviction.erased.busy}});
    evictions.pop_front();
  }
}

std::optional<OrderReply> Engine::State::CarryOut(LinkId link, EngineOrder order) {
  return std::visit([&](auto& each) { return CarryOutOne(link, each); }, order);
}

}  // namespace roost::worker
