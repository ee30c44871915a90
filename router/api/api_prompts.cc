// The part of the Api that reads prompts and has them answered. On text threads.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "router/api/api_body.h"
#include "router/api/api_call.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/api/openai_answer.h"
#include "router/api/prompt.h"
#include "router/api/text_memory.h"

namespace roost::router {
namespace {

constexpr std::size_t kFingerprintDigits = 12;
constexpr std::string_view kTimeoutHeader = "x-request-timeout-ms";

std::size_t SizeOf(const CompletionRequest& request) {
  const auto* text = std::get_if<std::string>(&request.prompt);
  return text == nullptr ? 0 : text->size();
}

}  // namespace

struct Api::Prompt {
  std::vector<GenerateSpec> specs;
  SamplingFields fields;
};

Result<std::shared_ptr<const ServedModel>> Api::FindModel(const std::string& name) const {
  if (std::shared_ptr<const ServedModel> model = services_.dispatcher.ChooseModel(name)) return model;
  if (services_.dispatcher.IsExpected(name)) {
    return Error{ErrorCode::kUnavailable, fmt::format("no worker of the model '{}' is ready now", name), "model"};
  }
  if (services_.dispatcher.Models().empty()) {
    return Error{ErrorCode::kUnavailable, "no worker is ready yet", ""};
  }
  return Error{ErrorCode::kModelNotFound, fmt::format("the model '{}' is not served here", name), "model"};
}

// When the request's time is over: its header may only shorten what the server allows.
Result<Instant> Api::DeadlineOf(const Call& call) const {
  const std::optional<std::string_view> text = call.request.FindHeader(kTimeoutHeader);
  if (!text.has_value()) return call.started_at + options_.request_timeout;
  std::uint64_t milliseconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), milliseconds);
  if (error != std::errc() || end != text->data() + text->size() || milliseconds == 0) {
    return InvalidArgument(std::string(kTimeoutHeader), "must be a number of milliseconds, at least 1");
  }
  const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(options_.request_timeout).count();
  const auto shorter = std::min(milliseconds, static_cast<std::uint64_t>(most));
  return call.started_at + std::chrono::milliseconds(shorter);
}

// What is certain to be refused is refused before its messages are looked at.
Result<void> Api::CheckModel(Call& call, const JsonObject& body) const {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, body.String("model"));
  if (!name || name->empty()) return InvalidArgument("model", "must name the model to ask");
  ROOST_ASSIGN_OR_RETURN(call.model, FindModel(std::string(*name)));
  return services_.dispatcher.CheckRoom(*call.model);
}

// ---- generation ----

void Api::ChatCompletions(Call& call) { Generate(call, AnswerKind::kChat, ReadChat(call)); }
void Api::Completions(Call& call) { Generate(call, AnswerKind::kCompletion, ReadCompletion(call)); }

Result<Api::Prompt> Api::ReadChat(Call& call) {
  ROOST_ASSIGN_OR_RETURN(ChatRequest chat, ReadBody(call, &ParseChatRequest));
  ROOST_ASSIGN_OR_RETURN(const std::string text, RenderChat(*call.model, chat, options_.unix_seconds_now()));
  SamplingFields fields = std::move(chat.sampling);
  chat = ChatRequest();  // the text holds all that is still needed
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(text.size())));
  ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokenizeRendered(*call.model, text));
  return MakePrompt(call, std::move(tokens), std::move(fields), "messages");
}

Result<Api::Prompt> Api::ReadCompletion(Call& call) {
  ROOST_ASSIGN_OR_RETURN(CompletionRequest completion, ReadBody(call, &ParseCompletionRequest));
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(SizeOf(completion))));
  ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokenizeCompletion(*call.model, completion));
  return MakePrompt(call, std::move(tokens), std::move(completion.sampling), "prompt");
}

Result<Api::Prompt> Api::MakePrompt(Call& call, std::vector<TokenId> tokens, SamplingFields fields,
                                    std::string_view field) {
  ROOST_ASSIGN_OR_RETURN(GenerateSpec spec,
                         MakeGenerateSpec(call.model, std::move(tokens), fields, {field, NextRandom()}));
  ByteBudget::Guard& memory = call.request.body.memory();
  ROOST_RETURN_IF_ERROR(Hold(memory, SpecBytes(spec)));
  ROOST_ASSIGN_OR_RETURN(spec.deadline, DeadlineOf(call));
  spec.memory = std::make_shared<ByteBudget::Guard>(std::move(memory));
  std::vector<GenerateSpec> specs;
  specs.push_back(std::move(spec));
  return Prompt{std::move(specs), std::move(fields)};
}

void Api::Generate(const Call& call, AnswerKind kind, Result<Prompt> prompt) {
  if (!prompt.ok()) return AnswerError(call, prompt.error());
  const SamplingFields& fields = prompt->fields;
  AnswerIdentity identity;
  identity.kind = kind;
  identity.id =
      fmt::format("{}-{:016x}{:016x}", kind == AnswerKind::kChat ? "chatcmpl" : "cmpl", NextRandom(), NextRandom());
  identity.created_unix_seconds = options_.unix_seconds_now();
  identity.model = call.model->name;
  identity.system_fingerprint = "fp_" + call.model->fingerprint.substr(0, kFingerprintDigits);
  for (GenerateSpec& spec : prompt->specs) {
    spec.answer_id = identity.id;
    spec.request_id = call.request.request_id;
  }
  GenerationOptions options;
  options.route = call.route;
  options.request_id = call.request.request_id;
  options.format = std::make_unique<OpenAiAnswer>(std::move(identity), fields.usage_report);
  options.delivery = fields.delivery;
  options.stop = fields.stop;
  options.started_at = call.started_at;
  Generation::Start(services_, call.responder, *call.client, std::move(prompt->specs), std::move(options));
}

}  // namespace roost::router
