#include "deploy/roostctl/remote/chat_stream.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {

struct AnswerEvents::State {
  State(const Clock& its_clock, Instant its_start, OnAnswer its_on_answer)
      : clock(its_clock), start(its_start), on_answer(std::move(its_on_answer)) {}

  const Clock& clock;
  const Instant start;
  const OnAnswer on_answer;
  ChatAnswer answer;
  json::Document last_event;
  bool has_begun = false;
  bool has_ended = false;
  bool has_usage = false;

  [[nodiscard]] double SecondsSinceStart() const { return ToSeconds(clock.Now() - start); }

  // The first error counts.
  void Fail(std::string kind, std::string error) {
    if (!answer.error.empty()) return;
    answer.error = std::move(error);
    answer.error_kind = std::move(kind);
  }

  void NoteFirst() {
    if (!std::exchange(has_begun, true)) answer.ttft_seconds = SecondsSinceStart();
  }

  void TakeUsage(json::Element event) {
    if (!json::At<json::Object>(event, "usage")) return;
    has_usage = true;
    answer.prompt_tokens = CountAt(event, "/usage/prompt_tokens");
    answer.output_tokens = CountAt(event, "/usage/completion_tokens");
    const auto cached = json::At<std::uint64_t>(event, "/usage/prompt_tokens_details/cached_tokens");
    if (cached) answer.cached_tokens = cached;
  }

  void TakeChoice(json::Element event) {
    bool has_text = TakeText(event, "/choices/0/delta/reasoning_content", AnswerPart::kReasoning);
    has_text |= TakeText(event, "/choices/0/delta/content", AnswerPart::kText);
    has_text |= TakeText(event, "/choices/0/text", AnswerPart::kText);
    if (has_text) answer.piece_seconds.push_back(SecondsSinceStart());
    if (!json::At<std::string_view>(event, "/choices/0/finish_reason")) return;
    has_ended = true;
    NoteFirst();
  }

  bool TakeText(json::Element event, const char* pointer, AnswerPart part) {
    const std::string_view text = json::At<std::string_view>(event, pointer).value_or("");
    if (text.empty()) return false;
    NoteFirst();
    if (part == AnswerPart::kText) answer.text += text;
    if (on_answer) on_answer(part, text);
    return true;
  }
};

AnswerEvents::AnswerEvents(const Clock& clock, Instant start, OnAnswer on_answer)
    : state_(std::make_unique<State>(clock, start, std::move(on_answer))) {}

AnswerEvents::~AnswerEvents() = default;

void AnswerEvents::Take(std::string_view data) {
  if (data == "[DONE]") return;
  json::Document& event = state_->last_event;
  event.Parse(data);
  if (!event.ok()) return state_->Fail("not JSON", "an event is not JSON");
  const auto message = json::At<std::string_view>(event.root(), "/error/message");
  if (message) state_->Fail("error event", std::string(*message));
  state_->TakeUsage(event.root());
  state_->TakeChoice(event.root());
}

ChatAnswer AnswerEvents::End(const Result<HttpResponse>& response) {
  ChatAnswer& answer = state_->answer;
  answer.total_seconds = state_->SecondsSinceStart();
  if (!state_->has_usage) answer.output_tokens = answer.piece_seconds.size();
  if (!response.ok()) {
    answer.stopped = response.error().code == ErrorCode::kCancelled;
    const bool is_late = response.error().code == ErrorCode::kTimeout;
    if (!answer.stopped) state_->Fail(is_late ? "timeout" : "no connection", response.error().ToString());
  } else if (response->status != 200) {
    state_->Fail(fmt::format("status {}", response->status), RefusalOf(*response).ToString());
  } else {
    const auto worker = response->headers.find("x-roost-worker");
    if (worker != response->headers.end()) answer.worker = worker->second;
    if (!state_->has_ended) state_->Fail("cut off", "the stream ended without a finish reason");
  }
  return std::move(answer);
}

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
  const json::Document body(response.body);
  const auto id = json::At<std::string_view>(body.root(), "/data/0/id");
  if (!id) return Error{ErrorCode::kUnavailable, "the router serves no model yet", router.url};
  return std::string(*id);
}

}  // namespace roost::roostctl
