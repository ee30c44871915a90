#include "router/api/pin_request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "common/prefix/block_hash.h"
#include "router/api/prompt.h"

namespace roost::router {
namespace {

Result<std::variant<ChatRequest, CompletionRequest>> ParsePinnedPrompt(const JsonObject& body) {
  const bool has_messages = body.Find("messages").has_value();
  const bool has_prompt = body.Find("prompt").has_value();
  if (has_messages && has_prompt) return InvalidArgument("prompt", "stands beside messages: give one of them");
  if (!has_messages) {
    if (!has_prompt) return InvalidArgument("prompt", "is missing: give a prompt or messages");
    ROOST_ASSIGN_OR_RETURN(CompletionRequest completion, ParseCompletionRequest(body));
    return std::variant<ChatRequest, CompletionRequest>(std::move(completion));
  }
  ROOST_ASSIGN_OR_RETURN(ChatRequest chat, ParseChatRequest(body));
  // The front of a conversation: requests go on behind it.
  if (!body.Find("add_generation_prompt")) chat.generation_prompt = ChatRequest::GenerationPrompt::kOmit;
  return std::variant<ChatRequest, CompletionRequest>(std::move(chat));
}

Result<PinTarget> ParseTarget(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> workers, body.String("workers"));
  if (!workers || *workers == "all") return PinTarget::kAllWorkers;
  if (*workers == "best") return PinTarget::kBestWorker;
  return InvalidArgument("workers", "must be \"all\" or \"best\"");
}

Result<std::vector<TokenId>> Tokenize(const ServedModel& model, const PinRequest& request, std::int64_t unix_seconds) {
  if (const auto* completion = std::get_if<CompletionRequest>(&request.prompt)) {
    return TokenizeCompletion(model, *completion);
  }
  ROOST_ASSIGN_OR_RETURN(const std::string text,
                         RenderChat(model, std::get<ChatRequest>(request.prompt), unix_seconds));
  return TokenizeRendered(model, text);
}

Result<void> CheckLength(const ServedModel& model, std::size_t token_count, std::string field) {
  if (token_count > model.max_context_tokens) {
    return Error{ErrorCode::kContextTooLong,
                 fmt::format("the prompt has {}, but the context of '{}' is {} tokens",
                             CountedTokens(model, token_count), model.name, model.max_context_tokens),
                 std::move(field)};
  }
  if (token_count < model.block_tokens) {
    return InvalidArgument(std::move(field), "has {} tokens, which fill no block: a block holds {}", token_count,
                           model.block_tokens);
  }
  return {};
}

}  // namespace

const SamplingFields& PinRequest::fields() const {
  return std::visit([](const auto& request) -> const SamplingFields& { return request.sampling; }, prompt);
}

std::string_view PinRequest::prompt_field() const {
  return std::holds_alternative<ChatRequest>(prompt) ? "messages" : "prompt";
}

Result<PinRequest> ParsePinRequest(const JsonObject& body) {
  PinRequest request;
  ROOST_ASSIGN_OR_RETURN(request.prompt, ParsePinnedPrompt(body));
  constexpr auto kMaxDurationMs = static_cast<std::int64_t>(wire::kMaxKeepMs);
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> duration, body.Integer("duration_ms", 1, kMaxDurationMs));
  request.duration_ms = static_cast<std::uint64_t>(duration.value_or(0));
  ROOST_ASSIGN_OR_RETURN(request.target, ParseTarget(body));
  return request;
}

Result<PinPlan> MakePinPlan(std::shared_ptr<const ServedModel> model, const PinRequest& request, PinAction action,
                            std::int64_t unix_seconds) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, Tokenize(*model, request, unix_seconds));
  ROOST_RETURN_IF_ERROR(CheckLength(*model, tokens.size(), std::string(request.prompt_field())));
  const BlockHash root = ScopeRoot(*model, request.fields().cache.salt);
  std::vector<BlockHash> hashes = HashBlocks(root, tokens, model->block_tokens);
  PinPlan plan;
  plan.prompt_token_count = tokens.size();
  plan.block_count = hashes.size();
  plan.order.model = std::move(model);
  plan.order.target = request.target;
  if (action == PinAction::kPin) {
    plan.order.message = wire::Pin{root, std::move(hashes), request.duration_ms};
  } else {
    plan.order.message = wire::Unpin{root, std::move(hashes)};
  }
  return plan;
}

}  // namespace roost::router
