#include "router/api/requests/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "router/api/requests/shared_prefixes.h"
#include "router/api/requests/template_messages.h"

namespace roost::router {
namespace {

// A prompt that does not fit is still counted, so that its error can say by how much, but only up to this limit.
std::size_t MaxCountedTokens(const ServedModel& model) {
  constexpr std::size_t kCountedContexts = 4;
  return kCountedContexts * std::size_t{model.max_context_tokens};
}

// The variables for every template. A client can add its own, but of these it can replace only reasoning_effort, and
// documents where the request has none beside.
jinja::Value TemplateContext(const ServedModel& model, const ChatRequest& request, const jinja::Value& messages) {
  jinja::Dict context;
  if (!request.reasoning_effort.empty()) {
    context.Set("reasoning_effort", jinja::Value::String(request.reasoning_effort));
  }
  for (const jinja::Dict::Entry& entry : request.template_variables.AsDict().entries()) {
    context.Set(entry.key, entry.value);
  }
  const bool adds_prompt = request.generation_prompt == ChatRequest::GenerationPrompt::kAdd;
  context.Set("messages", messages);
  context.Set("tools", ToolsForTemplate(request.tools, model.chat_template->traits()));
  if (request.documents.is(jinja::Kind::kSequence) || context.Find("documents") == nullptr) {
    context.Set("documents", request.documents);
  }
  context.Set("add_generation_prompt", jinja::Value::Bool(adds_prompt));
  context.Set("bos_token", jinja::Value::WrittenString(model.bos_token));
  context.Set("eos_token", jinja::Value::WrittenString(model.eos_token));
  return jinja::Value::Mapping(std::move(context));
}

// Clients search errors for this wording, to fall back to a model with a longer context.
std::string ContextBound(std::size_t tokens) {
  return fmt::format("this model's maximum context length is {} tokens", tokens);
}

Error TooLong(const ServedModel& model, std::size_t prompt_tokens, std::string_view field) {
  return {ErrorCode::kContextTooLong,
          fmt::format("the prompt has {}, which leaves no room for an answer: {}", CountedTokens(model, prompt_tokens),
                      ContextBound(model.max_context_tokens)),
          std::string(field)};
}

// A text that the tokenizer rejects is the client's: the error names the field and the tokenizer's reason.
Result<std::vector<TokenId>> Encode(const ServedModel& model, PromptText text, SpecialTokens specials,
                                    std::string_view field) {
  ROOST_RETURN_IF_ERROR(CheckTextLength(model, text.bytes, field));
  Result<std::vector<TokenId>> ids = model.tokenizer->Encode(text, specials, MaxCountedTokens(model));
  if (!ids.ok()) return InvalidArgument(std::string(field), "can not be tokenized: {}", ids.error().message);
  return ids;
}

struct TextToRead {
  PromptText text;
  SpecialTokens special_tokens;
  std::string_view field;
};

Result<HashedTokens> Read(const ServedModel& model, const TextToRead& prompt, const MemoUse& use) {
  ROOST_RETURN_IF_ERROR(CheckTextLength(model, prompt.text.bytes, prompt.field));
  const PromptMemo::Scope scope{model.tokenizer, prompt.special_tokens,
                                ScopeRoot(model, use.scope.tenant, use.cache.salt), model.block_tokens};
  const std::size_t most = MaxCountedTokens(model);
  Result<HashedTokens> read = use.cache.mode == wire::CacheMode::kOn ? use.memo.Read(scope, prompt.text, most)
                                                                     : PromptMemo::ReadWhole(scope, prompt.text, most);
  if (!read.ok()) return InvalidArgument(std::string(prompt.field), "can not be tokenized: {}", read.error().message);
  ShareFront(model, use.scope, use.cache.salt, *read);
  return read;
}

Result<void> CheckIds(const ServedModel& model, const std::vector<TokenId>& ids, std::string_view path) {
  const auto unknown =
      std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id >= model.tokenizer->vocab_size(); });
  if (unknown == ids.end()) return {};
  return InvalidArgument(fmt::format("{}[{}]", path, unknown - ids.begin()),
                         "token id {} is not below the model's vocabulary size of {}", *unknown,
                         model.tokenizer->vocab_size());
}

Result<void> CheckLogitBias(const ServedModel& model, const std::vector<wire::LogitBias>& biases) {
  if (biases.empty() || biases.back().token < model.tokenizer->vocab_size()) return {};
  return InvalidArgument(fmt::format("logit_bias.{}", biases.back().token),
                         "the token id is not below the model's vocabulary size of {}", model.tokenizer->vocab_size());
}

Result<std::uint32_t> OutputBound(const ServedModel& model, std::size_t prompt_tokens, const SamplingFields& fields,
                                  std::string_view field) {
  const std::size_t context = model.max_context_tokens;
  if (prompt_tokens >= context) return TooLong(model, prompt_tokens, field);
  const auto room = static_cast<std::uint32_t>(context - prompt_tokens);
  // A worker computes at least one token. If none is wanted, the answer leaves it out.
  const std::uint32_t wanted = std::max<std::uint32_t>(fields.max_output_tokens.value_or(room), 1);
  if (wanted <= room) return wanted;
  return Error{ErrorCode::kContextTooLong,
               fmt::format("the prompt's {} tokens and {} for the answer make {}, but {}", prompt_tokens, wanted,
                           prompt_tokens + wanted, ContextBound(context)),
               fields.max_output_tokens_field};
}

Result<void> CheckLeastOutput(const wire::Generate& generate) {
  if (generate.min_output_tokens <= generate.max_output_tokens) return {};
  return InvalidArgument("min_tokens", "{} is more than the {} tokens that the answer may have",
                         generate.min_output_tokens, generate.max_output_tokens);
}

// A hash of a session's name, or a cache key, and the root of its blocks. Never 0, which means none.
std::uint64_t HashOfName(BlockHash root, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<TokenId> bytes;
  for (const char c : name) bytes.push_back(static_cast<unsigned char>(c));
  return std::max<std::uint64_t>(1, ChainHash(root, bytes).low);
}

// The request says nothing about how long its blocks should stay. `explicit` says that its breakpoints alone do.
bool LeavesRetentionOpen(const CacheFields& fields) {
  return fields.mode == wire::CacheMode::kOn && fields.expect_return_ms == 0 && !fields.retention &&
         fields.lifetimes.empty() && fields.options.mode == PromptCacheOptions::Mode::kImplicit;
}

void ApplyCacheFields(const CacheFields& fields, GenerateSpec& spec) {
  spec.generate.cache_mode = fields.mode;
  spec.generate.priority = fields.priority;
  spec.generate.retention = fields.retention;
  spec.generate.lifetimes = fields.lifetimes;
  spec.generate.expect_return_ms = fields.expect_return_ms;
  spec.longest_learned_return_ms = LeavesRetentionOpen(fields) ? fields.longest_retention_ms : 0;
}

}  // namespace

void ShareFront(const ServedModel& model, const PromptScope& scope, const std::string& salt, HashedTokens& prompt) {
  if (scope.shared == nullptr || scope.tenant.empty() || !salt.empty()) return;
  std::vector<BlockHash> hashes = scope.shared->SharedFront(model, prompt.tokens);
  if (hashes.empty()) return;
  prompt.own =
      OwnScope{static_cast<std::uint32_t>(hashes.size()), OwnRoot(ScopeRoot(model, scope.tenant, salt), hashes.back())};
  const auto rest = std::span(prompt.tokens).subspan(hashes.size() * model.block_tokens);
  const std::vector<BlockHash> behind = HashBlocks(prompt.own->root, rest, model.block_tokens);
  hashes.insert(hashes.end(), behind.begin(), behind.end());
  prompt.block_hashes = std::move(hashes);
}

bool TruncateFront(const ServedModel& model, const SamplingFields& fields, const PromptScope& scope,
                   HashedTokens& prompt) {
  // A prompt that is too long was not counted to its end, so its last tokens are not known.
  if (!fields.truncate_prompt_tokens || prompt.tokens.size() > MaxCountedTokens(model)) return false;
  const std::size_t context = model.max_context_tokens;
  const std::size_t answer = std::clamp<std::size_t>(fields.max_output_tokens.value_or(1), 1, context);
  const std::int64_t wanted = *fields.truncate_prompt_tokens;
  const std::size_t kept = wanted > 0 ? static_cast<std::size_t>(wanted) : context - answer;
  if (prompt.tokens.size() <= kept) return false;
  prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - static_cast<std::ptrdiff_t>(kept));
  prompt.own.reset();
  prompt.block_hashes =
      HashBlocks(ScopeRoot(model, scope.tenant, fields.cache.salt), prompt.tokens, model.block_tokens);
  ShareFront(model, scope, fields.cache.salt, prompt);
  return true;
}

std::string CountedTokens(const ServedModel& model, std::size_t count) {
  const std::size_t most = MaxCountedTokens(model);
  return count > most ? fmt::format("more than {} tokens", most) : fmt::format("{} tokens", count);
}

Result<void> CheckTextLength(const ServedModel& model, std::string_view text, std::string_view field) {
  const std::optional<std::size_t> most_bytes = model.tokenizer->most_bytes_per_token();
  if (!most_bytes || text.size() / *most_bytes <= MaxCountedTokens(model)) return {};
  return TooLong(model, text.size() / *most_bytes, field);
}

namespace {

// Cuts what the template wrote after the last message's content. The template may have trimmed the content.
Result<jinja::TracedText> CutBehindLastMessage(jinja::TracedText text, const jinja::Value& messages) {
  constexpr std::string_view kField = "continue_final_message";
  const jinja::Value* content = messages.AsSequence().items.back().AsDict().Find("content");
  if (content == nullptr || !content->is(jinja::Kind::kString)) {
    return InvalidArgument(std::string(kField), "needs a last message with text");
  }
  constexpr std::string_view kBlanks = " \t\r\n";
  std::string_view wanted = content->AsString();
  std::size_t at = wanted.empty() ? std::string::npos : text.bytes.rfind(wanted);
  if (at == std::string::npos) {
    wanted.remove_prefix(std::min(wanted.find_first_not_of(kBlanks), wanted.size()));
    wanted = wanted.substr(0, wanted.find_last_not_of(kBlanks) + 1);
    at = wanted.empty() ? std::string::npos : text.bytes.rfind(wanted);
  }
  if (at == std::string::npos) {
    return InvalidArgument(std::string(kField), "the model's chat template does not show the last message's text");
  }
  text.Truncate(at + wanted.size());
  return text;
}

Error RenderError(const ChatRequest& request, std::string_view reason) {
  const std::size_t unknown_name = reason.find(kUnknownTemplateName);
  if (unknown_name != std::string_view::npos && request.template_variables.AsDict().Find("chat_template") != nullptr) {
    return InvalidArgument("chat_template_kwargs.chat_template", "{}", reason.substr(unknown_name));
  }
  return InvalidArgument("messages", "the model's chat template refuses them: {}", reason);
}

}  // namespace

Result<jinja::TracedText> RenderChat(const ServedModel& model, const ChatRequest& request,
                                     const RenderSettings& settings) {
  if (model.chat_template == nullptr) {
    return InvalidArgument("model", "the model '{}' has no chat template: use /v1/completions", model.name);
  }
  if (!model.chat_template->has_names() && request.template_variables.AsDict().Find("chat_template") != nullptr) {
    return InvalidArgument("chat_template_kwargs.chat_template", "the model '{}' has one chat template only",
                           model.name);
  }
  RenderOptions options;
  options.now = LocalTime(static_cast<std::time_t>(settings.unix_seconds));
  const TemplateTraits& traits = model.chat_template->traits();
  const jinja::Value messages = MessagesForTemplate(request.messages, traits);
  Result<jinja::TracedText> text =
      model.chat_template->RenderTraced(TemplateContext(model, request, WithContentForms(messages, traits)), options);
  if (!text.ok()) return RenderError(request, text.error().message);
  if (settings.content == RenderSettings::Content::kMaySpellSpecialTokens) {
    text = jinja::TracedText::Written(std::move(text->bytes));
  }
  if (request.generation_prompt == ChatRequest::GenerationPrompt::kContinue) {
    return CutBehindLastMessage(std::move(text).value(), messages);
  }
  return text;
}

Result<std::vector<TokenId>> TokenizeRendered(const ServedModel& model, const jinja::TracedText& text) {
  // The template has written the tokens that begin a text.
  return Encode(model, {text.bytes, text.written}, SpecialTokens::kOmit, "messages");
}

Result<std::vector<TokenId>> TokenizeCompletion(const ServedModel& model, const CompletionPrompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt.value)) {
    ROOST_RETURN_IF_ERROR(CheckIds(model, *ids, prompt.path));
    return *ids;
  }
  return Encode(model, WrittenText(std::get<std::string>(prompt.value)).prompt(), SpecialTokens::kAdd, prompt.path);
}

Result<HashedTokens> ReadRenderedPrompt(const ServedModel& model, const jinja::TracedText& text, const MemoUse& use) {
  return Read(model, {{text.bytes, text.written}, SpecialTokens::kOmit, "messages"}, use);
}

Result<HashedTokens> ReadCompletionPrompt(const ServedModel& model, const CompletionPrompt& prompt,
                                          const MemoUse& use) {
  if (const auto* text = std::get_if<std::string>(&prompt.value)) {
    return Read(model, {WrittenText(*text).prompt(), SpecialTokens::kAdd, prompt.path}, use);
  }
  HashedTokens read;
  ROOST_ASSIGN_OR_RETURN(read.tokens, TokenizeCompletion(model, prompt));
  read.block_hashes = HashBlocks(ScopeRoot(model, use.scope.tenant, use.cache.salt), read.tokens, model.block_tokens);
  ShareFront(model, use.scope, use.cache.salt, read);
  return read;
}

Result<HashedTokens> ReadTextPrompt(const ServedModel& model, std::string_view text, SpecialTokens specials,
                                    const MemoUse& use) {
  return Read(model, {WrittenText(text).prompt(), specials, "prompt"}, use);
}

Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model, std::vector<TokenId> prompt,
                                      const SamplingFields& fields, const PromptSource& source) {
  HashedTokens hashed;
  if (prompt.size() < model->max_context_tokens) {  // else it is refused
    hashed.block_hashes =
        HashBlocks(ScopeRoot(*model, source.scope.tenant, fields.cache.salt), prompt, model->block_tokens);
  }
  hashed.tokens = std::move(prompt);
  if (!hashed.block_hashes.empty()) ShareFront(*model, source.scope, fields.cache.salt, hashed);
  return MakeGenerateSpec(std::move(model), std::move(hashed), fields, source);
}

Result<GenerateSpec> MakeGenerateSpec(std::shared_ptr<const ServedModel> model, HashedTokens prompt,
                                      const SamplingFields& fields, const PromptSource& source) {
  if (prompt.tokens.empty()) return InvalidArgument(std::string(source.field), "must hold at least one token");
  GenerateSpec spec;
  spec.generate = fields.generate;
  ROOST_ASSIGN_OR_RETURN(spec.generate.max_output_tokens,
                         OutputBound(*model, prompt.tokens.size(), fields, source.field));
  ROOST_RETURN_IF_ERROR(CheckLogitBias(*model, fields.generate.sampling.logit_bias));
  ROOST_RETURN_IF_ERROR(CheckLeastOutput(spec.generate));
  ApplySampling(model->sampling, fields, source.default_seed, spec.generate.sampling);
  spec.generate.tenant = source.scope.tenant;
  spec.salt = fields.cache.salt;
  const BlockHash scope_root = ScopeRoot(*model, spec.generate.tenant, spec.salt);
  spec.generate.session_hash = HashOfName(scope_root, fields.cache.session_id);
  spec.cache_key_hash = HashOfName(scope_root, fields.cache.prompt_cache_key);
  spec.generate.root = prompt.own ? ScopeRoot(*model, "", "") : scope_root;
  spec.generate.own = prompt.own;
  ApplyCacheFields(fields.cache, spec);
  spec.generate.block_hashes = std::move(prompt.block_hashes);
  spec.generate.prompt = std::move(prompt.tokens);
  spec.model = std::move(model);
  return spec;
}

// ---- places ----

namespace {

using jinja::Kind;
using jinja::TracedText;
using jinja::Value;

// Each costs a look at the whole rest of the text. Templates that drop messages drop all of a kind.
constexpr int kMostMisses = 16;
// A text that begins in what the template wrote, and goes on in what it was given, is no message.
constexpr int kMostTries = 8;

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view TextAt(const Value& message, std::string_view name) {
  const Value* value = message.AsDict().Find(name);
  return value != nullptr && value->is(Kind::kString) ? std::string_view(value->AsString()) : std::string_view();
}

// The written range that holds the byte, or the first one behind it.
jinja::WrittenRanges::const_iterator RangeAt(const TracedText& text, std::size_t byte) {
  return std::partition_point(text.written.begin(), text.written.end(),
                              [byte](const ByteRange& range) { return range.end <= byte; });
}

// The first given byte from there on that is no blank, else the text's end. O(ranges from there to the result's).
std::size_t FirstGiven(const TracedText& text, std::size_t from) {
  for (auto range = RangeAt(text, from); from < text.bytes.size(); ++range) {
    const std::size_t end = range == text.written.end() ? text.bytes.size() : range->begin;
    const std::size_t at = from < end ? text.bytes.find_first_not_of(kBlanks, from) : end;
    if (at < end) return at;
    if (range == text.written.end()) break;
    from = range->end;
  }
  return text.bytes.size();
}

// Nearly always it is what the template takes next. Elsewhere memmem takes linear time whatever the texts are, unlike
// std::string_view::find.
std::optional<std::size_t> FindGiven(const TracedText& text, std::string_view wanted, std::size_t from) {
  const std::size_t next = FirstGiven(text, from);
  if (std::string_view(text.bytes).substr(next).starts_with(wanted)) return next;
  for (int i = 0; i < kMostTries && from < text.bytes.size(); ++i) {
    const void* const found = memmem(text.bytes.data() + from, text.bytes.size() - from, wanted.data(), wanted.size());
    if (found == nullptr) return std::nullopt;
    const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - text.bytes.data());
    const auto range = RangeAt(text, at);
    if (range == text.written.end() || range->begin > at) return at;
    from = range->end;
  }
  return std::nullopt;
}

}  // namespace

PromptPlaces::PromptPlaces(const TracedText& text, const Value& messages) : text_(text) {
  std::size_t end = 0;
  int misses = 0;
  bool in_front = true;
  for (const Value& message : messages.AsSequence().items) {
    const std::string_view role = TextAt(message, "role");
    in_front = in_front && (role == "system" || role == "developer");
    Place place{end, end, 0, in_front};
    const std::string_view content = TextAt(message, "content");
    const std::size_t blanks = content.find_first_not_of(kBlanks);
    if (blanks != std::string_view::npos && misses < kMostMisses) {
      const std::string_view wanted = content.substr(blanks, content.find_last_not_of(kBlanks) + 1 - blanks);
      if (const std::optional<std::size_t> at = FindGiven(text, wanted, end)) {
        place = {*at, *at + wanted.size(), blanks, in_front};
        end = place.end;
      } else {
        ++misses;
      }
    }
    places_.push_back(place);
  }
}

// The end of the last given byte before `end`, but not before `least`.
std::size_t PromptPlaces::LastGivenBefore(std::size_t end, std::size_t least) const {
  auto range = RangeAt(text_, end == 0 ? 0 : end - 1);
  if (range == text_.written.end() || range->begin >= end) return std::max(end, least);
  return std::max(std::min(range->begin, end), least);
}

std::size_t PromptPlaces::EndOf(std::size_t message, std::optional<std::size_t> bytes) const {
  const Place& place = places_[message];
  if (bytes) {
    const std::size_t shown = *bytes - std::min(*bytes, place.left_out);
    return std::min(place.begin + shown, place.end);
  }
  const auto next = std::find_if(places_.begin() + static_cast<std::ptrdiff_t>(message) + 1, places_.end(),
                                 [](const Place& each) { return each.end > each.begin; });
  return LastGivenBefore(next == places_.end() ? text_.size() : next->begin, place.end);
}

std::size_t PromptPlaces::EndOfFront() const {
  const auto first = std::find_if(places_.begin(), places_.end(),
                                  [](const Place& each) { return !each.is_instruction && each.end > each.begin; });
  return first == places_.end() ? text_.size() : LastGivenBefore(first->begin, 0);
}

std::vector<ByteRange> PromptPlaces::Instructions() const {
  std::vector<ByteRange> ranges;
  for (const Place& place : places_) {
    if (place.is_instruction && place.end > place.begin) ranges.push_back({place.begin, place.end});
  }
  return ranges;
}

std::vector<ByteRange> PromptPlaces::Conversation() const {
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.is_instruction) continue;
    const std::size_t next = i + 1 < places_.size() ? places_[i + 1].begin : text_.size();
    ranges.push_back({place.begin, LastGivenBefore(next, place.end)});
  }
  return ranges;
}

std::uint32_t TokensUpTo(const Tokenizer& tokenizer, std::span<const TokenId> tokens, ByteRange text) {
  const std::size_t before = text.begin;
  const std::size_t behind = text.end - std::min(text.begin, text.end);
  std::size_t bytes = 0;
  std::size_t count = 0;
  if (before <= behind) {
    for (; count < tokens.size() && bytes < before; ++count) bytes += tokenizer.BytesOf(tokens[count]).size();
    return static_cast<std::uint32_t>(count);
  }
  // A token that lies on both sides belongs to those before.
  for (; count < tokens.size(); ++count) {
    bytes += tokenizer.BytesOf(tokens[tokens.size() - 1 - count]).size();
    if (bytes > behind) break;
  }
  return static_cast<std::uint32_t>(tokens.size() - count);
}

}  // namespace roost::router
