// Orders on the cache. Pins and questions are carried out at once; an erasure and a Hold take steps.
#include "worker/cache/cache_travel.h"
#include "worker/cache/cache_views.h"
#include "worker/engine/engine_state.h"
#include "worker/engine/erasures.h"
#include "worker/engine/holds.h"

namespace roost::worker {
namespace {

wire::PinAnswer AnswerOf(std::uint64_t answer_id, const PinCounts& counts) {
  return {.answer_id = answer_id,
          .kept_block_count = counts.kept,
          .awaited_block_count = counts.awaited,
          .refused_block_count = counts.refused};
}

}  // namespace

template <>
std::optional<OrderReply> Engine::State::CarryOut(LinkId /*link*/, wire::Pin& pin,
                                                  const std::optional<HoldReceipt>& /*receipt*/) {
  const Instant now = clock.Now();
  scheduler.AdvanceTo(now);
  cache.claims().Pin(pin.hashes, After(pin.duration_ms, now));
  return AnswerOf(pin.answer_id, cache.claims().PinsOf(pin.hashes));
}

template <>
std::optional<OrderReply> Engine::State::CarryOut(LinkId /*link*/, wire::Unpin& unpin,
                                                  const std::optional<HoldReceipt>& /*receipt*/) {
  cache.claims().Unpin(unpin.hashes);
  return AnswerOf(unpin.answer_id, cache.claims().PinsOf(unpin.hashes));
}

template <>
std::optional<OrderReply> Engine::State::CarryOut(LinkId /*link*/, wire::WantPrefixes& want,
                                                  const std::optional<HoldReceipt>& /*receipt*/) {
  wire::Prefixes answer{.answer_id = want.answer_id, .prefixes = MostUsed(cache.tree(), want.most, want.tokens)};
  if (want.with_hashes == wire::PrefixHashes::kTell) {
    scheduler.AdvanceTo(clock.Now());
    DescribePrefixes(cache, wire::kMaxUsedHashes, answer.prefixes);
  }
  return answer;
}

template <>
std::optional<OrderReply> Engine::State::CarryOut(LinkId link, wire::Hold& hold,
                                                  const std::optional<HoldReceipt>& receipt) {
  if (receipt) scheduler.AdvanceTo(clock.Now());
  return holds.Begin(link, hold, receipt, GroupOf(hold.tenant));
}

// Requests that wait for their automata are no sequences yet.
template <>
std::optional<OrderReply> Engine::State::CarryOut(LinkId link, wire::Evict& order,
                                                  const std::optional<HoldReceipt>& /*receipt*/) {
  if (erasures.open_count() >= kMaxEvictions) return Refusal(order);
  constraints.KeepOutWhere(
      [&](const wire::Generate& request) { return Erasures::Names(order, request, model.block_tokens()); });
  erasures.Begin(link, std::move(order));
  return std::nullopt;
}

std::optional<OrderReply> Engine::CarryOut(LinkId link, EngineOrder order, std::optional<HoldReceipt> receipt) {
  state_->awaits_blocks_only = false;
  return std::visit([&](auto& each) { return state_->CarryOut(link, each, receipt); }, order);
}

}  // namespace roost::worker
