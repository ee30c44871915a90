#include "router/api/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace roost::router {
namespace {

// The token as text; bytes that are not valid UTF-8 become U+FFFD.
std::string TextOf(const Tokenizer& tokenizer, TokenId token) { return ReplaceInvalidUtf8(tokenizer.BytesOf(token)); }

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
    std::string text = TextOf(tokenizer, id);
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
    for (std::size_t i = 0; i < part.tokens.size(); ++i) write(part.tokens[i], LogprobsOf(part, i));
  }
}

void WriteRanked(const Tokenizer& tokenizer, wire::TokenLogprob token, std::uint32_t rank, JsonWriter& json) {
  json.Key(fmt::to_string(token.token)).BeginObject().Key("logprob").Number(static_cast<double>(token.logprob));
  json.Key("rank").Number(rank).Key("decoded_token").String(TextOf(tokenizer, token.token)).EndObject();
}

}  // namespace

void WriteChatLogprobs(const Tokenizer& tokenizer, const ScoredTokens& scored, JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  ForEachToken(std::span(&scored, 1), [&](TokenId token, const wire::TokenLogprobs* logprobs) {
    if (logprobs != nullptr) WriteChatToken(tokenizer, token, *logprobs, json);
  });
  json.EndArray().Key("refusal").Null().EndObject();
}

void WriteCompletionLogprobs(const Tokenizer& tokenizer, std::span<const ScoredTokens> parts, std::size_t& offset,
                             JsonWriter& json) {
  json.BeginObject().Key("tokens").BeginArray();
  ForEachToken(parts, [&](TokenId token, const auto*) { json.String(TextOf(tokenizer, token)); });
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
    offset += CharacterCount(TextOf(tokenizer, token));
  });
  json.EndArray().EndObject();
}

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

}  // namespace roost::router
