#include "router/api/completion_request.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace roost::router {
namespace {

using Accepts = NeutralField::Accepts;
using Prompt = std::variant<std::string, std::vector<TokenId>>;

constexpr std::array kNeutralOfCompletions{
    NeutralField{"logprobs", Accepts::kNothing},
    NeutralField{"echo", Accepts::kFalse},
    NeutralField{"suffix", Accepts::kEmpty},
};

Result<Prompt> ParseIds(const simdjson::dom::array& ids, std::string_view path) {
  std::vector<TokenId> tokens;
  for (const JsonElement element : ids) {
    const std::string id_path = fmt::format("{}[{}]", path, tokens.size());
    ROOST_ASSIGN_OR_RETURN(const std::int64_t id, IntegerOf(element, id_path, 0, std::numeric_limits<TokenId>::max()));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return Prompt(std::move(tokens));
}

Result<Prompt> ParseText(JsonElement element, std::string_view path) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  return Prompt(std::string(text));
}

// The best n of n are all of them.
Result<void> CheckBestOf(const JsonObject& body, std::uint32_t choice_count) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> best_of, body.Integer("best_of", 1, kMaxChoices));
  if (!best_of || *best_of == choice_count) return {};
  return InvalidArgument("best_of", "must be equal to n: this server sends every choice that it samples");
}

// "text", ["text"], [1, 2, 3] or [[1, 2, 3]].
Result<Prompt> ParsePrompt(const JsonObject& body) {
  const std::optional<JsonElement> prompt = body.Find("prompt");
  if (!prompt) return InvalidArgument("prompt", "is missing");
  if (prompt->is_string()) return ParseText(*prompt, "prompt");
  simdjson::dom::array items;
  if (prompt->get(items) != simdjson::SUCCESS) {
    return InvalidArgument("prompt", "must be a string or an array, not {}", TypeName(*prompt));
  }
  if (items.size() == 0) return InvalidArgument("prompt", "must not be empty");
  const JsonElement first = items.at(0);
  if (!first.is_string() && !first.is_array()) return ParseIds(items, "prompt");
  if (items.size() > 1) return InvalidArgument("prompt", "must be one prompt: this server takes one per request");
  if (first.is_string()) return ParseText(first, "prompt[0]");
  return ParseIds(simdjson::dom::array(first), "prompt[0]");
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(const JsonObject& body) {
  CompletionRequest request;
  ROOST_ASSIGN_OR_RETURN(request.sampling, ParseSamplingFields(body));
  ROOST_RETURN_IF_ERROR(CheckNeutralFields(body, kNeutralOfCompletions));
  ROOST_RETURN_IF_ERROR(CheckBestOf(body, request.sampling.choice_count));
  ROOST_ASSIGN_OR_RETURN(request.prompt, ParsePrompt(body));
  return request;
}

}  // namespace roost::router
