#include "router/api/answers/text_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/base/byte_size.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::router {
namespace {

// Per byte of text: simdjson takes 14, whatever the text; the rest is for the text itself and copies of its strings.
constexpr std::uint64_t kJsonFactor = 16;
// One value as requests and templates hold it, including its share of the container around it.
constexpr std::uint64_t kNodeBytes = 96;
// Per byte of text: the worst case, a single endless word, takes 48; the rest is for the text and its source.
constexpr std::uint64_t kEncodeFactor = 56;
// The memory that every request needs in addition to its prompt: entries in the request table, the answer's state.
constexpr std::uint64_t kRequestBytes = 8 * 1024;
// One token with its log probability, as a value (twice for a prompt's) and as JSON. The longest JSON is that of a
// prompt whose answer has both OpenAI's and vLLM's form.
constexpr std::uint64_t kScoredTokenBytes = 128;
// One choice: what turns its tokens into text, its parser, its part of the answer.
constexpr std::uint64_t kChoiceBytes = 4 * 1024;
// One token's id, in the answer and where the request waits to be continued, and as JSON.
constexpr std::uint64_t kTokenBytes = 32;
// Per byte of text: a string that grows, and its JSON.
constexpr std::uint64_t kAnswerTextFactor = 4;
// The text of a usual token, for bounds.
constexpr std::uint64_t kTokenTextBytes = 4;

std::uint64_t ScoredBytes(std::uint64_t tokens, const std::optional<std::uint32_t>& top) {
  return top ? tokens * (1 + *top) * kScoredTokenBytes : 0;
}

std::uint64_t BytesOf(const std::vector<wire::TokenLogprobs>& logprobs) {
  std::uint64_t count = 0;
  for (const wire::TokenLogprobs& each : logprobs) count += 1 + each.top.size();
  return count * kScoredTokenBytes;
}

}  // namespace

std::uint64_t ParseBytes(std::size_t body_bytes) { return kRequestBytes + 2 * kJsonFactor * body_bytes; }

std::uint64_t ParseBytes(std::size_t body_bytes, std::size_t nodes) {
  return ParseBytes(body_bytes) + 2 * body_bytes + kNodeBytes * nodes;
}

std::uint64_t EncodeBytes(std::size_t text_bytes) { return kRequestBytes + kEncodeFactor * text_bytes; }

std::uint64_t SpecBytes(const GenerateSpec& spec) {
  const std::uint64_t once = spec.generate.prompt.capacity() * sizeof(TokenId) +
                             spec.generate.block_hashes.capacity() * sizeof(BlockHash) +
                             (spec.generate.constraint ? spec.generate.constraint->text.size() : 0);
  return kRequestBytes + 2 * once;
}

std::uint64_t AnswerBytes(const AnswerBound& bound) {
  const std::uint64_t text = kTokenTextBytes * kAnswerTextFactor;
  return bound.start_bytes +
         bound.choices * (bound.tokens * (kTokenBytes + text) + ScoredBytes(bound.tokens, bound.logprobs));
}

std::uint64_t AnswerStartBytes(const GenerateSpec& spec, const AnswerShape& shape) {
  // A stream sends the prompt's part with each choice's first piece, and holds its values alone.
  const std::uint64_t copies = shape.delivery == Delivery::kWhole ? spec.generate.sample_count : 1;
  const bool repeats = shape.token_ids == TokenIdReport::kTell || spec.generate.prompt_logprobs;
  const std::uint64_t repeated = repeats ? spec.generate.prompt.size() * kTokenBytes +
                                               ScoredBytes(spec.generate.prompt.size(), spec.generate.prompt_logprobs)
                                         : 0;
  return spec.generate.sample_count * (kChoiceBytes + shape.stop_bytes) + copies * repeated;
}

std::uint64_t DeltaBytes(const AnswerDelta& delta) {
  std::uint64_t text = delta.content.size() + delta.reasoning.size();
  for (const ToolCallDelta& call : delta.tool_calls) text += call.id.size() + call.name.size() + call.arguments.size();
  return kAnswerTextFactor * text + kTokenBytes * delta.tokens.size() + BytesOf(delta.logprobs);
}

Result<void> CheckAnswerFits(const ByteBudget::Guard& memory, const AnswerBound& bound, const std::string& field) {
  const std::uint64_t bytes = AnswerBytes(bound);
  if (memory.CouldHold(bytes)) return {};
  const std::string scores =
      bound.logprobs ? fmt::format(" and log probabilities of {} tokens each", 1 + *bound.logprobs) : "";
  return Error{
      ErrorCode::kBodyTooLarge,
      fmt::format("an answer of {} x {} tokens{} may take {} of memory, more than the {} that this request may "
                  "have: ask for less, or for a stream",
                  bound.choices, bound.tokens, scores, ByteSizeText(bytes), ByteSizeText(memory.most())),
      field};
}

Result<void> HoldMore(ByteBudget::Guard& memory, std::uint64_t bytes, std::uint64_t request_bytes) {
  if (memory.TryGrow(bytes)) return {};
  if (memory.CouldHold(memory.bytes() + bytes + request_bytes)) {
    return Error{ErrorCode::kOverloaded, "the server has no memory for the rest of this answer now", ""};
  }
  return Error{ErrorCode::kBodyTooLarge,
               fmt::format("the answer takes more than the {} of memory that this request may have: ask for less, or "
                           "for a stream",
                           ByteSizeText(memory.most())),
               ""};
}

Result<void> Hold(ByteBudget::Guard& memory, std::uint64_t bytes) {
  if (memory.TryResize(bytes)) return {};
  if (!memory.CouldHold(bytes)) {
    return Error{ErrorCode::kBodyTooLarge,
                 fmt::format("the request needs {} bytes of memory, more than the {} that it may have here", bytes,
                             memory.most()),
                 ""};
  }
  return Error{ErrorCode::kOverloaded, "the server has no memory for more requests now", ""};
}

}  // namespace roost::router
