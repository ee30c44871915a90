// The part of the Api that reads prompts and has them answered. On text threads.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "common/text/tokenizer.h"
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

// Of the text that is to be tokenized.
std::size_t SizeOf(const CompletionRequest& request) {
  std::size_t size = 0;
  for (const CompletionPrompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt.value)) size += text->size();
  }
  return size;
}

std::string EchoOf(const ServedModel& model, const CompletionPrompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt.value)) return *text;
  return model.tokenizer->Decode(std::get<std::vector<TokenId>>(prompt.value), SpecialTokenOutput::kShow);
}

OpenAiAnswerOptions AnswerOptions(const ServedModel& model, const SamplingFields& fields, Echo echo) {
  return {.tokenizer = model.tokenizer,
          .usage_report = fields.usage_report,
          .token_ids = fields.token_ids,
          .logprobs = fields.output_logprobs ? Logprobs::kTell : Logprobs::kOmit,
          .echo = echo};
}

}  // namespace

struct Api::Prompt {
  std::vector<GenerateSpec> specs;
  std::vector<std::string> echoes;  // that answers begin with; one for each spec, or none at all
  Echo echo = Echo::kNone;
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
  Prompt prompt;
  prompt.fields = std::move(chat.sampling);
  chat = ChatRequest();  // the text holds all that is still needed
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(text.size())));
  ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokenizeRendered(*call.model, text));
  ROOST_RETURN_IF_ERROR(AddSpec(call, std::move(tokens), "messages", prompt));
  ROOST_RETURN_IF_ERROR(HoldSpecs(call, prompt));
  return prompt;
}

Result<Api::Prompt> Api::ReadCompletion(Call& call) {
  ROOST_ASSIGN_OR_RETURN(CompletionRequest completion, ReadBody(call, &ParseCompletionRequest));
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(SizeOf(completion))));
  Prompt prompt;
  prompt.fields = std::move(completion.sampling);
  prompt.echo = completion.echo;
  for (const CompletionPrompt& each : completion.prompts) {
    ROOST_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokenizeCompletion(*call.model, each));
    ROOST_RETURN_IF_ERROR(AddSpec(call, std::move(tokens), each.path, prompt));
    if (completion.echo == Echo::kPrompt) prompt.echoes.push_back(EchoOf(*call.model, each));
  }
  ROOST_RETURN_IF_ERROR(HoldSpecs(call, prompt));
  return prompt;
}

Result<void> Api::AddSpec(const Call& call, std::vector<TokenId> tokens, std::string_view field, Prompt& prompt) {
  ROOST_ASSIGN_OR_RETURN(GenerateSpec spec,
                         MakeGenerateSpec(call.model, std::move(tokens), prompt.fields, {field, NextRandom()}));
  ROOST_ASSIGN_OR_RETURN(spec.deadline, DeadlineOf(call));
  prompt.specs.push_back(std::move(spec));
  return {};
}

// What the request holds of the budget for input is given back when the last of its specs is gone.
Result<void> Api::HoldSpecs(Call& call, Prompt& prompt) {
  std::uint64_t bytes = 0;
  for (const GenerateSpec& spec : prompt.specs) bytes += SpecBytes(spec);
  ByteBudget::Guard& memory = call.request.body.memory();
  ROOST_RETURN_IF_ERROR(Hold(memory, bytes));
  const auto shared = std::make_shared<ByteBudget::Guard>(std::move(memory));
  for (GenerateSpec& spec : prompt.specs) spec.memory = shared;
  return {};
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
  GenerationOptions options;
  options.route = call.route;
  options.request_id = fields.request_id.empty() ? call.request.request_id : fields.request_id;
  for (GenerateSpec& spec : prompt->specs) {
    spec.answer_id = identity.id;
    spec.request_id = options.request_id;
  }
  options.format =
      std::make_unique<OpenAiAnswer>(std::move(identity), AnswerOptions(*call.model, fields, prompt->echo));
  options.delivery = fields.delivery;
  options.text = {.stop = fields.stop, .stop_text = fields.stop_text, .special_text = fields.special_text};
  options.token_ids = fields.token_ids;
  options.echoes = std::move(prompt->echoes);
  options.started_at = call.started_at;
  Generation::Start(services_, call.responder, *call.client, std::move(prompt->specs), std::move(options));
}

}  // namespace roost::router
