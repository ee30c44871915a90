#include "router/api/requests/token_request.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"

namespace roost::router {
namespace {

Result<void> ReadModelName(JsonElement element, const std::string& path, TokenizeRequest&) {
  ROOST_RETURN_IF_ERROR(StringOf(element, path));
  return {};
}

Result<void> ReadText(JsonElement element, const std::string& path, TokenizeRequest& request) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  request.prompt = std::string(text);
  return {};
}

Result<void> ReadTruncation(JsonElement element, const std::string& path, TokenizeRequest& request) {
  return ReadTruncate(element, path, request.truncation);
}

constexpr auto kTokenizeFields = std::to_array<RequestField<TokenizeRequest>>({
    {"model", "The model whose tokens these are; may be absent where one is served.",
     Own<TokenizeRequest>{R"({"type":"string"})", &ReadModelName}},
    {"prompt", "A text. Or give a chat instead: messages, and the fields that affect a chat's prompt.",
     Own<TokenizeRequest>{R"({"type":"string"})", &ReadText}},
    {"add_special_tokens", "Whether to add the special tokens that the tokenizer puts around a text.",
     Flag<TokenizeRequest>{
         [](TokenizeRequest& r, bool v) { r.special_tokens = v ? SpecialTokens::kAdd : SpecialTokens::kOmit; }}},
    {"return_token_strs", "Include the text of each token.", Flag<TokenizeRequest>{[](TokenizeRequest& r, bool v) {
       r.token_texts = v ? TokenTexts::kTell : TokenTexts::kOmit;
     }}},
    {"truncate_prompt_tokens", "Keep the last tokens of the prompt: this many; -1: what fits the context.",
     Own<TokenizeRequest>{R"({"anyOf":[{"const":-1},{"type":"integer","minimum":1}]})", &ReadTruncation}},
});

Result<void> ReadTokens(JsonElement element, const std::string& path, DetokenizeRequest& request) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> ids, ElementsOf(element, path));
  request.tokens.reserve(ids.size());
  for (const JsonElement id : ids) {
    ROOST_ASSIGN_OR_RETURN(const std::int64_t token, IntegerOf(id, fmt::format("{}[{}]", path, request.tokens.size()),
                                                               0, std::numeric_limits<TokenId>::max()));
    request.tokens.push_back(static_cast<TokenId>(token));
  }
  return {};
}

Result<void> ReadDetokenizeModel(JsonElement element, const std::string& path, DetokenizeRequest&) {
  ROOST_RETURN_IF_ERROR(StringOf(element, path));
  return {};
}

constexpr auto kDetokenizeFields = std::to_array<RequestField<DetokenizeRequest>>({
    {"model", "The model whose tokens these are; may be absent where one is served.",
     Own<DetokenizeRequest>{R"({"type":"string"})", &ReadDetokenizeModel}},
    {"tokens", "Token ids.",
     Own<DetokenizeRequest>{R"({"type":"array","items":{"type":"integer","minimum":0}})", &ReadTokens}},
});

}  // namespace

std::span<const RequestField<TokenizeRequest>> TokenizeFieldTable() { return kTokenizeFields; }
std::span<const RequestField<DetokenizeRequest>> DetokenizeFieldTable() { return kDetokenizeFields; }

Result<TokenizeRequest> ParseTokenizeRequest(const JsonObject& body) {
  TokenizeRequest request;
  ROOST_RETURN_IF_ERROR(ReadFields(body, TokenizeFieldTable(), request));
  if (body.Find("messages")) {
    if (body.Find("prompt")) return InvalidArgument("prompt", "can not be given together with messages");
    ROOST_ASSIGN_OR_RETURN(request.prompt, ParseChatRequest(body));
  } else if (!body.Find("prompt")) {
    return InvalidArgument("prompt", "is missing: give a prompt or messages");
  }
  return request;
}

std::string TokenizeBody(const ServedModel& model, std::span<const TokenId> tokens, TokenTexts texts) {
  JsonWriter json;
  json.BeginObject().Key("count").Number(static_cast<std::uint64_t>(tokens.size()));
  json.Key("max_model_len").Number(model.max_context_tokens).Key("tokens").BeginArray();
  for (const TokenId token : tokens) json.Number(token);
  json.EndArray().Key("token_strs");
  if (texts == TokenTexts::kTell) {
    json.BeginArray();
    for (const TokenId token : tokens) json.String(ReplaceInvalidUtf8(model.tokenizer->BytesOf(token)));
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return json.Take();
}

Result<DetokenizeRequest> ParseDetokenizeRequest(const JsonObject& body) {
  DetokenizeRequest request;
  if (!body.Find("tokens")) return InvalidArgument("tokens", "is missing");
  ROOST_RETURN_IF_ERROR(ReadFields(body, DetokenizeFieldTable(), request));
  return request;
}

Result<std::string> DetokenizeBody(const ServedModel& model, const DetokenizeRequest& request) {
  for (std::size_t i = 0; i < request.tokens.size(); ++i) {
    if (request.tokens[i] < model.tokenizer->vocab_size()) continue;
    return InvalidArgument(fmt::format("tokens[{}]", i), "token id {} is not below the model's vocabulary size of {}",
                           request.tokens[i], model.tokenizer->vocab_size());
  }
  JsonWriter json;
  json.BeginObject().Key("prompt").String(model.tokenizer->Decode(request.tokens)).EndObject();
  return json.Take();
}

}  // namespace roost::router
