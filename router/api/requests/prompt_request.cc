#include "router/api/requests/prompt_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/codec.h"
#include "router/api/requests/prompt.h"

namespace roost::router {
namespace {

// More than the workers of any router.
constexpr std::size_t kMaxNames = 1024;

Result<std::vector<TokenId>> Tokenize(const ServedModel& model, const PromptRequest& request,
                                      const RenderSettings& settings) {
  if (const auto* completion = std::get_if<CompletionRequest>(&request.prompt)) {
    return TokenizeCompletion(model, completion->prompts.front());
  }
  ROOST_ASSIGN_OR_RETURN(const jinja::TracedText text,
                         RenderChat(model, std::get<ChatRequest>(request.prompt), settings));
  return TokenizeRendered(model, text);
}

bool ReadHex(std::string_view digits, std::uint64_t& value) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  return error == std::errc() && stop == end;
}

Result<std::vector<std::string>> ParseNames(simdjson::dom::array elements) {
  if (elements.size() == 0 || elements.size() > kMaxNames) {
    return InvalidArgument("workers", "holds {} names, not 1 to {}", elements.size(), kMaxNames);
  }
  std::vector<std::string> names;
  for (const JsonElement element : elements) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, StringOf(element, "workers"));
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return InvalidArgument("workers", "names '{}' twice", name);
    }
    names.emplace_back(name);
  }
  return names;
}

}  // namespace

const SamplingFields& PromptRequest::fields() const {
  return std::visit([](const auto& request) -> const SamplingFields& { return request.sampling; }, prompt);
}

std::string_view PromptRequest::prompt_field() const {
  return std::holds_alternative<ChatRequest>(prompt) ? "messages" : "prompt";
}

Result<std::string> ParseTenant(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> tenant, body.String("tenant"));
  if (tenant.value_or("").size() <= wire::WireLimits::kMaxTenantBytes) return std::string(tenant.value_or(""));
  return InvalidArgument("tenant", "is longer than {} bytes", wire::WireLimits::kMaxTenantBytes);
}

Result<PromptRequest> ParsePromptRequest(const JsonObject& body, ChatPart part) {
  ROOST_ASSIGN_OR_RETURN(std::string tenant, ParseTenant(body));
  const bool has_messages = body.Find("messages").has_value();
  const bool has_prompt = body.Find("prompt").has_value();
  if (has_messages && has_prompt) return InvalidArgument("prompt", "can not be given together with messages");
  if (!has_messages) {
    if (!has_prompt) return InvalidArgument("prompt", "is missing: give a prompt or messages");
    ROOST_ASSIGN_OR_RETURN(CompletionRequest completion, ParseCompletionRequest(body));
    if (completion.prompts.size() > 1) return InvalidArgument("prompt", "must be one prompt");
    return PromptRequest{std::move(completion), std::move(tenant)};
  }
  ROOST_ASSIGN_OR_RETURN(ChatRequest chat, ParseChatRequest(body));
  if (part == ChatPart::kFront && !body.Find("add_generation_prompt")) {
    chat.generation_prompt = ChatRequest::GenerationPrompt::kOmit;
  }
  return PromptRequest{std::move(chat), std::move(tenant)};
}

Result<std::optional<BlockHash>> ParseBlockHash(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, body.String("hash"));
  if (!text) return std::optional<BlockHash>();
  for (const char* member : {"prompt", "messages", "tenant", "cache_salt"}) {
    if (body.Find(member)) return InvalidArgument("hash", "can not be given together with {}", member);
  }
  BlockHash hash;
  const std::size_t half = 2 * sizeof(hash.high);
  if (text->size() != 2 * half || !ReadHex(text->substr(0, half), hash.high) ||
      !ReadHex(text->substr(half), hash.low)) {
    return InvalidArgument("hash", "must be 32 hexadecimal digits, as roostctl prefixes prints them");
  }
  return std::optional(hash);
}

Result<WorkerChoice> ParseWorkerChoice(const JsonObject& body) {
  const std::optional<JsonElement> workers = body.Find("workers");
  if (!workers) return WorkerChoice{};
  if (simdjson::dom::array elements; workers->get(elements) == simdjson::SUCCESS) {
    ROOST_ASSIGN_OR_RETURN(std::vector<std::string> names, ParseNames(elements));
    return WorkerChoice{PinTarget::kNamedWorkers, std::move(names)};
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> word, body.String("workers"));
  if (*word == "all") return WorkerChoice{};
  if (*word == "best") return WorkerChoice{PinTarget::kBestWorker};
  return InvalidArgument("workers", "must be \"all\", \"best\" or an array of names");
}

Result<HashedPrompt> HashPrompt(const ServedModel& model, const PromptRequest& request,
                                const RenderSettings& settings) {
  HashedPrompt prompt;
  ROOST_ASSIGN_OR_RETURN(prompt.tokens, Tokenize(model, request, settings));
  if (prompt.tokens.size() > model.max_context_tokens) {
    return Error{ErrorCode::kContextTooLong,
                 fmt::format("the prompt has {}, but the maximum context length of '{}' is {} tokens",
                             CountedTokens(model, prompt.tokens.size()), model.name, model.max_context_tokens),
                 std::string(request.prompt_field())};
  }
  const std::string& salt = request.fields().cache.salt;
  prompt.root = ScopeRoot(model, request.tenant, salt);
  HashedTokens hashed;
  hashed.block_hashes = HashBlocks(prompt.root, prompt.tokens, model.block_tokens);
  hashed.tokens = std::move(prompt.tokens);
  ShareFront(model, {request.tenant, settings.shared}, salt, hashed);
  if (hashed.own) prompt.root = ScopeRoot(model, "", "");
  prompt.own = hashed.own;
  prompt.tokens = std::move(hashed.tokens);
  prompt.hashes = std::move(hashed.block_hashes);
  return prompt;
}

Result<HashedPrompt> HashBlocksOfPrompt(const ServedModel& model, const PromptRequest& request,
                                        const RenderSettings& settings) {
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashPrompt(model, request, settings));
  if (!prompt.hashes.empty()) return prompt;
  return InvalidArgument(std::string(request.prompt_field()), "has {} tokens, which do not fill a block of {}",
                         prompt.tokens.size(), model.block_tokens);
}

}  // namespace roost::router
