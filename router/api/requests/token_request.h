// POST /tokenize and POST /detokenize, as in vLLM: from a prompt to token ids, and back.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/tokenizer.h"
#include "router/api/json_object.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/request_field.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

enum class TokenTexts { kOmit, kTell };

struct TokenizeRequest {
  // The text of a completion's prompt, or a chat.
  std::variant<std::string, ChatRequest> prompt;
  SpecialTokens special_tokens = SpecialTokens::kAdd;  // around a text; a template writes its own
  TokenTexts token_texts = TokenTexts::kOmit;
  SamplingFields truncation = {};  // of a text: truncate_prompt_tokens alone
};
[[nodiscard]] Result<TokenizeRequest> ParseTokenizeRequest(const JsonObject& body);
[[nodiscard]] std::span<const RequestField<TokenizeRequest>> TokenizeFieldTable();
// {"count","max_model_len","tokens","token_strs"}
[[nodiscard]] std::string TokenizeBody(const ServedModel& model, std::span<const TokenId> tokens, TokenTexts texts);

struct DetokenizeRequest {
  std::vector<TokenId> tokens;
};
[[nodiscard]] Result<DetokenizeRequest> ParseDetokenizeRequest(const JsonObject& body);
[[nodiscard]] std::span<const RequestField<DetokenizeRequest>> DetokenizeFieldTable();
// {"prompt"}. An error names a token id that the model does not have.
[[nodiscard]] Result<std::string> DetokenizeBody(const ServedModel& model, const DetokenizeRequest& request);

}  // namespace roost::router
