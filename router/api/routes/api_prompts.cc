// The Api's routes that read prompts and generate answers. They run on text threads.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/trace_context.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "router/api/answers/messages_answer.h"
#include "router/api/answers/openai_answer.h"
#include "router/api/answers/read_body.h"
#include "router/api/answers/text_memory.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/chat_translation.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/prompt.h"
#include "router/api/requests/template_messages.h"
#include "router/api/requests/token_request.h"
#include "router/api/routes/api_call.h"
#include "router/api/tool_parsers/call_constraint.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {
namespace {

constexpr std::size_t kFingerprintDigits = 12;
constexpr std::string_view kTimeoutHeader = "x-request-timeout-ms";

// The size of all text to tokenize. An error if one prompt is certainly too long for the model.
Result<std::size_t> CheckedSize(const ServedModel& model, const CompletionRequest& request) {
  std::size_t size = 0;
  for (const CompletionPrompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt.value);
    if (text == nullptr) continue;
    ROOST_RETURN_IF_ERROR(CheckTextLength(model, *text, prompt.path));
    size += text->size();
  }
  return size;
}

std::string EchoOf(const ServedModel& model, const CompletionPrompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt.value)) return *text;
  return model.tokenizer->Decode(std::get<std::vector<TokenId>>(prompt.value), SpecialTokenOutput::kShow);
}

std::set<std::string, std::less<>> CustomToolsOf(const ToolSet& tools) {
  std::set<std::string, std::less<>> names;
  for (const ToolFunction& tool : tools.functions) {
    if (tool.input == ToolInput::kText) names.insert(tool.name);
  }
  return names;
}

Diagnosis DiagnosisOf(const SamplingFields& fields) {
  return fields.cache.wants_diagnosis ? Diagnosis::kTell : Diagnosis::kOmit;
}

OpenAiAnswerOptions AnswerOptions(const ServedModel& model, const SamplingFields& fields, Echo echo) {
  return {.tokenizer = model.tokenizer,
          .usage_report = fields.usage_report,
          .token_ids = fields.token_ids,
          .logprobs = fields.generate.output_logprobs ? Logprobs::kTell : Logprobs::kOmit,
          .echo = echo,
          .diagnosis = DiagnosisOf(fields)};
}

struct AnswerParts {
  ReasoningStart reasoning_start;
  ToolSet tools;
  std::string answer_id;
  std::uint32_t earlier_calls = 0;
};

// The parser finds calls and reasoning by the family's markers. So it needs the markers as text, even if they are
// special tokens.
void SetParser(const ServedModel& model, OutputFamily family, AnswerParts parts, GenerationOptions& options) {
  FamilyOutputOptions output;
  output.family = family;
  output.reasoning_start = parts.reasoning_start;
  output.tools = std::make_shared<const ToolSet>(std::move(parts.tools));
  output.ids.answer_id = std::move(parts.answer_id);
  output.ids.earlier_calls = parts.earlier_calls;
  output.delivery = options.format->call_delivery();
  for (const std::string_view marker : MarkersOf(family)) {
    const std::optional<TokenId> id = model.tokenizer->IdOf(marker);
    if (!id || !model.tokenizer->IsSpecial(*id)) continue;
    options.text.shown.push_back(*id);
    if (options.text.special_text == SpecialTokenOutput::kSkip) output.specials.emplace_back(marker);
  }
  options.make_parser = [output = std::move(output)](std::uint32_t choice) {
    FamilyOutputOptions own = output;
    own.ids.choice = choice;
    return MakeFamilyOutput(std::move(own));
  };
}

std::vector<PlacedBreakpoint> PlaceMarks(const ServedModel& model, const ChatRequest& chat, const PromptPlaces& places,
                                         const std::vector<TokenId>& tokens) {
  std::vector<PlacedBreakpoint> placed;
  for (const ChatRequest::Mark& mark : chat.marks) {
    const std::size_t end = mark.message ? places.EndOf(*mark.message, mark.bytes) : places.EndOfFront();
    placed.push_back({mark.breakpoint, TokensUpTo(*model.tokenizer, tokens, {end, places.text_size()})});
  }
  return placed;
}

}  // namespace

struct Api::Prompt {
  std::vector<GenerateSpec> specs;
  std::vector<std::string> echoes;  // the text with which answers begin; one for each spec, or none at all
  Echo echo = Echo::kNone;
  SamplingFields fields;
  OutputFamily family;  // of a chat's model; a completion's output is plain
  ReasoningStart reasoning_start = ReasoningStart::kNever;
  ToolSet tools;
  std::uint32_t earlier_calls = 0;           // of a chat
  std::shared_ptr<const PromptParts> parts;  // null: it is compared with nothing
  ByteBudget::Guard answer_memory;
};

// Calls of these families stand in no form that a constraint could hold to a custom tool's grammar.
Result<void> Api::CheckFreeCalls(const ToolSet& tools, ToolFamily calls) {
  if (calls == ToolFamily::kNone || tools.use != ToolUse::kAuto || !tools.has_grammar()) return {};
  return InvalidArgument(
      "tools",
      "a custom tool's grammar can be held to with this model where the call is forced (tool_choice) "
      "alone: leave the format out, or force the call");
}

// Forced or strict calls get the family's own form, if a constraint can describe it. A form of the request's own gets
// its place behind reasoning and beside calls.
Result<void> Api::ConstrainCalls(const ServedModel& model, Prompt& prompt) {
  const ToolFamily calls = prompt.family.tools;
  const bool has_own_form = !prompt.tools.is_forced() && prompt.fields.generate.constraint;
  const bool limits_xml = HasXmlCalls(calls) && prompt.tools.use == ToolUse::kAuto && prompt.tools.limits_calls();
  if (!HasCallSyntax(calls) && !limits_xml) ROOST_RETURN_IF_ERROR(CheckFreeCalls(prompt.tools, calls));
  if (!HasCallSyntax(calls) && !limits_xml && !has_own_form) return {};
  const auto special_token = [&model](std::string_view text) {
    const std::optional<TokenId> id = model.tokenizer->IdOf(text);
    return id && model.tokenizer->IsSpecial(*id) ? id : std::nullopt;
  };
  OutputFamily family = model.chat_template->family();
  family.tools = prompt.family.tools;
  const CallSyntax syntax{family, prompt.reasoning_start, special_token};
  Result<std::optional<wire::Constraint>> read =
      has_own_form ? FormConstraint(*prompt.fields.generate.constraint, prompt.tools, syntax)
                   : CallConstraint(prompt.tools, syntax);
  ROOST_ASSIGN_OR_RETURN(std::optional<wire::Constraint> constraint, std::move(read));
  if (!constraint) return {};
  prompt.fields.generate.constraint = std::move(constraint);
  prompt.tools.forced_form = ForcedForm::kFamily;
  return {};
}

struct Api::ChatPrompt {
  HashedTokens read;
  std::vector<PlacedBreakpoint> breakpoints;
  std::shared_ptr<const PromptParts> parts;
  ReasoningStart reasoning_start = ReasoningStart::kNever;
};

Result<std::shared_ptr<const ServedModel>> Api::FindModel(const std::string& name) const {
  if (std::shared_ptr<const ServedModel> model = services_.dispatcher.View()->models->Choose(name)) return model;
  return AwayOrUnknown(name);
}

std::vector<std::shared_ptr<const ServedModel>> Api::ModelsWithoutAdapters() const {
  std::vector<std::shared_ptr<const ServedModel>> models = services_.dispatcher.View()->models->models;
  std::erase_if(models, [](const auto& model) { return !model->base.empty(); });
  return models;
}

bool Api::MayAskFor(const Call& call, std::string_view name) const {
  if (call.admission == nullptr) return true;
  const ApiKey& key = call.admission->key();
  const std::string_view meant = MeantBy(name, call.admission, options_.model_aliases);
  return key.model_aliases.contains(name) || key.MayUse(name) || key.MayUse(meant);
}

std::vector<std::shared_ptr<const ServedModel>> Api::ModelsFor(const Call& call) const {
  const std::shared_ptr<const FleetSnapshot> view = services_.dispatcher.View();
  ModelAliases aliases = options_.model_aliases;
  if (call.admission != nullptr) {
    for (const auto& [alias, model] : call.admission->key().model_aliases) aliases.insert_or_assign(alias, model);
  }
  std::vector<std::shared_ptr<const ServedModel>> models = view->models->models;
  std::erase_if(models, [&](const auto& model) { return aliases.contains(model->name); });
  for (const auto& [alias, name] : aliases) {
    const std::shared_ptr<const ServedModel> meant = view->models->Main(name);
    if (meant == nullptr) continue;
    ServedModel other = *meant;
    other.base = meant->model_name();
    other.is_alias = true;
    other.name = alias;
    models.push_back(std::make_shared<const ServedModel>(std::move(other)));
  }
  std::erase_if(models, [&](const auto& model) { return !MayAskFor(call, model->name); });
  return models;
}

Error Api::AwayOrUnknown(const std::string& name) const {
  // A router that has just begun does not know yet what its workers bring.
  const std::shared_ptr<const FleetSnapshot> view = services_.dispatcher.View();
  if (!view->IsExpected(name) && !view->IsArriving(name)) return NotServed(name);
  return {ErrorCode::kUnavailable, fmt::format("no worker of the model '{}' is ready now", name), "model"};
}

// A key's ceiling is below the usual priority only where its requests are to wait behind others.
Result<void> Api::HoldToPriority(const Call& call, CacheFields& fields) {
  if (call.admission == nullptr) return {};
  const std::uint32_t most = call.admission->key().max_priority;
  if (fields.priority > most && fields.priority != CacheFields().priority) {
    return Error{ErrorCode::kPermissionDenied,
                 fmt::format("this key may ask for priorities up to {}, not {}", most, fields.priority), "priority"};
  }
  fields.priority = std::min(fields.priority, most);
  return {};
}

// The request's deadline. Its header can only shorten the server's timeout.
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

// Refuses a request early, before its messages are read, if its model is unknown or has no room.
Result<void> Api::CheckModel(Call& call, const JsonObject& body) const {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, body.String("model"));
  std::string wanted(name.value_or(""));
  if (wanted.empty() && call.model_name == Call::ModelName::kOptional) {
    auto models = ModelsWithoutAdapters();
    const bool is_hidden =
        std::erase_if(models, [&call](const auto& model) { return !MayUse(call.admission, model->name); }) > 0;
    if (models.size() == 1) wanted = models.front()->name;
    if (models.empty() && is_hidden) {
      return Error{ErrorCode::kNotFound, "this key may use no model that is served now", "model"};
    }
  }
  if (wanted.empty()) return InvalidArgument("model", "must name the model to ask");
  ROOST_RETURN_IF_ERROR(TakeModel(call, std::move(wanted)));
  return services_.dispatcher.View()->CheckRoom(*call.model);
}

Result<void> Api::TakeModel(Call& call, std::string name) const {
  if (!MayAskFor(call, name)) return NotServed(name);
  call.asked_model = MeantBy(name, call.admission, options_.model_aliases);
  call.asked_name = std::move(name);
  Result<std::shared_ptr<const ServedModel>> found = FindModel(call.asked_model);
  const bool is_arriving = !found.ok() && services_.dispatcher.View()->IsArriving(call.asked_model);
  if (is_arriving && call.arrival == Call::Arrival::kMayWait) {
    call.arrival = Call::Arrival::kWaits;
  }
  ROOST_ASSIGN_OR_RETURN(call.model, std::move(found));
  return {};
}

template <typename Request>
Result<Request> Api::ReadModelBody(Call& call, Result<Request> (*parse)(const JsonObject&)) const {
  HttpBody& body = call.request.body;
  // A request of another API is first translated into a chat request.
  const std::size_t size = call.field_of == nullptr ? body.size() : 2 * body.size();
  const auto check = [this, &call](const JsonObject& object) -> Result<void> {
    ROOST_RETURN_IF_ERROR(CheckModel(call, object));
    return CheckReadable(call, object);
  };
  Result<Request> request = ReadBody(body, size, check, parse);
  ROOST_CHECK(!request.ok() || call.model != nullptr, "a parsed request has a model");
  return request;
}

// ---- generation ----

void Api::ChatCompletions(Call& call) {
  GenerateOpenAi(call, AnswerKind::kChat, ReadChat(call, ReadModelBody(call, &ParseChatRequest)));
}

void Api::Completions(Call& call) { GenerateOpenAi(call, AnswerKind::kCompletion, ReadCompletion(call)); }

void Api::Responses(Call& call) {
  call.field_of = &ResponsesFieldOf;
  Result<ResponsesRequest> request = ReadModelBody(call, &ParseResponsesRequest);
  if (!request.ok()) return AnswerError(call, request.error());
  Result<Prompt> prompt = ReadChat(call, std::move(request->chat));
  if (!prompt.ok()) return AnswerError(call, prompt.error());
  // The answer repeats much of the request, in several of a stream's events.
  const Result<void> held = HoldMore(prompt->answer_memory, SizeOf(request->echo));
  if (!held.ok()) return AnswerError(call, held.error());
  ResponseIdentity identity;
  identity.id = NewId("resp_");
  identity.suffix = fmt::format("{:016x}", NextRandom());
  identity.created_unix_seconds = options_.unix_seconds_now();
  identity.model = call.asked_name;
  identity.echo = std::move(request->echo);
  identity.tool_names = std::move(request->tool_names);
  identity.diagnosis = DiagnosisOf(prompt->fields);
  const std::string id = identity.id;
  Generate(call, std::move(prompt).value(), id, std::make_unique<ResponsesAnswer>(std::move(identity)));
}

void Api::Messages(Call& call) {
  call.field_of = &MessagesFieldOf;
  Result<Prompt> prompt = ReadChat(call, ReadModelBody(call, &ParseMessagesRequest));
  if (!prompt.ok()) return AnswerError(call, prompt.error());
  MessageIdentity identity{NewId("msg_"), call.asked_name, DiagnosisOf(prompt->fields)};
  const std::string id = identity.id;
  Generate(call, std::move(prompt).value(), id, std::make_unique<MessagesAnswer>(std::move(identity)));
}

void Api::CountTokens(Call& call) {
  call.field_of = &MessagesFieldOf;
  AnswerResult(call, ReadCountTokens(call));
}

void Api::Tokenize(Call& call) {
  call.model_name = Call::ModelName::kOptional;
  AnswerResult(call, ReadTokenize(call));
}

void Api::Detokenize(Call& call) {
  call.model_name = Call::ModelName::kOptional;
  const Result<DetokenizeRequest> request = ReadModelBody(call, &ParseDetokenizeRequest);
  if (!request.ok()) return AnswerError(call, request.error());
  AnswerResult(call, DetokenizeBody(*call.model, *request));
}

// ---- prompts ----

RenderSettings Api::Settings() const {
  return {.unix_seconds = options_.unix_seconds_now(),
          .content = options_.message_content,
          .shared = options_.shared_prefixes};
}

PromptScope Api::ScopeOf(const Call& call) const { return {TenantOf(call.admission), options_.shared_prefixes}; }

Result<Api::ChatPrompt> Api::ReadChatPrompt(Call& call, const ChatRequest& chat) {
  ROOST_ASSIGN_OR_RETURN(const jinja::TracedText text, RenderChat(*call.model, chat, Settings()));
  ROOST_RETURN_IF_ERROR(CheckTextLength(*call.model, text.bytes, "messages"));
  ROOST_RETURN_IF_ERROR(
      Hold(call.request.body.memory(), EncodeBytes(text.size()) + text.written.size() * sizeof(ByteRange)));
  ChatPrompt prompt;
  prompt.reasoning_start = ReasoningStartOf(call.model->chat_template->family(), text.bytes);
  ROOST_ASSIGN_OR_RETURN(prompt.read,
                         ReadRenderedPrompt(*call.model, text, {*memo_, chat.sampling.cache, ScopeOf(call)}));
  const bool is_compared = options_.diagnosis_memory != nullptr && options_.diagnosis_memory->is_on();
  if (!is_compared && chat.marks.empty()) return prompt;
  const PromptPlaces places(text, chat.messages);
  if (is_compared) prompt.parts = PartsOf(chat, text, places);
  prompt.breakpoints = PlaceMarks(*call.model, chat, places, prompt.read.tokens);
  return prompt;
}

Result<Api::Prompt> Api::ReadChat(Call& call, Result<ChatRequest> chat) {
  if (!chat.ok()) return chat.error();
  // Tools that must not be called stay in the prompt, so that its beginning is the same with each choice of them,
  // unless the model could call them.
  if (chat->tool_set.choice_set == ToolChoiceSet::kSome && call.model->chat_template) {
    const ToolFamily calls = FamilyOfOutput(*call.model, *chat).tools;
    if (!HasCallSyntax(calls) && !HasXmlCalls(calls)) chat->tools = chat->allowed_tools;
  }
  ROOST_ASSIGN_OR_RETURN(ChatPrompt read, ReadChatPrompt(call, *chat));
  Prompt prompt;
  prompt.family = FamilyOfOutput(*call.model, *chat);
  prompt.reasoning_start = read.reasoning_start;
  prompt.tools = std::move(chat->tool_set);
  prompt.earlier_calls = CountCalls(chat->messages);
  prompt.fields = std::move(chat->sampling);
  if (chat->dropped_reasoning_count > 0) services_.observer.OnDroppedReasoning(chat->dropped_reasoning_count);
  ROOST_RETURN_IF_ERROR(CompleteCacheFields(call, prompt.fields.cache));
  ROOST_RETURN_IF_ERROR(ConstrainCalls(*call.model, prompt));
  SetPrewarm(prompt.fields);
  const std::size_t whole_size = read.read.tokens.size();
  TruncateFront(*call.model, prompt.fields, ScopeOf(call), read.read);
  const auto cut = static_cast<std::uint32_t>(whole_size - read.read.tokens.size());
  for (PlacedBreakpoint& each : read.breakpoints) each.end_token -= std::min(each.end_token, cut);
  SetLifetimes(call, read.read.tokens.size(), read.breakpoints, prompt.fields.cache);
  if (cut == 0) prompt.parts = std::move(read.parts);
  ROOST_RETURN_IF_ERROR(AddSpec(call, std::move(read.read), "messages", prompt));
  ROOST_RETURN_IF_ERROR(HoldSpecs(call, prompt));
  return prompt;
}

OutputFamily Api::FamilyOfOutput(const ServedModel& model, const ChatRequest& chat) const {
  OutputFamily family = model.chat_template->family();
  family.tools = options_.tool_family.value_or(family.tools);
  if (chat.reasoning == ChatRequest::Reasoning::kInContent) family.reasoning = ReasoningForm::kNone;
  return family;
}

Result<std::string> Api::ReadCountTokens(Call& call) {
  ROOST_ASSIGN_OR_RETURN(const ChatRequest chat, ReadModelBody(call, &ParseCountTokensRequest));
  ROOST_ASSIGN_OR_RETURN(const ChatPrompt prompt, ReadChatPrompt(call, chat));
  return fmt::format(R"({{"input_tokens":{}}})", prompt.read.tokens.size());
}

Result<std::string> Api::ReadTokenize(Call& call) {
  ROOST_ASSIGN_OR_RETURN(const TokenizeRequest request, ReadModelBody(call, &ParseTokenizeRequest));
  HashedTokens read;
  if (const auto* chat = std::get_if<ChatRequest>(&request.prompt)) {
    ROOST_ASSIGN_OR_RETURN(ChatPrompt prompt, ReadChatPrompt(call, *chat));
    read = std::move(prompt.read);
    TruncateFront(*call.model, chat->sampling, ScopeOf(call), read);
  } else {
    const auto& text = std::get<std::string>(request.prompt);
    ROOST_RETURN_IF_ERROR(CheckTextLength(*call.model, text, "prompt"));
    ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(text.size())));
    const CacheFields no_salt;
    ROOST_ASSIGN_OR_RETURN(read,
                           ReadTextPrompt(*call.model, text, request.special_tokens, {*memo_, no_salt, ScopeOf(call)}));
    TruncateFront(*call.model, request.truncation, ScopeOf(call), read);
  }
  return TokenizeBody(*call.model, read.tokens, request.token_texts);
}

Result<Api::Prompt> Api::ReadCompletion(Call& call) {
  ROOST_ASSIGN_OR_RETURN(CompletionRequest completion, ReadModelBody(call, &ParseCompletionRequest));
  ROOST_ASSIGN_OR_RETURN(const std::size_t size, CheckedSize(*call.model, completion));
  ROOST_RETURN_IF_ERROR(Hold(call.request.body.memory(), EncodeBytes(size)));
  Prompt prompt;
  prompt.fields = std::move(completion.sampling);
  ROOST_RETURN_IF_ERROR(CompleteCacheFields(call, prompt.fields.cache));
  SetPrewarm(prompt.fields);
  prompt.echo = completion.echo;
  for (const CompletionPrompt& each : completion.prompts) {
    ROOST_ASSIGN_OR_RETURN(HashedTokens read,
                           ReadCompletionPrompt(*call.model, each, {*memo_, prompt.fields.cache, ScopeOf(call)}));
    const bool is_cut = TruncateFront(*call.model, prompt.fields, ScopeOf(call), read);
    SetLifetimes(call, read.tokens.size(), {}, prompt.fields.cache);
    if (completion.echo == Echo::kPrompt) {
      prompt.echoes.push_back(is_cut ? call.model->tokenizer->Decode(read.tokens) : EchoOf(*call.model, each));
    }
    ROOST_RETURN_IF_ERROR(AddSpec(call, std::move(read), each.path, prompt));
  }
  ROOST_RETURN_IF_ERROR(HoldSpecs(call, prompt));
  return prompt;
}

Result<void> Api::AddSpec(const Call& call, HashedTokens read, std::string_view field, Prompt& prompt) {
  ROOST_ASSIGN_OR_RETURN(GenerateSpec spec, MakeGenerateSpec(call.model, std::move(read), prompt.fields,
                                                             {field, NextRandom(), ScopeOf(call)}));
  ROOST_ASSIGN_OR_RETURN(spec.deadline, DeadlineOf(call));
  prompt.specs.push_back(std::move(spec));
  return {};
}

// Moves the request's charge on the input budget to its specs; it is given back when the last of them is destroyed.
Result<void> Api::HoldSpecs(Call& call, Prompt& prompt) {
  std::uint64_t bytes = 0;
  for (const GenerateSpec& spec : prompt.specs) bytes += SpecBytes(spec);
  ByteBudget::Guard& memory = call.request.body.memory();
  ROOST_RETURN_IF_ERROR(Hold(memory, bytes));
  ROOST_RETURN_IF_ERROR(HoldAnswer(call, prompt));
  const auto shared = std::make_shared<ByteBudget::Guard>(std::move(memory));
  for (GenerateSpec& spec : prompt.specs) spec.memory = shared;
  return {};
}

// The answer's own charge, on the same budget: it lasts until the client has the answer.
Result<void> Api::HoldAnswer(const Call& call, Prompt& prompt) {
  const SamplingFields& fields = prompt.fields;
  AnswerShape shape{.delivery = fields.delivery, .token_ids = fields.token_ids};
  for (const std::string& stop : fields.stop) shape.stop_bytes += stop.size();
  AnswerBound bound{.choices = prompt.specs.size() * fields.generate.sample_count,
                    .logprobs = fields.generate.output_logprobs};
  for (const GenerateSpec& spec : prompt.specs) {
    bound.start_bytes += AnswerStartBytes(spec, shape);
    bound.tokens = std::max<std::uint64_t>(bound.tokens, spec.generate.max_output_tokens);
  }
  for (const std::string& echo : prompt.echoes) bound.start_bytes += echo.size();
  for (const ToolFunction& tool : prompt.tools.functions) {
    bound.start_bytes += tool.schema.size() + (tool.grammar ? tool.grammar->text.size() : 0);
  }
  if (fields.max_output_tokens == 0) bound.tokens = 0;
  prompt.answer_memory = call.request.body.memory().Another();
  if (fields.delivery == Delivery::kWhole && fields.max_output_tokens) {
    ROOST_RETURN_IF_ERROR(CheckAnswerFits(prompt.answer_memory, bound, fields.max_output_tokens_field));
  }
  return Hold(prompt.answer_memory, bound.start_bytes);
}

// ---- answers ----

std::string Api::NewId(std::string_view prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, NextRandom(), NextRandom());
}

void Api::GenerateOpenAi(const Call& call, AnswerKind kind, Result<Prompt> prompt) {
  if (!prompt.ok()) return AnswerError(call, prompt.error());
  AnswerIdentity identity;
  identity.kind = kind;
  identity.id = NewId(kind == AnswerKind::kChat ? "chatcmpl-" : "cmpl-");
  identity.created_unix_seconds = options_.unix_seconds_now();
  identity.model = call.asked_name;
  identity.system_fingerprint = "fp_" + call.model->fingerprint.substr(0, kFingerprintDigits);
  const std::string id = identity.id;
  OpenAiAnswerOptions options = AnswerOptions(*call.model, prompt->fields, prompt->echo);
  options.custom_tools = CustomToolsOf(prompt->tools);
  Generate(call, std::move(prompt).value(), id,
           std::make_unique<OpenAiAnswer>(std::move(identity), std::move(options)));
}

void Api::Generate(const Call& call, Prompt prompt, const std::string& answer_id,
                   std::unique_ptr<AnswerFormat> format) {
  const SamplingFields& fields = prompt.fields;
  if (fields.unknown_field_count > 0) services_.observer.OnUnknownFields(fields.unknown_field_count);
  CompareAndKeep(call, fields.cache, prompt.parts.get(), prompt.specs, answer_id);
  GenerationOptions options;
  options.route = call.route;
  options.request_id = fields.request_id.empty() ? call.request.request_id : fields.request_id;
  options.client = call.request.client;
  options.trace = BeginTrace(options_.tracing, call.request.FindHeader("traceparent").value_or(""));
  for (GenerateSpec& spec : prompt.specs) {
    spec.answer_id = answer_id;
    if (call.admission != nullptr) spec.key = call.admission->key().name;
    spec.request_id = options.request_id;
    spec.generate.trace_parent = options.trace.trace_parent;
  }
  options.format = std::move(format);
  options.delivery = fields.delivery;
  options.text = {.stop = fields.stop, .stop_text = fields.stop_text, .special_text = fields.special_text};
  options.calls = prompt.tools.count;
  SetParser(*prompt.specs.front().model, prompt.family,
            {prompt.reasoning_start, std::move(prompt.tools), answer_id, prompt.earlier_calls}, options);
  options.token_ids = fields.token_ids;
  options.echoes = std::move(prompt.echoes);
  options.memory = std::make_shared<ByteBudget::Guard>(std::move(prompt.answer_memory));
  if (fields.max_output_tokens == 0) options.output = GenerationOptions::Output::kDrop;
  if (fields.cache.options.prewarm) options.output = GenerationOptions::Output::kPrewarm;
  options.started_at = call.started_at;
  options.admission = call.admission;
  Generation::Start(services_, call.responder, *call.client, std::move(prompt.specs), std::move(options));
}

}  // namespace roost::router
