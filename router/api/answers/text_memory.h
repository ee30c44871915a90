// Upper bounds on the memory that each stage of work on a request's text takes. Before each stage the request's charge
// on the server's budget is set to that bound, so the budget covers the work too, not only the bytes that arrived:
//
//   body → JSON → values → prompt text → tokens → hashes                     → answer
//   n      ParseBytes     EncodeBytes            SpecBytes, until the request   AnswerStartBytes, then DeltaBytes more
//                                                ends                           as it comes, until the client has it
//
// An answer that is gathered is charged as it grows, not for all that its request allows: most end long before
// max_tokens, and a few dozen that may be long must not keep each other out. A request whose answer could never fit is
// refused before it is dispatched (CheckAnswerFits), if the client itself set its length. A stream holds only what its
// client has not read yet, and the connection charges that.
//
// The factors were measured with the worst texts known for each stage. They count bytes requested from the allocator,
// as a limit on the address space does. jinja::Limits bounds a template's intermediate values separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/byte_budget.h"
#include "common/base/result.h"
#include "router/api/answer.h"
#include "router/api/requests/sampling_fields.h"
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

// The most memory that a gathered answer of these choices may take.
struct AnswerBound {
  std::uint64_t choices = 1;
  std::uint64_t tokens = 0;               // of one choice
  std::optional<std::uint32_t> logprobs;  // alternatives beside each token
  std::uint64_t start_bytes = 0;          // AnswerStartBytes
};
[[nodiscard]] std::uint64_t AnswerBytes(const AnswerBound& bound);

// The part of an answer's memory that is known before its first token, for the choices of one prompt: their state, and
// the prompt's own tokens and log probabilities where the answer repeats them.
struct AnswerShape {
  Delivery delivery = Delivery::kWhole;
  TokenIdReport token_ids = TokenIdReport::kOmit;
  std::size_t stop_bytes = 0;  // of stop strings, which each choice looks for
};
[[nodiscard]] std::uint64_t AnswerStartBytes(const GenerateSpec& spec, const AnswerShape& shape);

// The memory that one more piece of a gathered answer takes, as values and as JSON.
[[nodiscard]] std::uint64_t DeltaBytes(const AnswerDelta& delta);

// kBodyTooLarge, with the numbers, when `memory` could never hold such an answer. `field` is the one that bounds it.
[[nodiscard]] Result<void> CheckAnswerFits(const ByteBudget::Guard& memory, const AnswerBound& bound,
                                           const std::string& field);

// Adds to the charge of an answer that grows, whose request holds `request_bytes` beside it. kOverloaded when there is
// no room now, kBodyTooLarge when there never is.
[[nodiscard]] Result<void> HoldMore(ByteBudget::Guard& memory, std::uint64_t bytes, std::uint64_t request_bytes = 0);

// Resizes the charge of `memory` to `bytes`. kOverloaded when the budget has no room now, kBodyTooLarge when it can
// never have room.
[[nodiscard]] Result<void> Hold(ByteBudget::Guard& memory, std::uint64_t bytes);

}  // namespace roost::router
