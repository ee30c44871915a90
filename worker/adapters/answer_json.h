// Functions that the readers of all engines' answers share: tokens, and log probabilities in the wire's
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_read.h"
#include "common/wire/messages.h"

namespace roost::worker::adapters {

// A list of token ids.
[[nodiscard]] Result<std::vector<TokenId>> ReadTokens(const json::Array& list);

// Parses a document, or says that the engine's answer is none.
[[nodiscard]] Result<json::Element> ParseAnswer(simdjson::dom::parser& parser, std::string_view text);

// An error about an answer that another version of the engine may give.
[[nodiscard]] Error Unreadable(std::string_view what);

// A position's log probabilities from those of its own token and of the likeliest ones, in any order, its own perhaps
// among them. `wanted` is how many of the likeliest were asked for: the result has no more. Without a rank from the
// engine, the own token's is its place among them, or one more than the wanted ones, which it is at least.
[[nodiscard]] wire::TokenLogprobs Ranked(wire::TokenLogprob own, std::vector<wire::TokenLogprob> likeliest,
                                         std::uint32_t wanted, std::optional<std::uint32_t> rank);

}  // namespace roost::worker::adapters
