#include "router/api/answers/openai_answer.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/json_writer.h"
#include "common/json/json_read.h"
#include "router/api/answers/diagnosis_forms.h"

namespace roost::router {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

void WriteResponsesUsage(const Usage& usage, JsonWriter& json) {
  json.BeginObject().Key("input_tokens").Number(usage.prompt_tokens).Key("input_tokens_details").BeginObject();
  json.Key("cached_tokens").Number(usage.cached_tokens);
  json.Key("cache_write_tokens").Number(usage.written_tokens).EndObject();
  json.Key("output_tokens").Number(usage.completion_tokens).Key("output_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Number(usage.reasoning_tokens).EndObject();
  json.Key("total_tokens").Number(std::uint64_t{usage.prompt_tokens} + usage.completion_tokens).EndObject();
}

// True if the request wants summaries of reasoning: they are the reasoning itself.
bool WantsSummary(std::string_view reasoning) {
  const json::Document document(reasoning);
  return json::At<std::string_view>(document.root(), "/summary") ||
         json::At<std::string_view>(document.root(), "/generate_summary");
}

}  // namespace

class ResponsesAnswer::EventSink final : public BlockSink {
 public:
  explicit EventSink(ResponsesAnswer& answer) : answer_(answer) {}

  void OnOpen(const AnswerBlock& block) override {
    frames += answer_.Event("response.output_item.added", fmt::format(R"("output_index":{},"item":{})", block.index,
                                                                      answer_.ItemText(block, "in_progress")));
    if (block.kind == BlockKind::kToolCall) {
      answer_.custom_input_ = {};
      return;
    }
    frames += answer_.Event(fmt::format("{}.added", NameOfPart(block.kind)),
                            PlaceOf(block) + ",\"part\":" + answer_.PartText(block.kind, ""));
  }

  void OnPiece(const AnswerBlock& block, std::string_view piece) override {
    if (answer_.IsCustom(block)) return AddCustomInput(block, answer_.custom_input_.Push(piece));
    std::string members = PlaceOf(block) + ",\"delta\":" + Quoted(piece);
    if (block.kind == BlockKind::kText) members += ",\"logprobs\":[]";
    frames += answer_.Event(fmt::format("{}.delta", NameOfKind(block.kind)), members);
  }

  void OnClose(const AnswerBlock& block) override {
    switch (block.kind) {
      case BlockKind::kToolCall: answer_.IsCustom(block) ? CloseCustomCall(block) : CloseCall(block); break;
      case BlockKind::kText: CloseText(block, ",\"logprobs\":[]"); break;
      case BlockKind::kReasoning: CloseText(block, ""); break;
    }
    frames += answer_.Event("response.output_item.done", fmt::format(R"("output_index":{},"item":{})", block.index,
                                                                     answer_.ItemText(block, "completed")));
    answer_.AddItem(block);
  }

  std::string frames;

 private:
  void CloseCall(const AnswerBlock& block) {
    frames += answer_.Event(fmt::format("{}.done", NameOfKind(block.kind)),
                            fmt::format(R"({},"arguments":{},"name":{})", PlaceOf(block), Quoted(block.text),
                                        Quoted(answer_.ToolOf(block).name)));
  }

  void AddCustomInput(const AnswerBlock& block, std::string_view text) {
    if (text.empty()) return;
    frames += answer_.Event("response.custom_tool_call_input.delta", PlaceOf(block) + ",\"delta\":" + Quoted(text));
  }

  void CloseCustomCall(const AnswerBlock& block) {
    AddCustomInput(block, answer_.custom_input_.Finish());
    frames += answer_.Event("response.custom_tool_call_input.done",
                            PlaceOf(block) + ",\"input\":" + Quoted(CustomInputOf(block.text)));
  }

  void CloseText(const AnswerBlock& block, std::string_view more) {
    frames += answer_.Event(fmt::format("{}.done", NameOfKind(block.kind)),
                            fmt::format(R"({},"text":{}{})", PlaceOf(block), Quoted(block.text), more));
    frames += answer_.Event(fmt::format("{}.done", NameOfPart(block.kind)),
                            PlaceOf(block) + ",\"part\":" + answer_.PartText(block.kind, block.text));
  }

  [[nodiscard]] bool IsSummary(BlockKind kind) const { return kind == BlockKind::kReasoning && answer_.has_summaries_; }
  [[nodiscard]] std::string_view NameOfPart(BlockKind kind) const {
    return IsSummary(kind) ? "response.reasoning_summary_part" : "response.content_part";
  }
  [[nodiscard]] std::string_view NameOfKind(BlockKind kind) const {
    switch (kind) {
      case BlockKind::kReasoning:
        return answer_.has_summaries_ ? "response.reasoning_summary_text" : "response.reasoning_text";
      case BlockKind::kText: return "response.output_text";
      case BlockKind::kToolCall: return "response.function_call_arguments";
    }
    return "";
  }

  [[nodiscard]] std::string PlaceOf(const AnswerBlock& block) const {
    std::string place = fmt::format(R"("item_id":{},"output_index":{})", Quoted(answer_.ItemId(block)), block.index);
    if (block.kind != BlockKind::kToolCall) {
      place += IsSummary(block.kind) ? ",\"summary_index\":0" : ",\"content_index\":0";
    }
    return place;
  }

  ResponsesAnswer& answer_;
};

ResponsesAnswer::ResponsesAnswer(ResponseIdentity identity)
    : identity_(std::move(identity)), has_summaries_(WantsSummary(identity_.echo.reasoning)) {}

// The part of an item that holds its text. Not for tool calls, which have no such part.
std::string ResponsesAnswer::PartText(BlockKind kind, std::string_view text) const {
  if (kind == BlockKind::kReasoning) {
    return fmt::format(R"({{"type":"{}","text":{}}})", has_summaries_ ? "summary_text" : "reasoning_text",
                       Quoted(text));
  }
  return fmt::format(R"({{"type":"output_text","text":{},"annotations":[],"logprobs":[]}})", Quoted(text));
}

// ---- items ----

ClientTool ResponsesAnswer::ToolOf(const AnswerBlock& block) const {
  const auto found = identity_.tool_names.find(block.name);
  if (found != identity_.tool_names.end()) return found->second;
  return {ClientTool::Kind::kFunction, block.name, ""};
}

bool ResponsesAnswer::IsCustom(const AnswerBlock& block) const {
  return block.kind == BlockKind::kToolCall && ToolOf(block).kind == ClientTool::Kind::kCustom;
}

std::string ResponsesAnswer::ItemId(const AnswerBlock& block) const {
  const std::string_view prefix = block.kind == BlockKind::kReasoning ? "rs"
                                  : block.kind == BlockKind::kText    ? "msg"
                                  : IsCustom(block)                   ? "ctc"
                                                                      : "fc";
  return fmt::format("{}_{}{:02}", prefix, identity_.suffix, block.index);
}

std::string ResponsesAnswer::ItemText(const AnswerBlock& block, std::string_view status) const {
  const bool is_done = status != "in_progress";
  const std::string parts = is_done ? PartText(block.kind, block.text) : "";
  JsonWriter json;
  json.BeginObject().Key("id").String(ItemId(block));
  switch (block.kind) {
    case BlockKind::kReasoning:
      json.Key("type").String("reasoning").Key("summary").Raw(has_summaries_ ? "[" + parts + "]" : "[]");
      json.Key("content").Raw(has_summaries_ ? "[]" : "[" + parts + "]").Key("encrypted_content").Null();
      break;
    case BlockKind::kText:
      json.Key("type").String("message").Key("role").String("assistant").Key("content").Raw("[" + parts + "]");
      break;
    case BlockKind::kToolCall: {
      const ClientTool tool = ToolOf(block);
      const bool is_custom = tool.kind == ClientTool::Kind::kCustom;
      json.Key("type").String(is_custom ? "custom_tool_call" : "function_call").Key("call_id").String(block.id);
      json.Key("name").String(tool.name);
      if (!tool.name_space.empty()) json.Key("namespace").String(tool.name_space);
      const std::string text = is_done && is_custom ? CustomInputOf(block.text) : block.text;
      json.Key(is_custom ? "input" : "arguments").String(is_done ? text : "");
      break;
    }
  }
  json.Key("status").String(status).EndObject();
  return json.Take();
}

void ResponsesAnswer::AddItem(const AnswerBlock& block) {
  if (!items_.empty()) items_ += ',';
  items_ += ItemText(block, "completed");
}

// ---- the response ----

std::string ResponsesAnswer::ResponseText(std::string_view status, const Usage* usage) const {
  const ResponseEcho& echo = identity_.echo;
  JsonWriter json;
  json.BeginObject().Key("id").String(identity_.id).Key("object").String("response");
  json.Key("created_at").Number(identity_.created_unix_seconds).Key("status").String(status);
  json.Key("error").Null().Key("incomplete_details");
  status == "incomplete" ? json.Raw(R"({"reason":"max_output_tokens"})") : json.Null();
  json.Key("instructions").Raw(echo.instructions).Key("max_output_tokens").Raw(echo.max_output_tokens);
  json.Key("model").String(identity_.model).Key("output").Raw("[" + items_ + "]");
  json.Key("parallel_tool_calls").Raw(echo.parallel_tool_calls).Key("previous_response_id").Null();
  json.Key("reasoning").Raw(echo.reasoning).Key("store").Bool(false).Key("temperature").Raw(echo.temperature);
  json.Key("text").Raw(echo.text).Key("tool_choice").Raw(echo.tool_choice).Key("tools").Raw(echo.tools);
  json.Key("top_p").Raw(echo.top_p).Key("truncation").String("disabled").Key("user").Raw(echo.user);
  json.Key("metadata").Raw(echo.metadata).Key("usage");
  if (usage == nullptr) {
    json.Null();
  } else {
    WriteResponsesUsage(*usage, json);
  }
  if (usage != nullptr && identity_.diagnosis == Diagnosis::kTell) {
    json.Key("prompt_cache_diagnostics").Raw(OpenAiDiagnostics(*usage));
  }
  json.EndObject();
  return json.Take();
}

std::string ResponsesAnswer::Event(std::string_view type, std::string_view members) {
  return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1}{2}{3}}}\n\n", type,
                     sequence_number_++, members.empty() ? "" : ",", members);
}

std::string ResponsesAnswer::ResponseEvent(std::string_view type, std::string_view status, const Usage* usage) {
  return Event(type, "\"response\":" + ResponseText(status, usage));
}

std::string ResponsesAnswer::Begin(const Usage&) {
  std::string frames = ResponseEvent("response.created", "in_progress", nullptr);
  frames += ResponseEvent("response.in_progress", "in_progress", nullptr);
  return frames;
}

std::string ResponsesAnswer::Continue(std::uint32_t, const AnswerDelta& delta, const Usage&) {
  EventSink sink(*this);
  blocks_.Push(delta, sink);
  return std::move(sink.frames);
}

std::string ResponsesAnswer::EndChoice(std::uint32_t, const ChoiceFinish& finish, const Usage&) {
  finish_ = finish;
  EventSink sink(*this);
  blocks_.Finish(sink);
  return std::move(sink.frames);
}

std::string ResponsesAnswer::End(const Usage& usage) {
  const bool is_cut = finish_.reason == AnswerFinish::kLength;
  return is_cut ? ResponseEvent("response.incomplete", "incomplete", &usage)
                : ResponseEvent("response.completed", "completed", &usage);
}

std::string ResponsesAnswer::Fail(const Error& error) {
  const ErrorTraits& traits = TraitsOf(error.code);
  JsonWriter json;
  json.BeginObject().Key("code").String(traits.openai_code.empty() ? traits.openai_type : traits.openai_code);
  json.Key("message").String(error.ToString()).Key("param");
  error.field.empty() ? json.Null() : json.String(error.field);
  json.EndObject();
  const std::string members = json.Take();
  return Event("error", std::string_view(members).substr(1, members.size() - 2));
}

std::string ResponsesAnswer::Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) {
  for (const AnswerBlock& block : BlocksOf(choices.front())) AddItem(block);
  const bool is_cut = choices.front().finish.reason == AnswerFinish::kLength;
  return ResponseText(is_cut ? "incomplete" : "completed", &usage);
}

}  // namespace roost::router
