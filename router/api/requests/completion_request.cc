#include "router/api/requests/completion_request.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace roost::router {
namespace {

using Request = CompletionRequest;

Result<CompletionPrompt> ParseIds(const simdjson::dom::array& ids, std::string path) {
  std::vector<TokenId> tokens;
  for (const JsonElement element : ids) {
    const std::string id_path = fmt::format("{}[{}]", path, tokens.size());
    ROOST_ASSIGN_OR_RETURN(const std::int64_t id, IntegerOf(element, id_path, 0, std::numeric_limits<TokenId>::max()));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return CompletionPrompt{std::move(tokens), std::move(path)};
}

Result<CompletionPrompt> ParseText(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  return CompletionPrompt{std::string(text), std::move(path)};
}

// Parses one of several prompts: a text or ids.
Result<CompletionPrompt> ParseOneOf(JsonElement element, std::string path) {
  if (simdjson::dom::array ids; element.get(ids) == simdjson::SUCCESS) return ParseIds(ids, std::move(path));
  return ParseText(element, std::move(path));
}

// "text", ["text", …], [1, 2, 3] or [[1, 2, 3], …].
Result<std::vector<CompletionPrompt>> ParsePrompts(JsonElement prompt) {
  std::vector<CompletionPrompt> prompts;
  simdjson::dom::array items;
  if (prompt.get(items) != simdjson::SUCCESS) {
    if (!IsString(prompt)) {
      return InvalidArgument("prompt", "must be a string or an array, not {}", TypeName(prompt));
    }
    ROOST_ASSIGN_OR_RETURN(prompts.emplace_back(), ParseText(prompt, "prompt"));
    return prompts;
  }
  if (items.size() == 0) return InvalidArgument("prompt", "must not be empty");
  const JsonElement first = items.at(0);
  if (!IsString(first) && !first.is_array()) {
    ROOST_ASSIGN_OR_RETURN(prompts.emplace_back(), ParseIds(items, "prompt"));
    return prompts;
  }
  if (items.size() > kMaxPrompts) {
    return InvalidArgument("prompt", "must hold at most {} prompts, not {}", kMaxPrompts, items.size());
  }
  for (const JsonElement item : items) {
    ROOST_ASSIGN_OR_RETURN(CompletionPrompt next, ParseOneOf(item, fmt::format("prompt[{}]", prompts.size())));
    prompts.push_back(std::move(next));
  }
  return prompts;
}

Result<void> ReadPrompts(JsonElement element, const std::string&, Request& request) {
  ROOST_ASSIGN_OR_RETURN(request.prompts, ParsePrompts(element));
  return {};
}

// best_of may only equal n, because then all choices are sent.
Result<void> CheckBestOf(JsonElement element, const std::string& path, Request& request) {
  ROOST_ASSIGN_OR_RETURN(const std::int64_t best_of, IntegerOf(element, path, 1, kMaxChoices));
  if (best_of == request.sampling.generate.sample_count) return {};
  return InvalidArgument(path, "must be equal to n: this server sends every choice that it samples");
}

constexpr std::string_view kPromptSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}},)"
    R"({"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},)"
    R"({"type":"array","minItems":1,"items":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}}]})";
constexpr std::string_view kBestOfSchema = R"({"type":"integer","minimum":1,"maximum":16})";

constexpr auto kCompletionFields = std::to_array<RequestField<Request>>({
    {"prompt", "One prompt or several: text, or token ids.", Own<Request>{kPromptSchema, &ReadPrompts}},
    {"echo", "The answer's text begins with the prompt's.",
     Flag<Request>{[](Request& r, bool v) { r.echo = v ? Echo::kPrompt : Echo::kNone; }}},
    {"best_of", "Must equal n.", Own<Request>{kBestOfSchema, &CheckBestOf}},
    {"logprobs", "Log probabilities of the answer's tokens, and of this many of the likeliest tokens for each.",
     Whole<Request>{
         0, wire::kMaxTopLogprobs,
         [](Request& r, std::int64_t v) { r.sampling.generate.output_logprobs = static_cast<std::uint32_t>(v); }}},
    {"suffix", "Not supported: this server does not fill in text before a suffix.", Refused{Refused::Accepts::kEmpty}},
});

}  // namespace

std::span<const RequestField<CompletionRequest>> CompletionFieldTable() { return kCompletionFields; }

Result<CompletionRequest> ParseCompletionRequest(const JsonObject& body) {
  Request request;
  ROOST_ASSIGN_OR_RETURN(request.sampling, ParseSamplingFields(body));
  ROOST_RETURN_IF_ERROR(ReadFields(body, CompletionFieldTable(), request));
  request.sampling.unknown_field_count =
      CountUnknown(body, SamplingFieldTable(), CacheFieldTable(), CompletionFieldTable());
  if (request.prompts.empty()) return InvalidArgument("prompt", "is missing");
  if (request.echo == Echo::kNone) ROOST_RETURN_IF_ERROR(CheckWantsAnswer(request.sampling));
  if (request.prompts.size() * request.sampling.generate.sample_count > kMaxChoicesOfAll) {
    return InvalidArgument("n", "makes {} choices of {} prompts: at most {} in all",
                           request.prompts.size() * request.sampling.generate.sample_count, request.prompts.size(),
                           kMaxChoicesOfAll);
  }
  // If the answer has log probabilities, an echoed prompt has them too.
  if (request.echo == Echo::kPrompt && !request.sampling.generate.prompt_logprobs) {
    request.sampling.generate.prompt_logprobs = request.sampling.generate.output_logprobs;
  }
  return request;
}

}  // namespace roost::router
