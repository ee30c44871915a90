// From a validated request to what a worker is asked to do: rendered, tokenized, bounded by the model's context,
// hashed. Pure, apart from the date that a template may ask for.
//
// The text of a special token ("<|im_end|>") inside a message becomes that token, as it does in every server that
// renders first and tokenizes after: templates write their own special tokens as text. So whoever may write messages
// may write a whole conversation; roles are no boundary between the author of the messages and the model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/text/prompt_text.h"
#include "common/text/tokenizer.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/fleet/dispatcher.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

// `unix_seconds` is the time that templates see. Errors name `messages` or `model` (it has no template).
[[nodiscard]] Result<std::string> RenderChat(const ServedModel& model, const ChatRequest& request,
                                             std::int64_t unix_seconds);
// kContextTooLong for a text of which that is certain by its bytes. Constant time; the functions below ask it first.
[[nodiscard]] Result<void> CheckTextLength(const ServedModel& model, std::string_view text, std::string_view field);

// Of what RenderChat made.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeRendered(const ServedModel& model, std::string_view text);

// Errors name the prompt, or the id in it that the model does not have.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeCompletion(const ServedModel& model, const CompletionPrompt& prompt);

// A text as it is. Errors name `field`.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeText(const ServedModel& model, std::string_view text,
                                                        SpecialTokens specials, std::string_view field);

// The functions above with the hashes of the blocks, and with what is remembered of earlier prompts. Prompts that shall
// use no cache and leave nothing in one leave nothing here either.
struct MemoUse {
  PromptMemo& memo;
  const CacheFields& cache;
};
[[nodiscard]] Result<HashedTokens> ReadRendered(const ServedModel& model, PromptText text, const MemoUse& use);
[[nodiscard]] Result<HashedTokens> ReadCompletion(const ServedModel& model, const CompletionPrompt& prompt,
                                                  const MemoUse& use);
[[nodiscard]] Result<HashedTokens> ReadText(const ServedModel& model, std::string_view text, SpecialTokens specials,
                                            const MemoUse& use);

// "301 tokens", or "more than …": the functions above stop counting at four contexts.
[[nodiscard]] std::string CountedTokens(const ServedModel& model, std::size_t count);

struct PromptSource {
  std::string_view field;          // that the prompt came from, for errors
  std::uint64_t default_seed = 0;  // when the request has none
};

// `prompt` within the model's context and `fields` with the model's defaults. kContextTooLong tells the numbers.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model,
                                                    std::vector<TokenId> prompt, const SamplingFields& fields,
                                                    const PromptSource& source);

// The same of a prompt whose blocks are hashed, under the salt of `fields`.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model, HashedTokens prompt,
                                                    const SamplingFields& fields, const PromptSource& source);

}  // namespace roost::router
