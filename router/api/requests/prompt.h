// Turns a validated request into the spec for a worker: renders, tokenizes, checks against the model's context, hashes.
// Pure, except that a template may read the date.
//
// The text of a special token ("<|im_end|>") becomes that token if the template's author wrote it. If it came with the
// request (in messages, names, tools, results, template variables), it is ordinary text, so a message can not end
// itself early. A role is one of a fixed set, so it counts as the template's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/text/jinja/traced_text.h"
#include "common/text/jinja/value.h"
#include "common/text/tokenizer.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/completion_request.h"
#include "router/fleet/dispatcher.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

// The scope of a prompt's blocks: their tenant, and the prefixes that tenants share.

class SharedPrefixes;

struct PromptScope {
  std::string tenant;                      // of the request's key; empty: no tenant in particular
  std::shared_ptr<SharedPrefixes> shared;  // null: tenants share nothing
};

struct RenderSettings {
  std::int64_t unix_seconds = 0;  // the time that templates see
  // A client's text may spell special tokens, or not.
  enum class Content { kText, kMaySpellSpecialTokens } content = Content::kText;
  std::shared_ptr<SharedPrefixes> shared = {};  // null: tenants share nothing
};

// Errors name `messages`, or `model` if it has no template.
[[nodiscard]] Result<jinja::TracedText> RenderChat(const ServedModel& model, const ChatRequest& request,
                                                   const RenderSettings& settings);
// kContextTooLong if the text's size in bytes alone proves it too long. Constant time; the functions below call it
// first.
[[nodiscard]] Result<void> CheckTextLength(const ServedModel& model, std::string_view text, std::string_view field);

// Tokenizes a result of RenderChat.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeRendered(const ServedModel& model, const jinja::TracedText& text);

// Errors name the prompt, or the token id in it that the model does not have.
[[nodiscard]] Result<std::vector<TokenId>> TokenizeCompletion(const ServedModel& model, const CompletionPrompt& prompt);

// The Read… functions also hash the blocks, and reuse the memo's work on earlier prompts. A prompt that must neither
// use the cache nor be kept in it is not kept in the memo either.
struct MemoUse {
  PromptMemo& memo;
  const CacheFields& cache;
  const PromptScope& scope;
};
[[nodiscard]] Result<HashedTokens> ReadRenderedPrompt(const ServedModel& model, const jinja::TracedText& text,
                                                      const MemoUse& use);
[[nodiscard]] Result<HashedTokens> ReadCompletionPrompt(const ServedModel& model, const CompletionPrompt& prompt,
                                                        const MemoUse& use);
// Reads a plain text. Errors name `prompt`.
[[nodiscard]] Result<HashedTokens> ReadTextPrompt(const ServedModel& model, std::string_view text,
                                                  SpecialTokens specials, const MemoUse& use);

// Moves the blocks of a prefix that all tenants share into the scope that they share. Nothing for a prompt with a salt
// or without a tenant.
void ShareFront(const ServedModel& model, const PromptScope& scope, const std::string& salt, HashedTokens& prompt);

// Keeps the last tokens of a prompt, as `truncate_prompt_tokens` of `fields` asks. True if some were left out.
bool TruncateFront(const ServedModel& model, const SamplingFields& fields, const PromptScope& scope,
                   HashedTokens& prompt);

// "301 tokens", or "more than … tokens": the functions above stop counting at four times the context.
[[nodiscard]] std::string CountedTokens(const ServedModel& model, std::size_t count);

struct PromptSource {
  std::string_view field;          // the request's field with the prompt, for errors
  std::uint64_t default_seed = 0;  // used when the request has no seed
  PromptScope scope = {};
};

// Makes the spec from `prompt` and from `fields`, filled up with the model's defaults. kContextTooLong if prompt and
// answer exceed the model's context; its message has the numbers.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model,
                                                    std::vector<TokenId> prompt, const SamplingFields& fields,
                                                    const PromptSource& source);

// The same for a prompt whose blocks are already hashed, under the salt of `fields`.
[[nodiscard]] Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model, HashedTokens prompt,
                                                    const SamplingFields& fields, const PromptSource& source);

// ---- places ----

// Finds a chat's messages in the prompt that its template wrote.
//
//   <|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n
//                    [message]
//
// A template may trim, join, move or drop what it is given, so places are looked for: the text of each message behind
// that of the one before, at a byte that came with the request (traced_text.h). A message that is not found has no
// place of its own; what asks for one gets the end of what was found before it. So a place may be too early, never too
// late. O(text + messages).
class PromptPlaces {
 public:
  // `messages` as the request has them. Both outlive the object.
  PromptPlaces(const jinja::TracedText& text, const jinja::Value& messages);

  // The end of the first `bytes` of the message's text, or where they are not given of the whole message with its
  // calls.
  [[nodiscard]] std::size_t EndOf(std::size_t message, std::optional<std::size_t> bytes) const;
  // The end of what stands before the conversation: tools and instructions.
  [[nodiscard]] std::size_t EndOfFront() const;
  [[nodiscard]] std::size_t text_size() const { return text_.size(); }
  // The instructions before the conversation, as far as they were found; and each of its messages with what belongs to
  // it, up to where the next one begins.
  [[nodiscard]] std::vector<ByteRange> Instructions() const;
  [[nodiscard]] std::vector<ByteRange> Conversation() const;

 private:
  struct Place {
    std::size_t begin = 0;
    std::size_t end = 0;          // begin: it was not found
    std::size_t left_out = 0;     // bytes in front that the template trimmed
    bool is_instruction = false;  // before the conversation
  };

  [[nodiscard]] std::size_t LastGivenBefore(std::size_t end, std::size_t least) const;

  const jinja::TracedText& text_;
  std::vector<Place> places_;
};

// The tokens of a prompt that hold its text's first `bytes`. Tokens whose text the tokenizer's rules changed may make
// it a few tokens too many or too few. O(tokens between there and the nearer end).
[[nodiscard]] std::uint32_t TokensUpTo(const Tokenizer& tokenizer, std::span<const TokenId> tokens, ByteRange text);

}  // namespace roost::router
