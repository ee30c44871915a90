#include "router/api/routes/api_call.h"

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "router/api/requests/cache_fields.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/chat_translation.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/request_field.h"
#include "router/api/requests/sampling_fields.h"
#include "router/api/requests/token_request.h"

namespace roost::router {
namespace {

// ---- fields ----

void WriteType(std::string_view type, JsonWriter& json) {
  // Null counts as absent.
  json.Key("type").BeginArray().String(type).String("null").EndArray();
}

void WriteRefused(Refused::Accepts accepts, JsonWriter& json) {
  switch (accepts) {
    case Refused::Accepts::kNothing: json.Key("type").String("null"); break;
    case Refused::Accepts::kFalse: json.Key("enum").Raw("[false,null]"); break;
    case Refused::Accepts::kTrue: json.Key("enum").Raw("[true,null]"); break;
    case Refused::Accepts::kEmpty: json.Key("enum").Raw(R"(["",[],{},null])"); break;
  }
}

template <typename Request>
void WriteRule(const RequestField<Request>& field, JsonWriter& json) {
  if (const auto* real = std::get_if<Real<Request>>(&field.rule)) {
    WriteType("number", json);
    json.Key(real->low_end == LowEnd::kExcluded ? "exclusiveMinimum" : "minimum").Number(double{real->low});
    json.Key("maximum").Number(double{real->high});
  } else if (const auto* whole = std::get_if<Whole<Request>>(&field.rule)) {
    WriteType("integer", json);
    json.Key("minimum").Number(whole->low).Key("maximum").Number(whole->high);
  } else if (std::get_if<Flag<Request>>(&field.rule) != nullptr) {
    WriteType("boolean", json);
  } else if (const auto* text = std::get_if<Text<Request>>(&field.rule)) {
    WriteType("string", json);
    json.Key("minLength").Number(static_cast<std::uint64_t>(text->min_bytes));
    json.Key("maxLength").Number(static_cast<std::uint64_t>(text->max_bytes));
  } else if (const auto* own = std::get_if<Own<Request>>(&field.rule)) {
    json.Key("anyOf").BeginArray().Raw(own->schema).Raw(R"({"type":"null"})").EndArray();
  } else if (const auto* refused = std::get_if<Refused>(&field.rule)) {
    WriteRefused(refused->accepts, json);
  }
}

template <typename Request>
void WriteFields(std::span<const RequestField<Request>> fields, JsonWriter& json) {
  for (const RequestField<Request>& field : fields) {
    json.Key(field.name).BeginObject().Key("description").String(field.description);
    WriteRule(field, json);
    json.EndObject();
  }
}

void BeginSchema(std::string_view name, std::initializer_list<std::string_view> required, JsonWriter& json) {
  json.Key(name).BeginObject().Key("type").String("object").Key("required").BeginArray();
  for (const std::string_view field : required) json.String(field);
  json.EndArray().Key("properties").BeginObject();
}

void EndSchema(JsonWriter& json) { json.EndObject().EndObject(); }

void WriteRequestSchemas(JsonWriter& json) {
  BeginSchema("ChatCompletionRequest", {"model", "messages"}, json);
  WriteFields(ChatFieldTable(), json);
  WriteFields(SamplingFieldTable(), json);
  WriteFields(CacheFieldTable(), json);
  EndSchema(json);
  BeginSchema("CompletionRequest", {"model", "prompt"}, json);
  WriteFields(CompletionFieldTable(), json);
  WriteFields(SamplingFieldTable(), json);
  WriteFields(CacheFieldTable(), json);
  EndSchema(json);
  BeginSchema("ResponsesRequest", {"model", "input"}, json);
  WriteFields(ResponsesFieldTable(), json);
  WriteFields(SharedFieldTable(), json);
  WriteFields(CacheFieldTable(), json);
  EndSchema(json);
  BeginSchema("MessagesRequest", {"model", "max_tokens", "messages"}, json);
  WriteFields(MessagesFieldTable(), json);
  WriteFields(SharedFieldTable(), json);
  WriteFields(CacheFieldTable(), json);
  EndSchema(json);
  BeginSchema("CountTokensRequest", {"model", "messages"}, json);
  WriteFields(MessagesFieldTable(), json);
  WriteFields(SharedFieldTable(), json);
  EndSchema(json);
  BeginSchema("TokenizeRequest", {"prompt"}, json);
  WriteFields(TokenizeFieldTable(), json);
  EndSchema(json);
  BeginSchema("DetokenizeRequest", {"tokens"}, json);
  WriteFields(DetokenizeFieldTable(), json);
  EndSchema(json);
}

// ---- answers ----

struct AnswerSchema {
  std::string_view name;
  std::string_view schema;
};

constexpr std::array kAnswerSchemas{
    AnswerSchema{
        "Error",
        R"({"type":"object","required":["error"],"properties":{"error":{"type":"object",)"
        R"("required":["message","type","param","code"],"properties":{"message":{"type":"string"},)"
        R"("type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}})"},
    AnswerSchema{"MessagesError",
                 R"({"type":"object","required":["type","error"],"properties":{"type":{"const":"error"},)"
                 R"("error":{"type":"object","required":["type","message"],"properties":{"type":{"type":"string"},)"
                 R"("message":{"type":"string"}}}}})"},
    AnswerSchema{"Usage", R"({"type":"object","required":["prompt_tokens","completion_tokens","total_tokens",)"
                          R"("prompt_tokens_details"],"properties":{"prompt_tokens":{"type":"integer"},)"
                          R"("completion_tokens":{"type":"integer"},"total_tokens":{"type":"integer"},)"
                          R"("prompt_tokens_details":{"type":"object","required":["cached_tokens"],"properties":{)"
                          R"("cached_tokens":{"type":"integer"},"cache_write_tokens":{"type":"integer"}}}}})"},
    AnswerSchema{"PromptCacheDiagnostics",
                 R"({"type":"object","required":["type"],"properties":{"type":{"enum":["cache_hit","cache_miss",)"
                 R"("comparison_response_not_found","unavailable"]},"reason":{"enum":["model_changed","tools_changed",)"
                 R"("input_changed","reasoning_effort_changed","prompt_cache_key_changed"]},)"
                 R"("cache_missed_tokens":{"type":"integer"},"comparison_reusable_tokens":{"type":"integer"}}})"},
    AnswerSchema{"ChatCompletion",
                 R"({"type":"object","required":["id","object","created","model","choices","usage"],"properties":{)"
                 R"("id":{"type":"string"},"object":{"const":"chat.completion"},"created":{"type":"integer"},)"
                 R"("model":{"type":"string"},"usage":{"$ref":"#/components/schemas/Usage"},)"
                 R"("prompt_cache_diagnostics":{"$ref":"#/components/schemas/PromptCacheDiagnostics"},)"
                 R"("choices":{"type":"array","items":{"type":"object","required":["index","message","finish_reason"],)"
                 R"("properties":{"index":{"type":"integer"},"message":{"type":"object","required":["role","content"],)"
                 R"("properties":{"role":{"const":"assistant"},"content":{"type":["string","null"]}}},)"
                 R"("finish_reason":{"enum":["stop","length","tool_calls"]}}}}}})"},
    AnswerSchema{"Completion",
                 R"({"type":"object","required":["id","object","created","model","choices","usage"],"properties":{)"
                 R"("id":{"type":"string"},"object":{"const":"text_completion"},"created":{"type":"integer"},)"
                 R"("model":{"type":"string"},"usage":{"$ref":"#/components/schemas/Usage"},)"
                 R"("choices":{"type":"array","items":{"type":"object","required":["index","text","finish_reason"],)"
                 R"("properties":{"index":{"type":"integer"},"text":{"type":"string"},)"
                 R"("finish_reason":{"enum":["stop","length"]}}}}}})"},
    AnswerSchema{"Response",
                 R"({"type":"object","required":["id","object","created_at","status","model","output","usage"],)"
                 R"("properties":{"id":{"type":"string"},"object":{"const":"response"},)"
                 R"("created_at":{"type":"integer"},"status":{"enum":["completed","incomplete"]},)"
                 R"("model":{"type":"string"},"output":{"type":"array","items":{"type":"object",)"
                 R"("required":["id","type"]}},"usage":{"type":"object","required":["input_tokens",)"
                 R"("input_tokens_details","output_tokens"],"properties":{"input_tokens":{"type":"integer"},)"
                 R"("output_tokens":{"type":"integer"},"input_tokens_details":{"type":"object","required":[)"
                 R"("cached_tokens","cache_write_tokens"],"properties":{"cached_tokens":{"type":"integer"},)"
                 R"("cache_write_tokens":{"type":"integer"}}}}},)"
                 R"("prompt_cache_diagnostics":{"$ref":"#/components/schemas/PromptCacheDiagnostics"}}})"},
    AnswerSchema{
        "Message",
        R"({"type":"object","required":["id","type","role","model","content","stop_reason","usage"],)"
        R"("properties":{"id":{"type":"string"},"type":{"const":"message"},"role":{"const":"assistant"},)"
        R"("content":{"type":"array","items":{"type":"object","required":["type"]}},)"
        R"("stop_reason":{"enum":["end_turn","max_tokens","stop_sequence","tool_use"]},)"
        R"("diagnostics":{"type":["object","null"],"required":["cache_miss_reason"],"properties":{)"
        R"("cache_miss_reason":{"type":"object","required":["type"],"properties":{"type":{"enum":[)"
        R"("model_changed","tools_changed","system_changed","messages_changed",)"
        R"("previous_message_not_found","unavailable"]},"cache_missed_input_tokens":{"type":"integer"}}}}},)"
        R"("usage":{"type":"object","required":["input_tokens","cache_creation_input_tokens",)"
        R"("cache_read_input_tokens","output_tokens"],"properties":{"input_tokens":{"type":"integer"},)"
        R"("cache_creation_input_tokens":{"type":"integer"},"cache_read_input_tokens":{"type":"integer"},)"
        R"("output_tokens":{"type":"integer"},"cache_creation":{"type":"object","properties":{)"
        R"("ephemeral_5m_input_tokens":{"type":"integer"},"ephemeral_1h_input_tokens":{"type":"integer"}}}}}}})"},
    AnswerSchema{"TokenCount",
                 R"({"type":"object","required":["input_tokens"],"properties":{"input_tokens":{"type":"integer"}}})"},
    AnswerSchema{"Tokens",
                 R"({"type":"object","required":["count","max_model_len","tokens","token_strs"],"properties":{)"
                 R"("count":{"type":"integer"},"max_model_len":{"type":"integer"},)"
                 R"("tokens":{"type":"array","items":{"type":"integer"}},)"
                 R"("token_strs":{"type":["array","null"],"items":{"type":"string"}}}})"},
    AnswerSchema{"Detokenized", R"({"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}})"},
    AnswerSchema{"ModelList",
                 R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},)"
                 R"("data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}})"},
    AnswerSchema{"Model", R"({"type":"object","required":["id","object","created","owned_by"],"properties":{)"
                          R"("id":{"type":"string"},"object":{"const":"model"},"created":{"type":"integer"},)"
                          R"("owned_by":{"type":"string"},"max_model_len":{"type":"integer"},)"
                          R"("block_tokens":{"type":"integer"},"parent":{"type":"string"}}})"},
    AnswerSchema{"Status", R"({"type":"object","required":["status"],"properties":{"status":{"type":"string"}}})"},
    AnswerSchema{"Version", R"({"type":"object","required":["version"],"properties":{"version":{"type":"string"}}})"},
};

// ---- paths ----

struct Operation {
  std::string_view method;
  std::string_view path;
  std::string_view summary;
  std::string_view request;  // a schema's name; empty for a GET
  std::string_view answer;
  std::string_view error = "Error";
  enum class Streams { kNever, kOnDemand } streams = Streams::kNever;
};

constexpr auto kOnDemand = Operation::Streams::kOnDemand;
constexpr std::array kOperations{
    Operation{"post", "/v1/chat/completions", "The next message of a conversation.", "ChatCompletionRequest",
              "ChatCompletion", "Error", kOnDemand},
    Operation{"post", "/v1/completions", "The continuation of one or more texts.", "CompletionRequest", "Completion",
              "Error", kOnDemand},
    Operation{"post", "/v1/responses", "OpenAI's Responses API, without state.", "ResponsesRequest", "Response",
              "Error", kOnDemand},
    Operation{"post", "/v1/messages", "Anthropic's Messages API.", "MessagesRequest", "Message", "MessagesError",
              kOnDemand},
    Operation{"post", "/v1/messages/count_tokens", "How many tokens a message's prompt has.", "CountTokensRequest",
              "TokenCount", "MessagesError"},
    Operation{"post", "/tokenize", "The tokens of a prompt.", "TokenizeRequest", "Tokens"},
    Operation{"post", "/detokenize", "The text of tokens.", "DetokenizeRequest", "Detokenized"},
    Operation{"get", "/v1/models", "The models that are served.", "", "ModelList"},
    Operation{"get", "/v1/models/{id}", "One model that is served.", "", "Model"},
    Operation{"get", "/health", "The process is alive.", "", "Status"},
    Operation{"get", "/livez", "The same.", "", "Status"},
    Operation{"get", "/ping", "The same.", "", "Status"},
    Operation{"get", "/ready", "A worker is ready, and no shutdown has begun.", "", "Status"},
    Operation{"get", "/readyz", "The same.", "", "Status"},
    Operation{"get", "/version", "The server's version.", "", "Version"},
};

void WriteContent(std::string_view schema, Operation::Streams streams, JsonWriter& json) {
  json.Key("content").BeginObject().Key("application/json").BeginObject().Key("schema").BeginObject();
  json.Key("$ref").String("#/components/schemas/" + std::string(schema)).EndObject().EndObject();
  if (streams == kOnDemand) json.Key("text/event-stream").Raw("{}");
  json.EndObject();
}

void WriteResponses(const Operation& operation, JsonWriter& json) {
  json.Key("responses").BeginObject();
  json.Key("200").BeginObject().Key("description").String("The answer.");
  WriteContent(operation.answer, operation.streams, json);
  json.EndObject();
  // Every other status has the error's body, whatever the path.
  json.Key("default").BeginObject().Key("description").String("An error.");
  WriteContent(operation.error, Operation::Streams::kNever, json);
  json.EndObject().EndObject();
}

void WriteOperation(const Operation& operation, JsonWriter& json) {
  json.Key(operation.path).BeginObject();
  if (operation.path.ends_with("{id}")) {
    json.Key("parameters").Raw(R"([{"name":"id","in":"path","required":true,"schema":{"type":"string"}}])");
  }
  json.Key(operation.method).BeginObject().Key("summary").String(operation.summary);
  if (!operation.request.empty()) {
    json.Key("requestBody").BeginObject().Key("required").Bool(true);
    WriteContent(operation.request, Operation::Streams::kNever, json);
    json.EndObject();
  }
  WriteResponses(operation, json);
  json.EndObject().EndObject();
}

// Bodies and answers are the engine's.
void WritePassedOn(std::string_view path, JsonWriter& json) {
  json.Key(path).BeginObject().Key("post").BeginObject();
  json.Key("summary").String("An engine that has this route answers, in its own form.");
  json.Key("requestBody").Raw(R"({"required":true,"content":{"application/json":{},"*/*":{}}})");
  json.Key("responses").BeginObject();
  json.Key("200").Raw(R"({"description":"The engine's answer.","content":{"application/json":{},"*/*":{}}})");
  json.Key("default").BeginObject().Key("description").String("An error.");
  WriteContent("Error", Operation::Streams::kNever, json);
  json.EndObject().EndObject().EndObject().EndObject();
}

// Ends the components. A router without keys needs none, so the list of alternatives has an empty one.
void WriteSecurity(JsonWriter& json) {
  json.Key("securitySchemes").BeginObject();
  json.Key("bearer").Raw(R"({"type":"http","scheme":"bearer","description":"A key of --api-keys."})");
  json.Key("header").Raw(R"({"type":"apiKey","in":"header","name":"x-api-key"})");
  json.EndObject().EndObject();
  json.Key("security").Raw(R"([{},{"bearer":[]},{"header":[]}])");
}

}  // namespace

std::string OpenApiBody(const std::string& version, std::span<const std::string_view> passed_on) {
  JsonWriter json;
  json.BeginObject().Key("openapi").String("3.1.0").Key("info").BeginObject();
  json.Key("title").String("Roost").Key("version").String(version).EndObject();
  json.Key("paths").BeginObject();
  for (const Operation& operation : kOperations) WriteOperation(operation, json);
  for (const std::string_view path : passed_on) WritePassedOn(path, json);
  json.EndObject().Key("components").BeginObject().Key("schemas").BeginObject();
  WriteRequestSchemas(json);
  for (const AnswerSchema& answer : kAnswerSchemas) json.Key(answer.name).Raw(answer.schema);
  json.EndObject();
  WriteSecurity(json);
  json.EndObject();
  return json.Take();
}

}  // namespace roost::router
