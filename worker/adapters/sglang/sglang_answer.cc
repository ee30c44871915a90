#include "worker/adapters/sglang/sglang_answer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "worker/adapters/answer_json.h"

namespace roost::worker::adapters::sglang {
namespace {

// [logprob, token, text or null]; the logprob of a prompt's first token is null.
Result<wire::TokenLogprob> ReadTriple(json::Element element) {
  json::Array triple;
  std::uint64_t token = 0;
  double logprob = 0;
  if (element.get(triple) != simdjson::SUCCESS || triple.at(1).get(token) != simdjson::SUCCESS ||
      token > std::numeric_limits<TokenId>::max() || triple.at(0).get(logprob) != simdjson::SUCCESS) {
    return Unreadable("a log probability is not [number, token, text]");
  }
  return wire::TokenLogprob{static_cast<TokenId>(token), static_cast<float>(logprob)};
}

// Null where nothing was asked for.
Result<std::vector<wire::TokenLogprob>> ReadTriples(json::Element element) {
  std::vector<wire::TokenLogprob> triples;
  json::Array list;
  if (element.get(list) != simdjson::SUCCESS) return triples;
  for (const json::Element entry : list) {
    ROOST_ASSIGN_OR_RETURN(const wire::TokenLogprob triple, ReadTriple(entry));
    triples.push_back(triple);
  }
  return triples;
}

// The last `count` positions of two lists of equal length; without a count all but the first one.
Result<std::vector<wire::TokenLogprobs>> ReadPositions(const std::optional<json::Array>& own_list,
                                                       const std::optional<json::Array>& top_list,
                                                       std::optional<std::size_t> count, std::uint32_t wanted) {
  if (!own_list || !top_list) return Unreadable("it has no log probabilities");
  const std::vector<json::Element> own = json::Elements(*own_list);
  const std::vector<json::Element> top = json::Elements(*top_list);
  if (own.size() != top.size() || own.size() < count.value_or(1)) {
    return Unreadable("log probabilities are not one for each token");
  }
  std::vector<wire::TokenLogprobs> positions;
  for (std::size_t i = count ? own.size() - *count : 1; i < own.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const wire::TokenLogprob token, ReadTriple(own[i]));
    ROOST_ASSIGN_OR_RETURN(std::vector<wire::TokenLogprob> likeliest, ReadTriples(top[i]));
    positions.push_back(Ranked(token, std::move(likeliest), wanted, std::nullopt));
  }
  return positions;
}

// {"type": "stop", "matched": token or text}, {"type": "length"}, {"type": "abort", "message", "status_code"}.
void ReadEnd(json::Object reason, AnswerPiece& answer) {
  ChoicePiece& piece = answer.choices.front();
  const std::string_view type = json::At<std::string_view>(reason, "type").value_or("");
  if (type == "length") {
    piece.end = ChoiceEnd{.reason = wire::FinishReason::kLength};
  } else if (type == "stop") {
    piece.end =
        ChoiceEnd{.reason = wire::FinishReason::kStop, .stop_token = json::At<std::uint32_t>(reason, "matched")};
    if (!piece.end->stop_token || piece.tokens.empty() || piece.tokens.back() != *piece.end->stop_token) return;
    piece.tokens.pop_back();
    if (!piece.logprobs.empty()) piece.logprobs.pop_back();
  } else {
    const int status = static_cast<int>(json::At<std::uint32_t>(reason, "status_code").value_or(500));
    answer.complaint = Complaint{status, std::string(json::At<std::string_view>(reason, "message").value_or(type)), ""};
  }
}

}  // namespace

Result<AnswerPiece> SglangAnswer::ReadDocument(json::Element document) {
  AnswerPiece answer;
  answer.complaint = ReadComplaint(document, 500);
  if (answer.complaint) return answer;
  const auto meta = json::At<json::Object>(document, "meta_info");
  if (!meta) return Unreadable("it has no meta_info");
  answer.cached_tokens = json::At<std::uint32_t>(*meta, "cached_tokens");
  ChoicePiece& piece = answer.choices.emplace_back();
  ROOST_RETURN_IF_ERROR(ReadPromptOnce(*meta, piece));
  ROOST_RETURN_IF_ERROR(ReadNewTokens(document, *meta, piece));
  if (const auto reason = json::At<json::Object>(*meta, "finish_reason")) ReadEnd(*reason, answer);
  return answer;
}

Result<void> SglangAnswer::ReadNewTokens(json::Element document, json::Object meta, ChoicePiece& piece) {
  const auto listed = json::At<json::Array>(document, "output_ids");
  if (!listed) return Unreadable("it has no output_ids");
  ROOST_ASSIGN_OR_RETURN(piece.tokens, ReadTokens(*listed));
  const std::uint32_t all = json::At<std::uint32_t>(meta, "completion_tokens").value_or(0);
  const std::size_t fresh = all > seen_tokens_ ? all - seen_tokens_ : 0;
  if (piece.tokens.size() < fresh) return Unreadable("output_ids are fewer than completion_tokens says");
  piece.tokens.erase(piece.tokens.begin(), piece.tokens.end() - static_cast<std::ptrdiff_t>(fresh));
  seen_tokens_ = std::max(seen_tokens_, all);
  if (!wanted_.output_logprobs || fresh == 0) return {};
  ROOST_ASSIGN_OR_RETURN(piece.logprobs, ReadPositions(json::At<json::Array>(meta, "output_token_logprobs"),
                                                       json::At<json::Array>(meta, "output_top_logprobs"), fresh,
                                                       *wanted_.output_logprobs));
  return {};
}

Result<void> SglangAnswer::ReadPromptOnce(json::Object meta, ChoicePiece& piece) {
  if (!wanted_.prompt_logprobs || std::exchange(prompt_told_, true)) return {};
  ROOST_ASSIGN_OR_RETURN(piece.prompt_logprobs, ReadPositions(json::At<json::Array>(meta, "input_token_logprobs"),
                                                              json::At<json::Array>(meta, "input_top_logprobs"),
                                                              std::nullopt, *wanted_.prompt_logprobs));
  return {};
}

}  // namespace roost::worker::adapters::sglang
