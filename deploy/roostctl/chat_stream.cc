#include "deploy/roostctl/chat_stream.h"

#include <simdjson.h>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/json_members.h"
#include "deploy/roostctl/refusal.h"

namespace roost::roostctl {
namespace {

using simdjson::dom::element;

// Reads the events of one stream into an answer.
class EventReader {
 public:
  EventReader(const Clock& clock, const OnAnswer& on_answer, ChatAnswer& answer)
      : start_(clock.Now()), clock_(clock), on_answer_(on_answer), answer_(answer) {}

  void Take(std::string_view data) {
    if (data == "[DONE]") return;
    element event;
    if (parser_.parse(simdjson::padded_string(data)).get(event) != simdjson::SUCCESS) {
      answer_.error = "an event is not JSON";
      return;
    }
    std::string_view message;
    if (event.at_pointer("/error/message").get(message) == simdjson::SUCCESS) answer_.error = message;
    TakeUsage(event);
    TakeChoice(event);
  }

  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] double SecondsSinceStart() const { return ToSeconds(clock_.Now() - start_); }

 private:
  void TakeUsage(element event) {
    simdjson::dom::object usage;
    if (event["usage"].get(usage) != simdjson::SUCCESS) return;
    answer_.prompt_tokens = CountAt(event, "/usage/prompt_tokens");
    answer_.output_tokens = CountAt(event, "/usage/completion_tokens");
    answer_.cached_tokens = CountAt(event, "/usage/prompt_tokens_details/cached_tokens");
  }

  void TakeChoice(element event) {
    element choice;
    if (event["choices"].at(0).get(choice) != simdjson::SUCCESS) return;
    TakeText(choice, "/delta/reasoning_content", AnswerPart::kReasoning);
    TakeText(choice, "/delta/content", AnswerPart::kText);
    std::string_view reason;
    if (choice["finish_reason"].get(reason) != simdjson::SUCCESS) return;
    finished_ = true;
    NoteFirst();
  }

  void TakeText(element choice, const char* pointer, AnswerPart part) {
    std::string_view text;
    if (choice.at_pointer(pointer).get(text) != simdjson::SUCCESS || text.empty()) return;
    NoteFirst();
    if (part == AnswerPart::kText) answer_.text += text;
    on_answer_(part, text);
  }

  void NoteFirst() {
    if (answer_.ttft_seconds == 0) answer_.ttft_seconds = SecondsSinceStart();
  }

  Instant start_;
  const Clock& clock_;
  const OnAnswer& on_answer_;
  ChatAnswer& answer_;
  simdjson::dom::parser parser_;
  bool finished_ = false;
};

}  // namespace

std::string ChatBody(const ChatFields& fields, const std::vector<ChatTurn>& turns) {
  JsonWriter json;
  json.BeginObject().Key("model").String(fields.model).Key("messages").BeginArray();
  for (const ChatTurn& turn : turns) {
    json.BeginObject().Key("role").String(turn.role).Key("content").String(turn.text).EndObject();
  }
  json.EndArray();
  if (fields.max_tokens) json.Key("max_tokens").Number(*fields.max_tokens);
  if (fields.temperature) json.Key("temperature").Number(*fields.temperature);
  if (fields.cache == UseCache::kNo) json.Key("cache").String("off");
  json.Key("stream").Bool(true).Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
  return json.EndObject().Take();
}

ChatAnswer AskChat(HttpClient& client, const std::string& body, const OnAnswer& on_answer) {
  const SteadyClock clock;
  ChatAnswer answer;
  EventReader reader(clock, on_answer, answer);
  const auto response =
      client.PostForEvents("/v1/chat/completions", body, [&reader](std::string_view data) { reader.Take(data); });
  answer.total_seconds = reader.SecondsSinceStart();
  if (!response.ok()) {
    answer.stopped = response.error().code == ErrorCode::kCancelled;
    if (!answer.stopped) answer.error = response.error().ToString();
    return answer;
  }
  if (response->status != 200) {
    answer.error = RefusalOf(*response).ToString();
    return answer;
  }
  const auto worker = response->headers.find("x-roost-worker");
  if (worker != response->headers.end()) answer.worker = worker->second;
  if (answer.error.empty() && !reader.finished()) answer.error = "the stream ended without a finish reason";
  return answer;
}

Result<std::string> FirstModel(const RouterAccess& router) {
  HttpClient client(router);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/v1/models"));
  simdjson::dom::parser parser;
  element body;
  std::string_view id;
  if (parser.parse(simdjson::padded_string(response.body)).get(body) != simdjson::SUCCESS ||
      body["data"].at(0)["id"].get(id) != simdjson::SUCCESS) {
    return Error{ErrorCode::kUnavailable, "the router serves no model yet", router.url};
  }
  return std::string(id);
}

}  // namespace roost::roostctl
