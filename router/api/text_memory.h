// Upper bounds on the memory that each stage of work on a request's text takes. Before each stage the request's charge
// on the server's budget is set to that bound, so the budget covers the work too, not only the bytes that arrived:
//
//   body → JSON → values → prompt text → tokens → hashes
//   n      ParseBytes     EncodeBytes            SpecBytes, until the request ends
//
// The factors were measured with the worst texts known for each stage. They count bytes requested from the allocator,
// as a limit on the address space does. jinja::Limits bounds a template's intermediate values separately.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/byte_budget.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// For a body of `body_bytes` and its JSON, twice: templates' values are parsed from a second text.
[[nodiscard]] std::uint64_t ParseBytes(std::size_t body_bytes);

// The same plus the values made from the JSON, once the number of its `nodes` is known.
[[nodiscard]] std::uint64_t ParseBytes(std::size_t body_bytes, std::size_t nodes);

// For a prompt text and the tokenizer's work on it.
[[nodiscard]] std::uint64_t EncodeBytes(std::size_t text_bytes);

// For the spec and the message that is made from it.
[[nodiscard]] std::uint64_t SpecBytes(const GenerateSpec& spec);

// Resizes the charge of `memory` to `bytes`. kOverloaded when the budget has no room now, kBodyTooLarge when it can
// never have room.
[[nodiscard]] Result<void> Hold(ByteBudget::Guard& memory, std::uint64_t bytes);

}  // namespace roost::router
