#include "router/api/answers/messages_answer.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/text/jinja/json.h"
#include "router/api/answers/diagnosis_forms.h"

namespace roost::router {
namespace {

std::string Event(std::string_view name, std::string_view json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json);
}

std::string_view ErrorType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string ErrorText(const Error& error) {
  JsonWriter json;
  json.BeginObject().Key("type").String("error").Key("error").BeginObject();
  json.Key("type").String(ErrorType(TraitsOf(error.code).http_status)).Key("message").String(error.ToString());
  json.EndObject().EndObject();
  return json.Take();
}

void WriteStop(const ChoiceFinish& finish, JsonWriter& json) {
  const auto* text = std::get_if<std::string>(&finish.stopped_by);
  std::string_view reason = text == nullptr ? "end_turn" : "stop_sequence";
  if (finish.reason == AnswerFinish::kLength) reason = "max_tokens";
  if (finish.reason == AnswerFinish::kToolCalls) reason = "tool_use";
  json.Key("stop_reason").String(reason).Key("stop_sequence");
  text == nullptr ? json.Null() : json.String(*text);
}

// This API reports prompt tokens that were read from the cache, or written to it, separately: input_tokens counts only
// the others. What has no lifetime is written for as long as the shortest there is.
void WriteMessagesUsage(const Usage& usage, JsonWriter& json) {
  json.Key("usage").BeginObject();
  json.Key("input_tokens").Number(usage.prompt_tokens - usage.cached_tokens - usage.written_tokens);
  json.Key("cache_creation_input_tokens").Number(usage.written_tokens);
  json.Key("cache_read_input_tokens").Number(usage.cached_tokens);
  json.Key("cache_creation").BeginObject();
  json.Key("ephemeral_5m_input_tokens").Number(usage.written_tokens - usage.written_hour_tokens);
  json.Key("ephemeral_1h_input_tokens").Number(usage.written_hour_tokens).EndObject();
  json.Key("output_tokens").Number(usage.completion_tokens).EndObject();
}

void BeginMessage(const MessageIdentity& identity, JsonWriter& json) {
  json.BeginObject().Key("id").String(identity.id).Key("type").String("message").Key("role").String("assistant");
  json.Key("model").String(identity.model).Key("content").BeginArray();
}

// The input of a tool must be an object. Arguments that are incomplete or not an object are replaced by {}.
std::string_view InputOf(std::string_view arguments) {
  return json::Document(arguments, json::Document::KeepNumbers()).root().is_object() ? arguments : "{}";
}

// Clients drop a block of reasoning without one; nothing here checks it.
constexpr std::string_view kSignature = "roost";

// `text` is empty when the block opens.
void WriteBlock(const AnswerBlock& block, std::string_view text, JsonWriter& json) {
  json.BeginObject();
  switch (block.kind) {
    case BlockKind::kReasoning:
      json.Key("type").String("thinking").Key("thinking").String(text);
      json.Key("signature").String(text.empty() ? "" : kSignature);
      break;
    case BlockKind::kText: json.Key("type").String("text").Key("text").String(text); break;
    case BlockKind::kToolCall:
      json.Key("type").String("tool_use").Key("id").String(block.id).Key("name").String(block.name);
      json.Key("input").Raw(InputOf(text));
      break;
  }
  json.EndObject();
}

void WriteDelta(BlockKind kind, std::string_view piece, JsonWriter& json) {
  json.Key("delta").BeginObject().Key("type");
  switch (kind) {
    case BlockKind::kReasoning: json.String("thinking_delta").Key("thinking"); break;
    case BlockKind::kText: json.String("text_delta").Key("text"); break;
    case BlockKind::kToolCall: json.String("input_json_delta").Key("partial_json"); break;
  }
  json.String(piece).EndObject();
}

class EventSink final : public BlockSink {
 public:
  void OnOpen(const AnswerBlock& block) override {
    JsonWriter json;
    json.BeginObject().Key("type").String("content_block_start").Key("index").Number(block.index).Key("content_block");
    WriteBlock(block, "", json);
    json.EndObject();
    frames += Event("content_block_start", json.Take());
  }
  void OnPiece(const AnswerBlock& block, std::string_view piece) override {
    JsonWriter json;
    json.BeginObject().Key("type").String("content_block_delta").Key("index").Number(block.index);
    WriteDelta(block.kind, piece, json);
    json.EndObject();
    frames += Event("content_block_delta", json.Take());
  }
  void OnClose(const AnswerBlock& block) override {
    JsonWriter json;
    if (block.kind == BlockKind::kReasoning) {
      json.BeginObject().Key("type").String("content_block_delta").Key("index").Number(block.index);
      json.Key("delta").BeginObject().Key("type").String("signature_delta").Key("signature").String(kSignature);
      frames += Event("content_block_delta", json.EndObject().EndObject().Take());
      json = JsonWriter();
    }
    json.BeginObject().Key("type").String("content_block_stop").Key("index").Number(block.index).EndObject();
    frames += Event("content_block_stop", json.Take());
  }

  std::string frames;
};

}  // namespace

MessagesAnswer::MessagesAnswer(MessageIdentity identity) : identity_(std::move(identity)) {}

std::string MessagesAnswer::Begin(const Usage& usage) {
  JsonWriter json;
  json.BeginObject().Key("type").String("message_start").Key("message");
  BeginMessage(identity_, json);
  json.EndArray().Key("stop_reason").Null().Key("stop_sequence").Null();
  WriteMessagesUsage(usage, json);
  if (identity_.diagnosis == Diagnosis::kTell) json.Key("diagnostics").Raw(AnthropicDiagnostics(usage));
  json.EndObject().EndObject();
  return Event("message_start", json.Take());
}

std::string MessagesAnswer::Continue(std::uint32_t, const AnswerDelta& delta, const Usage&) {
  EventSink sink;
  blocks_.Push(delta, sink);
  return std::move(sink.frames);
}

std::string MessagesAnswer::EndChoice(std::uint32_t, const ChoiceFinish& finish, const Usage&) {
  finish_ = finish;
  EventSink sink;
  blocks_.Finish(sink);
  return std::move(sink.frames);
}

std::string MessagesAnswer::End(const Usage& usage) {
  JsonWriter json;
  json.BeginObject().Key("type").String("message_delta").Key("delta").BeginObject();
  WriteStop(finish_, json);
  json.EndObject();
  WriteMessagesUsage(usage, json);
  json.EndObject();
  return Event("message_delta", json.Take()) + Event("message_stop", R"({"type":"message_stop"})");
}

std::string MessagesAnswer::Fail(const Error& error) { return Event("error", ErrorText(error)); }

std::string MessagesAnswer::Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) {
  JsonWriter json;
  BeginMessage(identity_, json);
  for (const AnswerBlock& block : BlocksOf(choices.front())) WriteBlock(block, block.text, json);
  json.EndArray();
  WriteStop(choices.front().finish, json);
  WriteMessagesUsage(usage, json);
  if (identity_.diagnosis == Diagnosis::kTell) json.Key("diagnostics").Raw(AnthropicDiagnostics(usage));
  json.EndObject();
  return json.Take();
}

HttpResponse MessagesAnswer::FailureResponse(const Error& error, Duration retry_after) const {
  return MessagesErrorResponse(error, retry_after);
}

HttpResponse MessagesErrorResponse(const Error& error, Duration retry_after) {
  HttpResponse response = ErrorResponse(error, retry_after);
  response.body = ErrorText(error);
  return response;
}

}  // namespace roost::router
