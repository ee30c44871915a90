#include "worker/adapters/vllm/vllm_answer.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "worker/adapters/answer_json.h"

namespace roost::worker::adapters::vllm {
namespace {

// "token_id:268" or "268".
Result<TokenId> TokenOfName(std::string_view name) {
  constexpr std::string_view kPrefix = "token_id:";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  TokenId token = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), token);
  if (error != std::errc() || end != name.end()) return Unreadable("log probabilities name no token ids");
  return token;
}

Result<float> LogprobOf(json::Element element) {
  double logprob = 0;
  if (element.get(logprob) != simdjson::SUCCESS) return Unreadable("a log probability is no number");
  return static_cast<float>(logprob);
}

// The members of one position: {"token_id:268": -0.5, …}.
Result<std::vector<wire::TokenLogprob>> ReadLikeliest(json::Element position) {
  json::Object members;
  if (position.get(members) != simdjson::SUCCESS) return Unreadable("top_logprobs holds no objects");
  std::vector<wire::TokenLogprob> likeliest;
  for (const auto& [name, value] : members) {
    ROOST_ASSIGN_OR_RETURN(const TokenId token, TokenOfName(name));
    ROOST_ASSIGN_OR_RETURN(const float logprob, LogprobOf(value));
    likeliest.push_back({token, logprob});
  }
  return likeliest;
}

// {"token_logprobs": […], "top_logprobs": [{…}, …]}, one position for each token.
Result<std::vector<wire::TokenLogprobs>> ReadLogprobs(json::Object logprobs, const std::vector<TokenId>& tokens,
                                                      std::uint32_t wanted) {
  const auto own = json::At<json::Array>(logprobs, "token_logprobs");
  const auto top = json::At<json::Array>(logprobs, "top_logprobs");
  if (!own || !top || own->size() != tokens.size() || top->size() != tokens.size()) {
    return Unreadable("log probabilities are not one for each token");
  }
  const std::vector<json::Element> own_positions = json::Elements(*own);
  const std::vector<json::Element> top_positions = json::Elements(*top);
  std::vector<wire::TokenLogprobs> positions;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const float logprob, LogprobOf(own_positions[i]));
    ROOST_ASSIGN_OR_RETURN(std::vector<wire::TokenLogprob> likeliest, ReadLikeliest(top_positions[i]));
    positions.push_back(Ranked({tokens[i], logprob}, std::move(likeliest), wanted, std::nullopt));
  }
  return positions;
}

// {"268": {"logprob", "rank", "decoded_token"}, …}: the prompt's token beside the likeliest.
Result<wire::TokenLogprobs> ReadPromptPosition(json::Element position, TokenId own, std::uint32_t wanted) {
  json::Object members;
  if (position.get(members) != simdjson::SUCCESS) return Unreadable("prompt_logprobs holds no objects");
  std::optional<wire::TokenLogprob> own_logprob;
  std::optional<std::uint32_t> own_rank;
  std::vector<wire::TokenLogprob> likeliest;
  for (const auto& [name, value] : members) {
    ROOST_ASSIGN_OR_RETURN(const TokenId token, TokenOfName(name));
    json::Element logprob_element;
    if (value["logprob"].get(logprob_element) != simdjson::SUCCESS) return Unreadable("a prompt token has no logprob");
    ROOST_ASSIGN_OR_RETURN(const float logprob, LogprobOf(logprob_element));
    const std::optional<std::uint32_t> rank = json::At<std::uint32_t>(value, "rank");
    if (token == own) own_logprob = {token, logprob};
    if (token == own) own_rank = rank;
    if (!rank || *rank <= wanted) likeliest.push_back({token, logprob});
  }
  if (!own_logprob) return Unreadable("prompt_logprobs lacks the prompt's own token");
  return Ranked(*own_logprob, std::move(likeliest), wanted, own_rank);
}

Result<std::vector<wire::TokenLogprobs>> ReadPrompt(const json::Array& list, const std::vector<TokenId>& prompt,
                                                    std::uint32_t wanted) {
  if (list.size() != prompt.size()) return Unreadable("prompt_logprobs are not one for each token");
  std::vector<wire::TokenLogprobs> positions;
  std::size_t index = 0;
  for (const json::Element position : list) {
    if (index++ == 0) continue;  // null: nothing comes before the first token
    ROOST_ASSIGN_OR_RETURN(wire::TokenLogprobs read, ReadPromptPosition(position, prompt[index - 1], wanted));
    positions.push_back(std::move(read));
  }
  return positions;
}

// The token that stops is the last of the choice's tokens. `stop_reason` names it, or is null for the tokenizer's end
// token; a string would mean that a text stopped it, which is never asked for.
void TakeStopToken(json::Element choice, ChoicePiece& piece) {
  if (piece.tokens.empty() || json::At<std::string_view>(choice, "stop_reason").has_value()) return;
  const std::optional<std::uint32_t> named = json::At<std::uint32_t>(choice, "stop_reason");
  if (named && *named != piece.tokens.back()) return;
  piece.end->stop_token = piece.tokens.back();
  piece.tokens.pop_back();
  if (!piece.logprobs.empty()) piece.logprobs.pop_back();
}

// "repetition" stops where the output repeats itself.
ChoiceEnd EndOf(std::string_view reason) {
  if (reason == "length") return {.reason = wire::FinishReason::kLength};
  if (reason == "stop" || reason == "repetition") return {.reason = wire::FinishReason::kStop};
  return {.reason = wire::FinishReason::kError,
          .error = Unavailable(fmt::format("the engine ended the request with '{}'", reason))};
}

}  // namespace

VllmAnswer::VllmAnswer(Wanted wanted) : wanted_(std::move(wanted)) {}

Result<AnswerPiece> VllmAnswer::ReadDocument(json::Element document) {
  AnswerPiece piece;
  piece.complaint = ReadComplaint(document, 500);
  if (piece.complaint) return piece;
  const std::optional<json::Array> choices = json::At<json::Array>(document, "choices");
  if (!choices) return Unreadable("it has no choices");
  for (const json::Element choice : *choices) {
    ROOST_ASSIGN_OR_RETURN(ChoicePiece read, ReadChoice(choice));
    piece.choices.push_back(std::move(read));
  }
  if (const auto kv_transfer = json::At<json::Object>(document, "kv_transfer_params")) {
    piece.kv_transfer = simdjson::minify(*kv_transfer);
    // The other engine computes a prompt with more blocks than a message can name.
    if (piece.kv_transfer.size() > wire::kMaxKvTransferBytes) piece.kv_transfer.clear();
  }
  if (const auto usage = json::At<json::Object>(document, "usage")) {
    const auto details = json::At<json::Object>(*usage, "prompt_tokens_details");
    if (details) piece.cached_tokens = json::At<std::uint32_t>(*details, "cached_tokens");
  }
  return piece;
}

Result<ChoicePiece> VllmAnswer::ReadChoice(json::Element choice) const {
  ChoicePiece piece;
  piece.index = json::At<std::uint32_t>(choice, "index").value_or(0);
  const auto tokens = json::At<json::Array>(choice, "token_ids");
  if (!tokens) return Unreadable("a choice has no token_ids");
  ROOST_ASSIGN_OR_RETURN(piece.tokens, ReadTokens(*tokens));
  if (wanted_.output_logprobs && !piece.tokens.empty()) {
    const auto logprobs = json::At<json::Object>(choice, "logprobs");
    if (!logprobs) return Unreadable("a choice has no log probabilities");
    ROOST_ASSIGN_OR_RETURN(piece.logprobs, ReadLogprobs(*logprobs, piece.tokens, *wanted_.output_logprobs));
  }
  if (wanted_.prompt_logprobs) {
    const auto prompt = json::At<json::Array>(choice, "prompt_logprobs");
    if (!prompt) return Unreadable("it has no prompt_logprobs");
    ROOST_ASSIGN_OR_RETURN(piece.prompt_logprobs, ReadPrompt(*prompt, wanted_.prompt, *wanted_.prompt_logprobs));
  }
  const std::optional<std::string_view> reason = json::At<std::string_view>(choice, "finish_reason");
  if (!reason) return piece;
  piece.end = EndOf(*reason);
  if (*reason == "stop") TakeStopToken(choice, piece);
  return piece;
}

}  // namespace roost::worker::adapters::vllm
