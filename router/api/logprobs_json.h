// Log probabilities as OpenAI's API and vLLM write them.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/ids.h"
#include "common/base/json_writer.h"
#include "common/text/tokenizer.h"
#include "common/wire/messages.h"

namespace roost::router {

// Consecutive tokens with their log probabilities. A prompt's first token has none, so for a prompt `logprobs` has one
// entry less than `tokens`.
struct ScoredTokens {
  std::span<const TokenId> tokens;
  std::span<const wire::TokenLogprobs> logprobs;
};

// For a chat: {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}.
void WriteChatLogprobs(const Tokenizer& tokenizer, const ScoredTokens& scored, JsonWriter& json);

// For a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}. Offsets count characters from the
// beginning of the choice's text; the call advances `offset` past these tokens.
void WriteCompletionLogprobs(const Tokenizer& tokenizer, std::span<const ScoredTokens> parts, std::size_t& offset,
                             JsonWriter& json);

// vLLM's prompt_logprobs: [null, {"ID": {"logprob","rank","decoded_token"}, …}, …].
void WritePromptLogprobs(const Tokenizer& tokenizer, const ScoredTokens& prompt, JsonWriter& json);

}  // namespace roost::router
