#include "deploy/roostctl/chat_stream.h"

#include <simdjson.h>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/refusal.h"

namespace roost::roostctl {
namespace {

void WriteFields(const ChatFields& fields, JsonWriter& json) {
  if (fields.max_tokens) json.Key("max_tokens").Number(*fields.max_tokens);
  if (fields.temperature) json.Key("temperature").Number(*fields.temperature);
  if (fields.ignore_eos) json.Key("ignore_eos").Bool(true);
  if (fields.cache == UseCache::kNo) json.Key("cache").String("off");
  json.Key("stream").Bool(true).Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
}

}  // namespace

std::string ChatBody(const ChatFields& fields, const std::vector<ChatTurn>& turns) {
  JsonWriter json;
  json.BeginObject().Key("model").String(fields.model).Key("messages").BeginArray();
  for (const ChatTurn& turn : turns) {
    json.BeginObject().Key("role").String(turn.role).Key("content").String(turn.text).EndObject();
  }
  json.EndArray();
  WriteFields(fields, json);
  return json.EndObject().Take();
}

std::string CompletionBody(const ChatFields& fields, std::string_view prompt) {
  JsonWriter json;
  json.BeginObject().Key("model").String(fields.model).Key("prompt").String(prompt);
  WriteFields(fields, json);
  return json.EndObject().Take();
}

ChatAnswer AskChat(HttpClient& client, const std::string& body, const OnAnswer& on_answer) {
  const SteadyClock clock;
  AnswerEvents events(clock, clock.Now(), on_answer);
  return events.End(
      client.PostForEvents("/v1/chat/completions", body, [&events](std::string_view data) { events.Take(data); }));
}

Result<std::string> FirstModel(const RouterAccess& router) {
  HttpClient client(router);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/v1/models"));
  if (response.status != 200) return RefusalOf(response);
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view id;
  if (parser.parse(simdjson::padded_string(response.body)).get(body) != simdjson::SUCCESS ||
      body["data"].at(0)["id"].get(id) != simdjson::SUCCESS) {
    return Error{ErrorCode::kUnavailable, "the router serves no model yet", router.url};
  }
  return std::string(id);
}

}  // namespace roost::roostctl
