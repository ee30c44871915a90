// From a validated request to what a worker is asked to do: rendered, tokenized, bounded by the model's context,
// hashed. Pure, apart from the date that a template may ask for.
//
// The text of a special token ("<|im_end|>") is that token where the template's author wrote it, and text like any
// other where it came with the request: in messages, names, tools, results, template variables. So messages end where
// the template ends them, whatever they say. A role is one of an enumeration; it counts as written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/text/jinja/traced_text.h"
#include "common/text/tokenizer.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/fleet/dispatcher.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

struct RenderSettings {
  std::int64_t unix_seconds = 0;  // the time that templates see
  // Does what a client writes spell special tokens too?
  enum class Content { kText, kMaySpellSpecialTokens } content = Content::kText;
};

// Errors name `messages` or `model` (it has no template).
[[nodiscard]] Result<jinja::TracedText> RenderChat(const ServedModel& model, const ChatRequest& request,
                                                   const RenderSettings& settings);
// kContextTooLong for a text of which that is certain by its bytes. Constant time; the functions below ask it first.
[[nodiscard]] Result<void> CheckTextLength(const ServedModel& model, std::string_view text, std::string_view field);

// Of what RenderChat made.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeRendered(const ServedModel& model, const jinja::TracedText& text);

// Errors name the prompt, or the id in it that the model does not have.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeCompletion(const ServedModel& model, const CompletionPrompt& prompt);

// The functions above with the hashes of the blocks, and with what is remembered of earlier prompts. Prompts that shall
// use no cache and leave nothing in one leave nothing here either.
struct MemoUse {
  PromptMemo& memo;
  const CacheFields& cache;
  std::string tenant;
};
[[nodiscard]] Result<HashedTokens> ReadRenderedPrompt(const ServedModel& model, const jinja::TracedText& text,
                                                      const MemoUse& use);
[[nodiscard]] Result<HashedTokens> ReadCompletionPrompt(const ServedModel& model, const CompletionPrompt& prompt,
                                                        const MemoUse& use);
// A text as it is. Errors name `prompt`.
[[nodiscard]] Result<HashedTokens> ReadTextPrompt(const ServedModel& model, std::string_view text,
                                                  SpecialTokens specials, const MemoUse& use);

// "301 tokens", or "more than …": the functions above stop counting at four contexts.
[[nodiscard]] std::string CountedTokens(const ServedModel& model, std::size_t count);

struct PromptSource {
  std::string_view field;          // that the prompt came from, for errors
  std::uint64_t default_seed = 0;  // when the request has none
  std::string tenant = {};         // whose blocks the prompt's are
};

// `prompt` within the model's context and `fields` with the model's defaults. kContextTooLong tells the numbers.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model,
                                                    std::vector<TokenId> prompt, const SamplingFields& fields,
                                                    const PromptSource& source);

// The same of a prompt whose blocks are hashed, under the salt of `fields`.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model, HashedTokens prompt,
                                                    const SamplingFields& fields, const PromptSource& source);

}  // namespace roost::router
