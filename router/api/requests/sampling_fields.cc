#include "router/api/requests/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "common/http/http_message.h"
#include "router/api/requests/structured_output.h"

namespace roost::router {
namespace {

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTokenId = std::numeric_limits<TokenId>::max();

// The key of logit_bias is a token id in decimal.
std::optional<TokenId> TokenIdOf(std::string_view text) {
  TokenId id = 0;
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || read_to != end || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return id;
}

using Fields = SamplingFields;

// Sets the field in place of the model's default.
template <auto kField, typename Value>
void Give(Fields& fields, Value value) {
  fields.given.emplace_back([value](wire::Sampling& sampling) { sampling.*kField = value; });
}

Result<void> ReadLogitBias(JsonElement element, const std::string& path, Fields& fields) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject biases, JsonObject::From(element, path));
  if (biases.members().size() > kMaxLogitBiases) {
    return InvalidArgument(path, "must hold at most {} tokens, not {}", kMaxLogitBiases, biases.members().size());
  }
  for (const auto& member : biases.members()) {
    const std::string member_path = biases.PathOf(member.first);
    const std::optional<TokenId> token = TokenIdOf(member.first);
    if (!token) return InvalidArgument(member_path, "must have a token id as its name");
    ROOST_ASSIGN_OR_RETURN(const float bias, RealOf(member.second, member_path, -wire::kMaxLogitBias,
                                                    wire::kMaxLogitBias, LowEnd::kIncluded));
    fields.generate.sampling.logit_bias.push_back({.token = *token, .bias = bias});
  }
  std::sort(fields.generate.sampling.logit_bias.begin(), fields.generate.sampling.logit_bias.end(),
            [](const wire::LogitBias& a, const wire::LogitBias& b) { return a.token < b.token; });
  return {};
}

// The empty text, which forms of clients leave behind, ends nothing.
Result<void> AddStop(JsonElement element, const std::string& path, Fields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, TextOf(element, path, 0, kMaxStopStringBytes));
  if (!text.empty()) fields.stop.emplace_back(text);
  return {};
}

Result<void> ReadStop(JsonElement element, const std::string& path, Fields& fields) {
  if (IsString(element)) return AddStop(element, path, fields);
  if (!element.is_array()) {
    return InvalidArgument(path, "must be a string or an array of strings, not {}", TypeName(element));
  }
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> strings, ElementsOf(element, path));
  if (strings.size() > kMaxStopStrings) {
    return InvalidArgument(path, "must hold at most {} strings, not {}", kMaxStopStrings, strings.size());
  }
  for (std::size_t i = 0; i < strings.size(); ++i) {
    ROOST_RETURN_IF_ERROR(AddStop(strings[i], fmt::format("{}[{}]", path, i), fields));
  }
  return {};
}

Result<void> ReadStopTokens(JsonElement element, const std::string& path, Fields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> ids, ElementsOf(element, path));
  if (ids.size() > kMaxStopTokens) {
    return InvalidArgument(path, "must hold at most {} ids, not {}", kMaxStopTokens, ids.size());
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const std::int64_t id, IntegerOf(ids[i], fmt::format("{}[{}]", path, i), 0, kMaxTokenId));
    fields.generate.stop_tokens.push_back(static_cast<TokenId>(id));
  }
  return {};
}

// Some clients always send stream_options, also without stream. Then the value is checked but has no effect.
Result<void> ReadStreamOptions(JsonElement element, const std::string& path, Fields& fields) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject options, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> at_end, options.Bool("include_usage"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> every_chunk, options.Bool("continuous_usage_stats"));
  if (at_end.value_or(false)) {
    fields.usage_report = every_chunk.value_or(false) ? UsageReport::kEveryChunk : UsageReport::kAtEnd;
  }
  return {};
}

// Each of these fields is a constraint read by `kRead`.
template <auto kRead>
Result<void> ReadConstraint(JsonElement element, const std::string& path, Fields& fields) {
  return SetConstraint(kRead(element, path), fields.generate.constraint);
}

// Found in bodies that were written by hand. Its members would have no effect there.
Result<void> CheckExtraBody(JsonElement element, const std::string& path, Fields&) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject extra, JsonObject::From(element, path));
  if (extra.members().empty()) return {};
  return InvalidArgument(path, "must be empty: its members belong beside the other fields of the request");
}

// Dynamo's extension. Its other members ask for nothing that an answer must hold to.
Result<void> CheckExtension(JsonElement element, const std::string& path, Fields&) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject extension, JsonObject::From(element, path));
  for (const auto& [name, value] : extension.members()) {
    if (!name.starts_with("guided_") || value.is_null()) continue;
    return InvalidArgument(extension.PathOf(name), "is not supported here: it belongs beside the other fields");
  }
  return {};
}

Result<void> ReadRequestId(JsonElement element, const std::string& path, Fields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view id, StringOf(element, path));
  if (!IsValidRequestId(id)) {
    return InvalidArgument(path, "must be 1 to 128 letters, digits and characters of . _ : -");
  }
  fields.request_id = id;
  return {};
}

// 0 is for a completion with echo; CheckWantsAnswer refuses it elsewhere. So an error names the bounds without it.
Result<void> ReadMaxTokens(JsonElement element, const std::string& path, Fields& fields) {
  const bool is_zero = json::NumberOf(element) == 0;
  ROOST_ASSIGN_OR_RETURN(const std::int64_t value, IntegerOf(element, path, is_zero ? 0 : 1, kMaxTokens));
  fields.max_output_tokens = static_cast<std::uint32_t>(value);
  fields.max_output_tokens_field = path;
  return {};
}

constexpr std::string_view kMaxTokensSchema = R"({"type":"integer","minimum":0,"maximum":2147483647})";

constexpr std::string_view kStopSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","maxItems":16,"items":{"type":"string"}}]})";
constexpr std::string_view kStopTokensSchema =
    R"({"type":"array","maxItems":64,"items":{"type":"integer","minimum":0,"maximum":4294967295}})";
constexpr std::string_view kLogitBiasSchema =
    R"({"type":"object","maxProperties":1024,"additionalProperties":{"type":"number","minimum":-100,"maximum":100},)"
    R"("propertyNames":{"pattern":"^(0|[1-9][0-9]{0,8})$"}})";
constexpr std::string_view kStreamOptionsSchema =
    R"({"type":"object","properties":{"include_usage":{"type":["boolean","null"]},)"
    R"("continuous_usage_stats":{"type":["boolean","null"]}}})";
constexpr std::string_view kResponseFormatSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"enum":["text","json_object","json_schema"]},)"
    R"("schema":{"type":"object"},)"
    R"("json_schema":{"type":"object","required":["schema"],"properties":{"name":{"type":"string"},)"
    R"("schema":{"type":"object"},"strict":{"type":["boolean","null"]}}}}})";
constexpr std::string_view kFormatSchema = R"({"anyOf":[{"enum":["","json"]},{"type":"object"}]})";
constexpr std::string_view kStructuredOutputsSchema =
    R"({"type":"object","properties":{"json":{"type":["object","string"]},"regex":{"type":"string"},)"
    R"("choice":{"type":"array","items":{"type":"string"}},"grammar":{"type":"string"},)"
    R"("json_object":{"type":"boolean"}},"additionalProperties":false})";
constexpr std::string_view kGuidedJsonSchema = R"({"type":["object","string"]})";
constexpr std::string_view kGuidedTextSchema = R"({"type":"string","minLength":1})";
constexpr std::string_view kGuidedChoiceSchema =
    R"({"type":"array","minItems":1,"items":{"type":"string","minLength":1}})";
constexpr std::string_view kRequestIdSchema = R"({"type":"string","pattern":"^[A-Za-z0-9._:-]{1,128}$"})";

constexpr auto kMinSeed = std::numeric_limits<std::int64_t>::min();
constexpr auto kMaxSeed = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMaxModelBytes = 4096;

constexpr std::string_view kTruncateSchema = R"({"anyOf":[{"const":-1},{"type":"integer","minimum":1}]})";

constexpr auto kSamplingFields = std::to_array<RequestField<Fields>>({
    {"model", "The model to ask.", Text<Fields>{1, kMaxModelBytes, [](Fields& f, std::string_view v) { f.model = v; }}},
    {"stream", "Send the answer as server-sent events.",
     Flag<Fields>{[](Fields& f, bool v) { f.delivery = v ? Delivery::kStream : Delivery::kWhole; }}},
    {"stream_options", "Whether a stream reports its token counts: at its end, or in every chunk.",
     Own<Fields>{kStreamOptionsSchema, &ReadStreamOptions}},
    {"max_tokens",
     "The maximum number of tokens in the answer. Absent: as many as the context has room for. 0: only with echo.",
     Own<Fields>{kMaxTokensSchema, &ReadMaxTokens}},
    {"max_completion_tokens", "The newer name of max_tokens. If both are given, this one counts.",
     Own<Fields>{kMaxTokensSchema, &ReadMaxTokens}},
    {"min_tokens", "The answer has at least this many tokens before a stop token or a stop text may end it.",
     Whole<Fields>{0, kMaxTokens,
                   [](Fields& f, std::int64_t v) { f.generate.min_output_tokens = static_cast<std::uint32_t>(v); }}},
    {"temperature", "0 is greedy. Absent: the model's default, as for the next four.",
     Real<Fields>{0, 2, &Give<&wire::Sampling::temperature, float>}},
    {"top_p", "Sample from the likeliest tokens whose probabilities add up to this.",
     Real<Fields>{0, 1, &Give<&wire::Sampling::top_p, float>, LowEnd::kExcluded}},
    {"min_p", "Drop tokens that are less likely than this share of the likeliest token's probability.",
     Real<Fields>{0, 1, &Give<&wire::Sampling::min_p, float>}},
    {"top_k", "Sample from the k likeliest tokens; 0 or -1: from all.",
     Whole<Fields>{
         -1, kMaxTokens,
         [](Fields& f,
            std::int64_t v) { Give<&wire::Sampling::top_k>(f, v < 0 ? 0U : static_cast<std::uint32_t>(v)); }}},
    {"repetition_penalty", "For tokens of prompt and answer: divides logits above 0 and multiplies the others.",
     Real<Fields>{wire::kMinRepetitionPenalty, wire::kMaxRepetitionPenalty,
                  &Give<&wire::Sampling::repetition_penalty, float>}},
    {"seed", "The same seed gives the same answer.",
     Whole<Fields>{kMinSeed, kMaxSeed,
                   [](Fields& f, std::int64_t v) { Give<&wire::Sampling::seed>(f, static_cast<std::uint64_t>(v)); }}},
    {"n", "Choices for each prompt. Choice i samples with seed + i.",
     Whole<Fields>{1, kMaxChoices,
                   [](Fields& f, std::int64_t v) { f.generate.sample_count = static_cast<std::uint32_t>(v); }}},
    {"presence_penalty", "Subtracted from the logits of tokens that the answer already has.",
     Real<Fields>{-wire::kMaxPenalty, wire::kMaxPenalty,
                  [](Fields& f, float v) { f.generate.sampling.presence_penalty = v; }}},
    {"frequency_penalty", "Subtracted from a token's logit once for each time it occurs in the answer.",
     Real<Fields>{-wire::kMaxPenalty, wire::kMaxPenalty,
                  [](Fields& f, float v) { f.generate.sampling.frequency_penalty = v; }}},
    {"logit_bias", "Added to the logits of tokens; the keys are token ids.",
     Own<Fields>{kLogitBiasSchema, &ReadLogitBias}},
    {"stop", "Texts that end the answer.", Own<Fields>{kStopSchema, &ReadStop}},
    {"stop_token_ids", "Tokens that end the answer, in addition to the model's own.",
     Own<Fields>{kStopTokensSchema, &ReadStopTokens}},
    {"include_stop_str_in_output", "Keep the stop text at the end of the answer.",
     Flag<Fields>{[](Fields& f, bool v) { f.stop_text = v ? StopText::kShow : StopText::kOmit; }}},
    {"ignore_eos", "The model's own stop tokens do not end the answer.",
     Flag<Fields>{[](Fields& f, bool v) { f.generate.ignore_eos = v; }}},
    {"skip_special_tokens", "False: special tokens show in the text.", Flag<Fields>{[](Fields& f, bool v) {
       f.special_text = v ? SpecialTokenOutput::kSkip : SpecialTokenOutput::kShow;
     }}},
    {"return_token_ids", "Include the token ids of prompt and answer.",
     Flag<Fields>{[](Fields& f, bool v) { f.token_ids = v ? TokenIdReport::kTell : TokenIdReport::kOmit; }}},
    {"prompt_logprobs", "Log probabilities of the prompt's tokens, and of this many of the likeliest tokens for each.",
     Whole<Fields>{0, wire::kMaxTopLogprobs,
                   [](Fields& f, std::int64_t v) { f.generate.prompt_logprobs = static_cast<std::uint32_t>(v); }}},
    {"response_format", "The form of the answer: text, any JSON object, or JSON that matches a schema.",
     Own<Fields>{kResponseFormatSchema, &ReadConstraint<&ReadResponseFormatConstraint>}},
    {"format", "The form of the answer, as in Ollama: json, or a JSON schema.",
     Own<Fields>{kFormatSchema, &ReadConstraint<&ReadFormat>}},
    {"structured_outputs", "The form of the answer, as in vLLM: json, regex, choice, grammar or json_object.",
     Own<Fields>{kStructuredOutputsSchema, &ReadConstraint<&ReadStructuredOutputs>}},
    {"guided_json", "The answer is JSON that matches this schema.",
     Own<Fields>{kGuidedJsonSchema, &ReadConstraint<&ReadGuidedJson>}},
    {"guided_regex", "The whole answer matches this regular expression.",
     Own<Fields>{kGuidedTextSchema, &ReadConstraint<&ReadGuidedRegex>}},
    {"guided_choice", "The answer is one of these texts.",
     Own<Fields>{kGuidedChoiceSchema, &ReadConstraint<&ReadGuidedChoice>}},
    {"guided_grammar", "The answer matches this EBNF grammar, whose start rule is root.",
     Own<Fields>{kGuidedTextSchema, &ReadConstraint<&ReadGuidedGrammar>}},
    {"json_schema", "Another name of guided_json.", Own<Fields>{kGuidedJsonSchema, &ReadConstraint<&ReadGuidedJson>}},
    {"regex", "Another name of guided_regex.", Own<Fields>{kGuidedTextSchema, &ReadConstraint<&ReadGuidedRegex>}},
    {"ebnf", "Another name of guided_grammar.", Own<Fields>{kGuidedTextSchema, &ReadConstraint<&ReadGuidedGrammar>}},
    {"grammar", "Another name of guided_grammar.", Own<Fields>{kGuidedTextSchema, &ReadConstraint<&ReadGuidedGrammar>}},
    {"guided_decoding_backend", "Without effect: there is one.", Ignored{}},
    {"guided_whitespace_pattern", "Not supported.", Refused{}},
    {"structural_tag", "Not supported: see tools.", Refused{}},
    {"extra_body", "Must be empty: clients' libraries put its members beside the other fields.",
     Own<Fields>{R"({"type":"object","maxProperties":0})", &CheckExtraBody}},
    {"nvext", "Without effect; members that begin with guided_ are refused.",
     Own<Fields>{R"({"type":"object"})", &CheckExtension}},
    {"guided_decoding", "Not supported: see guided_json.", Refused{Refused::Accepts::kEmpty}},
    {"guided_options", "Not supported: see guided_json.", Refused{Refused::Accepts::kEmpty}},
    {"request_id", "The client's own name for the request, in logs and decisions.",
     Own<Fields>{kRequestIdSchema, &ReadRequestId}},
    {"bad_words", "Not supported.", Refused{Refused::Accepts::kEmpty}},
    {"allowed_token_ids", "Not supported.", Refused{Refused::Accepts::kEmpty}},
    {"logits_processors", "Not supported.", Refused{Refused::Accepts::kEmpty}},
    {"truncate_prompt_tokens", "Keep the last tokens of the prompt: this many; -1: what leaves room for the answer.",
     Own<Fields>{kTruncateSchema, &ReadTruncate}},
    {"use_beam_search", "Not supported.", Refused{Refused::Accepts::kFalse}},
    {"user", "Without effect.", Ignored{}},
    {"metadata", "Without effect.", Ignored{}},
    {"store", "Without effect: nothing is stored.", Ignored{}},
    {"service_tier", "Without effect.", Ignored{}},
    {"safety_identifier", "Without effect.", Ignored{}},
});

}  // namespace

Result<void> ReadTruncate(JsonElement element, const std::string& path, SamplingFields& fields) {
  ROOST_ASSIGN_OR_RETURN(const std::int64_t kept, IntegerOf(element, path, -1, kMaxTokens));
  if (kept == 0) return InvalidArgument(path, "must be -1 or at least 1");
  fields.truncate_prompt_tokens = kept;
  return {};
}

std::span<const RequestField<SamplingFields>> SamplingFieldTable() { return kSamplingFields; }

Result<SamplingFields> ParseSamplingFields(const JsonObject& body) {
  SamplingFields fields;
  ROOST_RETURN_IF_ERROR(ReadFields(body, SamplingFieldTable(), fields));
  ROOST_ASSIGN_OR_RETURN(fields.cache, ParseCacheFields(body));
  return fields;
}

void ApplySampling(const wire::SamplingDefaults& defaults, const SamplingFields& fields, std::uint64_t default_seed,
                   wire::Sampling& sampling) {
  sampling.temperature = defaults.temperature;
  sampling.top_p = defaults.top_p;
  sampling.top_k = defaults.top_k;
  sampling.min_p = defaults.min_p;
  sampling.repetition_penalty = defaults.repetition_penalty;
  sampling.seed = default_seed;
  for (const auto& set : fields.given) set(sampling);
}

Result<void> CheckWantsAnswer(const SamplingFields& fields) {
  if (fields.max_output_tokens != 0) return {};
  return InvalidArgument(fields.max_output_tokens_field, "must be at least 1 here: 0 is for a completion with echo");
}

}  // namespace roost::router
