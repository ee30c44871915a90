// Orders of routers about an engine's cache, and its replies. A new order is one alternative here, with its name, its
// refusal and the feature that it needs, and one CarryOut in the engine (engine/engine_orders.cc); links and threads
// only pass it on.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <variant>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace roost::worker {

// Each has an answer_id, which its reply repeats. 0: no reply is wanted.
using EngineOrder = std::variant<wire::Pin, wire::Unpin, wire::Evict, wire::WantPrefixes, wire::Hold>;
using OrderReply = std::variant<wire::PinAnswer, wire::Prefixes, wire::EvictAnswer, wire::HoldAnswer>;

// The features of an engine that carries out all of them but a Hold, which needs a source of blocks.
inline constexpr wire::Features kOrderFeatures{wire::Feature::kAnswers, wire::Feature::kEvicts,
                                               wire::Feature::kEvictsBlocks};

// A Hold at this worker; ascending, and never used again.
using HoldId = StrongId<struct HoldTag, std::uint64_t>;

// The number that a Hold got when it came, and when that was. What comes for it is told under this number.
struct HoldReceipt {
  HoldId id;
  Instant received;
};

// Is this message of a router an order?
template <typename Message, typename Order = EngineOrder>
inline constexpr bool kIsEngineOrder = false;
template <typename Message, typename... Orders>
inline constexpr bool kIsEngineOrder<Message, std::variant<Orders...>> = (std::is_same_v<Message, Orders> || ...);

[[nodiscard]] inline std::string_view NameOf(const EngineOrder& order) {
  constexpr std::string_view kNames[] = {"pin", "unpin", "evict", "prefixes", "hold"};
  static_assert(std::size(kNames) == std::variant_size_v<EngineOrder>);
  return kNames[order.index()];
}

[[nodiscard]] inline std::uint64_t AnswerIdOf(const OrderReply& reply) {
  return std::visit([](const auto& each) { return each.answer_id; }, reply);
}

// The replies of an engine that carries out no order.
[[nodiscard]] inline OrderReply Refusal(const wire::Pin& pin) {
  return wire::PinAnswer{.answer_id = pin.answer_id,
                         .refused_block_count = static_cast<std::uint32_t>(pin.hashes.size())};
}
// Nothing is pinned, so nothing has to be done.
[[nodiscard]] inline OrderReply Refusal(const wire::Unpin& unpin) {
  return wire::PinAnswer{.answer_id = unpin.answer_id};
}
[[nodiscard]] inline OrderReply Refusal(const wire::Evict& evict) {
  return wire::EvictAnswer{.answer_id = evict.answer_id, .outcome = wire::EvictOutcome::kRefused};
}
[[nodiscard]] inline OrderReply Refusal(const wire::WantPrefixes& want) {
  return wire::Prefixes{.answer_id = want.answer_id, .prefixes = {}};
}
[[nodiscard]] inline OrderReply Refusal(const wire::Hold& hold) {
  return wire::HoldAnswer{.answer_id = hold.answer_id,
                          .missing_block_count = static_cast<std::uint32_t>(hold.hashes.size()),
                          .outcome = wire::HoldOutcome::kRefused};
}
[[nodiscard]] inline OrderReply RefusalOf(const EngineOrder& order) {
  return std::visit([](const auto& each) { return Refusal(each); }, order);
}

}  // namespace roost::worker
