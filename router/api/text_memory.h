// How much memory the work on a request's text takes, at most, stage by stage. What a request holds of the server's
// budget is made as large before each stage, so that a budget bounds the work too, not only the bytes that arrived:
//
//   body → JSON → values → prompt text → tokens → hashes
//   n      ParseBytes     EncodeBytes            SpecBytes, until the request ends
//
// The factors were measured with the worst texts known for each stage, counting what is asked of the allocator, as an
// address space's limit counts it. What a template makes on the way is bounded by its own limits (jinja::Limits).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/byte_budget.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// Body and JSON of `body_bytes`, twice: templates' values are read from a text of their own.
[[nodiscard]] std::uint64_t ParseBytes(std::size_t body_bytes);

// The same and what is made of it, once the number of JSON's `nodes` is known.
[[nodiscard]] std::uint64_t ParseBytes(std::size_t body_bytes, std::size_t nodes);

// A prompt text and the tokenizer's work on it.
[[nodiscard]] std::uint64_t EncodeBytes(std::size_t text_bytes);

// The spec and the message that is made of it.
[[nodiscard]] std::uint64_t SpecBytes(const GenerateSpec& spec);

// Makes what `memory` holds `bytes`. kOverloaded when the budget has no room now, kBodyTooLarge when it never has.
[[nodiscard]] Result<void> Hold(ByteBudget::Guard& memory, std::uint64_t bytes);

}  // namespace roost::router
