#include "router/api/answers/openai_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/give_way.h"
#include "common/base/ids.h"
#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "common/text/tokenizer.h"
#include "common/wire/messages.h"
#include "router/api/answers/diagnosis_forms.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {
namespace {

// Log probabilities as OpenAI's API and vLLM write them.

// Consecutive tokens with their log probabilities. A prompt's first token has none, so for a prompt `logprobs` has one
// entry less than `tokens`.
struct ScoredTokens {
  std::span<const TokenId> tokens;
  std::span<const wire::TokenLogprobs> logprobs;
};

// The token as text; bytes that are not valid UTF-8 become U+FFFD.
std::string TokenText(const Tokenizer& tokenizer, TokenId token) {
  return ReplaceInvalidUtf8(tokenizer.BytesOf(token));
}

std::size_t CharacterCount(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void WriteToken(const Tokenizer& tokenizer, TokenId token, float logprob, JsonWriter& json) {
  const std::string bytes = tokenizer.BytesOf(token);
  json.Key("token").String(ReplaceInvalidUtf8(bytes)).Key("logprob").Number(static_cast<double>(logprob));
  json.Key("bytes").BeginArray();
  for (const char byte : bytes) json.Number(static_cast<unsigned char>(byte));
  json.EndArray();
}

void WriteChatToken(const Tokenizer& tokenizer, TokenId token, const wire::TokenLogprobs& logprobs, JsonWriter& json) {
  json.BeginObject();
  WriteToken(tokenizer, token, logprobs.logprob, json);
  json.Key("top_logprobs").BeginArray();
  for (const wire::TokenLogprob& top : logprobs.top) {
    json.BeginObject();
    WriteToken(tokenizer, top.token, top.logprob, json);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

// The tokens' texts are the member names, which must be unique: of tokens with the same text, the likelier is written.
void WriteTop(const Tokenizer& tokenizer, TokenId token, const wire::TokenLogprobs& logprobs, JsonWriter& json) {
  std::vector<std::string> written;
  const auto write = [&](TokenId id, float logprob) {
    std::string text = TokenText(tokenizer, id);
    if (std::find(written.begin(), written.end(), text) != written.end()) return;
    json.Key(text).Number(static_cast<double>(logprob));
    written.push_back(std::move(text));
  };
  json.BeginObject();
  for (const wire::TokenLogprob& top : logprobs.top) write(top.token, top.logprob);
  write(token, logprobs.logprob);
  json.EndObject();
}

// The log probabilities of token i; null for a prompt's first token.
const wire::TokenLogprobs* LogprobsOf(const ScoredTokens& scored, std::size_t i) {
  const std::size_t missing = scored.tokens.size() - scored.logprobs.size();
  return i < missing ? nullptr : &scored.logprobs[i - missing];
}

template <typename Write>
void ForEachToken(std::span<const ScoredTokens> parts, Write write) {
  for (const ScoredTokens& part : parts) {
    ROOST_CHECK(part.tokens.size() - part.logprobs.size() <= 1,
                "every token, except perhaps the first, has log probabilities");
    for (std::size_t i = 0; i < part.tokens.size(); ++i) {
      write(part.tokens[i], LogprobsOf(part, i));
      GiveWay();
    }
  }
}

void WriteRanked(const Tokenizer& tokenizer, wire::TokenLogprob token, std::uint32_t rank, JsonWriter& json) {
  json.Key(fmt::to_string(token.token)).BeginObject().Key("logprob").Number(static_cast<double>(token.logprob));
  json.Key("rank").Number(rank).Key("decoded_token").String(TokenText(tokenizer, token.token)).EndObject();
}

// For a chat: {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}.
void WriteChatLogprobs(const Tokenizer& tokenizer, const ScoredTokens& scored, JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  ForEachToken(std::span(&scored, 1), [&](TokenId token, const wire::TokenLogprobs* logprobs) {
    if (logprobs != nullptr) WriteChatToken(tokenizer, token, *logprobs, json);
  });
  json.EndArray().Key("refusal").Null().EndObject();
}

// For a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}. Offsets count characters from the
// beginning of the choice's text; the call advances `offset` past these tokens.
void WriteCompletionLogprobs(const Tokenizer& tokenizer, std::span<const ScoredTokens> parts, std::size_t& offset,
                             JsonWriter& json) {
  json.BeginObject().Key("tokens").BeginArray();
  ForEachToken(parts, [&](TokenId token, const auto*) { json.String(TokenText(tokenizer, token)); });
  json.EndArray().Key("token_logprobs").BeginArray();
  ForEachToken(parts, [&](TokenId, const wire::TokenLogprobs* logprobs) {
    logprobs == nullptr ? json.Null() : json.Number(static_cast<double>(logprobs->logprob));
  });
  json.EndArray().Key("top_logprobs").BeginArray();
  ForEachToken(parts, [&](TokenId token, const wire::TokenLogprobs* logprobs) {
    if (logprobs == nullptr) {
      json.Null();
    } else {
      WriteTop(tokenizer, token, *logprobs, json);
    }
  });
  json.EndArray().Key("text_offset").BeginArray();
  ForEachToken(parts, [&](TokenId token, const auto*) {
    json.Number(static_cast<std::uint64_t>(offset));
    offset += CharacterCount(TokenText(tokenizer, token));
  });
  json.EndArray().EndObject();
}

// vLLM's prompt_logprobs: [null, {"ID": {"logprob","rank","decoded_token"}, …}, …].
void WritePromptLogprobs(const Tokenizer& tokenizer, const ScoredTokens& prompt, JsonWriter& json) {
  json.BeginArray();
  ForEachToken(std::span(&prompt, 1), [&](TokenId token, const wire::TokenLogprobs* logprobs) {
    if (logprobs == nullptr) {
      json.Null();
      return;
    }
    json.BeginObject();
    bool has_token = false;
    for (std::size_t i = 0; i < logprobs->top.size(); ++i) {
      WriteRanked(tokenizer, logprobs->top[i], static_cast<std::uint32_t>(i + 1), json);
      has_token |= logprobs->top[i].token == token;
    }
    if (!has_token) WriteRanked(tokenizer, {token, logprobs->logprob}, logprobs->rank, json);
    json.EndObject();
  });
  json.EndArray();
}

constexpr std::string_view kDataPrefix = "data: ";

std::string_view ChunkObject(AnswerKind kind) {
  return kind == AnswerKind::kChat ? "chat.completion.chunk" : "text_completion";
}

void WriteOpenAiUsage(const Usage& usage, JsonWriter& json) {
  json.BeginObject();
  json.Key("prompt_tokens").Number(usage.prompt_tokens);
  json.Key("completion_tokens").Number(usage.completion_tokens);
  json.Key("total_tokens").Number(std::uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Number(usage.cached_tokens);
  json.Key("cache_write_tokens").Number(usage.written_tokens).EndObject();
  json.Key("completion_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Number(usage.reasoning_tokens).EndObject().EndObject();
}

std::string UsageText(const Usage& usage) {
  JsonWriter json;
  WriteOpenAiUsage(usage, json);
  return json.Take();
}

void WriteTokenIds(const std::vector<TokenId>& tokens, JsonWriter& json) {
  json.BeginArray();
  for (const TokenId token : tokens) json.Number(token);
  json.EndArray();
}

// ---- parts of chunks ----

void WriteToolCallDelta(const ToolCallDelta& call, JsonWriter& json) {
  json.BeginObject().Key("index").Number(call.index);
  if (!call.id.empty()) json.Key("id").String(call.id).Key("type").String("function");
  json.Key("function").BeginObject();
  if (!call.name.empty()) json.Key("name").String(call.name);
  json.Key("arguments").String(call.arguments).EndObject().EndObject();
}

// A further piece of a custom tool's text, as JSON; empty without text.
std::string CustomDelta(std::uint32_t index, std::string_view text) {
  if (text.empty()) return "";
  JsonWriter json;
  json.BeginObject().Key("index").Number(index).Key("custom").BeginObject();
  json.Key("input").String(text).EndObject().EndObject();
  return json.Take();
}

// `calls` are those of the delta, as JSON.
std::string DeltaText(const AnswerDelta& delta, std::string_view calls) {
  JsonWriter json;
  json.BeginObject();
  if (!delta.reasoning.empty()) json.Key("reasoning_content").String(delta.reasoning);
  if (!delta.content.empty()) json.Key("content").String(delta.content);
  if (!calls.empty()) json.Key("tool_calls").Raw(fmt::format("[{}]", calls));
  json.EndObject();
  return json.Take();
}

// ---- parts of whole answers ----

using CustomTools = std::set<std::string, std::less<>>;

void WriteToolCall(const ToolCall& call, const CustomTools& custom_tools, JsonWriter& json) {
  const bool is_custom = custom_tools.contains(call.name);
  const std::string_view kind = is_custom ? "custom" : "function";
  json.BeginObject().Key("id").String(call.id).Key("type").String(kind).Key(kind).BeginObject();
  json.Key("name").String(call.name).Key(is_custom ? "input" : "arguments");
  json.String(is_custom ? CustomInputOf(call.arguments) : call.arguments).EndObject().EndObject();
}

void WriteMessage(const ChoiceAnswer& choice, const CustomTools& custom_tools, JsonWriter& json) {
  json.Key("message").BeginObject().Key("role").String("assistant").Key("content");
  const bool only_calls = choice.content.empty() && !choice.tool_calls.empty();
  only_calls ? json.Null() : json.String(choice.content);
  json.Key("refusal").Null();
  if (!choice.reasoning.empty()) json.Key("reasoning_content").String(choice.reasoning);
  if (!choice.tool_calls.empty()) {
    json.Key("tool_calls").BeginArray();
    for (const ToolCall& call : choice.tool_calls) WriteToolCall(call, custom_tools, json);
    json.EndArray();
  }
  json.EndObject();
}

// About the size of the answer's JSON, so that it is written into one piece of memory.
std::size_t ExpectedSize(std::span<const ChoiceAnswer> choices) {
  constexpr std::size_t kScoredBytes = 80;
  constexpr std::size_t kRestBytes = 256;
  std::size_t size = kRestBytes;
  for (const ChoiceAnswer& choice : choices) {
    size += kRestBytes + choice.content.size() + choice.content.size() / 8 + choice.reasoning.size();
    for (const auto* scored : {&choice.logprobs, &choice.prompt_logprobs}) {
      for (const wire::TokenLogprobs& each : *scored) size += kScoredBytes * (1 + each.top.size());
    }
  }
  return size;
}

void WriteFinish(const std::optional<ChoiceFinish>& finish, JsonWriter& json) {
  json.Key("finish_reason");
  finish ? json.String(NameOf(finish->reason)) : json.Null();
  if (!finish) return;
  if (const auto* text = std::get_if<std::string>(&finish->stopped_by)) json.Key("stop_reason").String(*text);
  if (const auto* token = std::get_if<TokenId>(&finish->stopped_by)) json.Key("stop_reason").Number(*token);
}

}  // namespace

// A chunk has one choice; this is its content.
struct OpenAiAnswer::Chunk {
  std::uint32_t choice = 0;
  std::string_view delta;  // a chat's, as JSON
  std::string_view text;   // a completion's
  std::optional<ChoiceFinish> finish = std::nullopt;
  const AnswerDelta* details = nullptr;  // with the tokens to report; may be null
};

OpenAiAnswer::OpenAiAnswer(AnswerIdentity identity, OpenAiAnswerOptions options)
    : identity_(std::move(identity)), options_(std::move(options)), chunk_head_(HeadOf(ChunkObject(identity_.kind))) {}

// Up to the list of choices, which stays open.
void OpenAiAnswer::BeginHead(std::string_view object, JsonWriter& json) const {
  json.BeginObject().Key("id").String(identity_.id).Key("object").String(object);
  json.Key("created").Number(identity_.created_unix_seconds).Key("model").String(identity_.model);
  json.Key("system_fingerprint").String(identity_.system_fingerprint).Key("choices").BeginArray();
}

std::string OpenAiAnswer::HeadOf(std::string_view object) const {
  JsonWriter json;
  BeginHead(object, json);
  json.EndArray().EndObject();
  std::string text = json.Take();
  text.resize(text.size() - std::string_view("]}").size());
  return text;
}

// ---- details of tokens ----

bool OpenAiAnswer::HasDetails(const AnswerDelta& delta) const {
  if (!delta.prompt_logprobs.empty()) return true;
  if (options_.logprobs == Logprobs::kTell && !delta.logprobs.empty()) return true;
  return options_.token_ids == TokenIdReport::kTell && !(delta.tokens.empty() && delta.prompt_tokens.empty());
}

template <typename Part>
void OpenAiAnswer::WriteLogprobs(std::uint32_t choice, const Part& part, JsonWriter& json) {
  if (choice >= text_offsets_.size()) text_offsets_.resize(choice + 1);
  const ScoredTokens own{part.tokens, part.logprobs};
  if (IsChat()) return WriteChatLogprobs(*options_.tokenizer, own, json);
  std::vector<ScoredTokens> parts;
  if (options_.echo == Echo::kPrompt) parts.push_back({part.prompt_tokens, part.prompt_logprobs});
  parts.push_back(own);
  WriteCompletionLogprobs(*options_.tokenizer, parts, text_offsets_[choice], json);
}

template <typename Part>
void OpenAiAnswer::WriteTokens(const Part& part, JsonWriter& json) const {
  if (options_.token_ids == TokenIdReport::kTell) {
    if (!part.prompt_tokens.empty()) WriteTokenIds(part.prompt_tokens, json.Key("prompt_token_ids"));
    if (!part.tokens.empty()) WriteTokenIds(part.tokens, json.Key("token_ids"));
  }
  if (part.prompt_logprobs.empty()) return;
  WritePromptLogprobs(*options_.tokenizer, {part.prompt_tokens, part.prompt_logprobs}, json.Key("prompt_logprobs"));
}

// ---- a stream ----

// A fast path for nearly every chunk of a chat. It writes the same bytes as AppendChunk, without a JsonWriter.
void OpenAiAnswer::AppendContent(std::uint32_t choice, std::string_view content, const Usage& usage,
                                 std::string& frames) const {
  constexpr std::size_t kFrameBytes = 160;  // about the size of the rest
  frames.reserve(frames.size() + chunk_head_.size() + content.size() + kFrameBytes);
  frames += kDataPrefix;
  frames += chunk_head_;
  fmt::format_to(std::back_inserter(frames), R"({{"index":{},"delta":{{"content":)", choice);
  AppendJsonString(content, frames);
  frames += R"(},"logprobs":null,"finish_reason":null})";
  EndChunk(usage, frames);
}

void OpenAiAnswer::EndChunk(const Usage& usage, std::string& frames) const {
  frames += ']';
  if (options_.usage_report == UsageReport::kEveryChunk) frames += ",\"usage\":" + UsageText(usage);
  frames += "}\n\n";
}

void OpenAiAnswer::AppendChunk(const Chunk& chunk, const Usage& usage, std::string& frames) {
  JsonWriter json;
  json.BeginObject().Key("index").Number(chunk.choice);
  if (IsChat()) {
    json.Key("delta").Raw(chunk.delta);
  } else {
    json.Key("text").String(chunk.text);
  }
  json.Key("logprobs");
  if (chunk.details != nullptr && options_.logprobs == Logprobs::kTell) {
    WriteLogprobs(chunk.choice, *chunk.details, json);
  } else {
    json.Null();
  }
  WriteFinish(chunk.finish, json);
  if (chunk.details != nullptr) WriteTokens(*chunk.details, json);
  json.EndObject();
  frames += kDataPrefix;
  frames += chunk_head_;
  frames += json.Take();
  EndChunk(usage, frames);
}

void OpenAiAnswer::AppendRole(std::uint32_t choice, const Usage& usage, std::string& frames) {
  if (!IsChat()) return;
  if (choice >= has_role_.size()) has_role_.resize(choice + 1);
  if (has_role_[choice]) return;
  has_role_[choice] = true;
  AppendChunk({.choice = choice, .delta = R"({"role":"assistant","content":""})", .text = {}}, usage, frames);
}

std::string OpenAiAnswer::CloseCustomCall(std::uint32_t choice) {
  auto open = custom_calls_.extract(choice);
  return open.empty() ? "" : CustomDelta(open.mapped().index, open.mapped().input.Finish());
}

std::string OpenAiAnswer::CallDeltas(std::uint32_t choice, const AnswerDelta& delta) {
  std::string all;
  const auto add = [&all](std::string_view call) {
    if (!all.empty() && !call.empty()) all += ',';
    all += call;
  };
  for (const ToolCallDelta& call : delta.tool_calls) {
    const auto open = custom_calls_.find(choice);
    if (open != custom_calls_.end() && open->second.index == call.index) {
      add(CustomDelta(call.index, open->second.input.Push(call.arguments)));
      continue;
    }
    add(CloseCustomCall(choice));
    JsonWriter json;
    if (!options_.custom_tools.contains(call.name)) {
      WriteToolCallDelta(call, json);
      add(json.Take());
      continue;
    }
    OpenCall begun{.index = call.index, .input = {}};
    json.BeginObject().Key("index").Number(call.index).Key("id").String(call.id).Key("type").String("custom");
    json.Key("custom").BeginObject().Key("name").String(call.name);
    json.Key("input").String(begun.input.Push(call.arguments)).EndObject().EndObject();
    add(json.Take());
    custom_calls_[choice] = std::move(begun);
  }
  return all;
}

std::string OpenAiAnswer::Begin(const Usage&) { return {}; }

std::string OpenAiAnswer::Continue(std::uint32_t choice, const AnswerDelta& delta, const Usage& usage) {
  std::string frames;
  AppendRole(choice, usage, frames);
  const bool has_details = HasDetails(delta);
  if (!delta.has_text() && !has_details) return frames;
  if (IsChat() && !has_details && delta.reasoning.empty() && delta.tool_calls.empty()) {
    AppendContent(choice, delta.content, usage, frames);
    return frames;
  }
  const std::string calls = CallDeltas(choice, delta);
  if (delta.content.empty() && delta.reasoning.empty() && calls.empty() && !has_details) return frames;
  const std::string chat_delta = IsChat() ? DeltaText(delta, calls) : std::string();
  AppendChunk({.choice = choice, .delta = chat_delta, .text = delta.content, .details = has_details ? &delta : nullptr},
              usage, frames);
  return frames;
}

std::string OpenAiAnswer::EndChoice(std::uint32_t choice, const ChoiceFinish& finish, const Usage& usage) {
  std::string frames;
  AppendRole(choice, usage, frames);
  if (const std::string call = CloseCustomCall(choice); !call.empty()) {
    AppendChunk({.choice = choice, .delta = DeltaText({}, call), .text = {}}, usage, frames);
  }
  AppendChunk({.choice = choice, .delta = "{}", .text = {}, .finish = finish}, usage, frames);
  return frames;
}

std::string OpenAiAnswer::End(const Usage& usage) {
  std::string frames;
  std::string members;
  if (options_.usage_report != UsageReport::kNever) members += ",\"usage\":" + UsageText(usage);
  if (options_.diagnosis == Diagnosis::kTell) members += ",\"prompt_cache_diagnostics\":" + OpenAiDiagnostics(usage);
  if (!members.empty()) frames = Frame(chunk_head_ + "]" + members + "}");
  frames += kDoneFrame;
  return frames;
}

std::string OpenAiAnswer::Fail(const Error& error) { return Frame(ErrorBody(error)) + std::string(kDoneFrame); }

// ---- whole ----

std::string OpenAiAnswer::Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) {
  JsonWriter json;
  json.Reserve(ExpectedSize(choices));
  BeginHead(IsChat() ? "chat.completion" : "text_completion", json);
  for (std::uint32_t i = 0; i < choices.size(); ++i) {
    const ChoiceAnswer& choice = choices[i];
    json.BeginObject().Key("index").Number(i);
    if (IsChat()) {
      WriteMessage(choice, options_.custom_tools, json);
    } else {
      json.Key("text").String(choice.content);
    }
    json.Key("logprobs");
    options_.logprobs == Logprobs::kTell ? WriteLogprobs(i, choice, json) : void(json.Null());
    WriteFinish(choice.finish, json);
    WriteTokens(choice, json);
    json.EndObject();
  }
  WriteOpenAiUsage(usage, json.EndArray().Key("usage"));
  if (options_.diagnosis == Diagnosis::kTell) json.Key("prompt_cache_diagnostics").Raw(OpenAiDiagnostics(usage));
  return json.EndObject().Take();
}

std::string Frame(std::string_view json) { return fmt::format("data: {}\n\n", json); }

std::string_view NameOf(AnswerFinish reason) {
  switch (reason) {
    case AnswerFinish::kStop: return "stop";
    case AnswerFinish::kLength: return "length";
    case AnswerFinish::kToolCalls: return "tool_calls";
  }
  return "stop";
}

}  // namespace roost::router
