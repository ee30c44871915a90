#include "deploy/roostctl/text_commands.h"

#include <simdjson.h>

#include <ctime>
#include <fstream>
#include <istream>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"
#include "common/text/tokenizer.h"

namespace roost::roostctl {
namespace {

Result<std::shared_ptr<const ChatTemplate>> LoadTemplate(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, "can not be read", path};
  std::ostringstream source;
  source << file.rdbuf();
  return ChatTemplate::Parse(source.str(), path);
}

Result<std::tm> TimeFor(const std::optional<std::string>& now) {
  if (!now) return LocalTime(std::time(nullptr));
  std::tm parsed{};
  const char* const end = strptime(now->c_str(), "%Y-%m-%dT%H:%M:%S", &parsed);
  if (end == nullptr || *end != '\0') {
    return InvalidArgument("--now", "'{}' is not a time like 2026-11-20T12:00:00", *now);
  }
  timegm(&parsed);  // computes the days of the week and the year
  return parsed;
}

std::string OneField(std::string_view name, std::string_view value) {
  JsonWriter json;
  json.BeginObject().Key(name).String(value).EndObject();
  return json.Take();
}

Result<jinja::Value> ContextOf(const std::string& line) {
  ROOST_ASSIGN_OR_RETURN(const jinja::Value request, jinja::FromJson(line, "line"));
  const jinja::Value* context =
      request.is(jinja::Kind::kDict) ? request.AsDict().Find(std::string_view("context")) : nullptr;
  if (context == nullptr || !context->is(jinja::Kind::kDict)) {
    return InvalidArgument("context", "is required and must be an object");
  }
  return *context;
}

int RunTemplateCommand(Arguments arguments, const Console& console) {
  std::string file;
  std::string now;
  ConfigParser parser(
      "roostctl template",
      "Reads lines of JSON {\"context\": {messages, tools, …}} and prints {\"rendered\"} or {\"error\"}.");
  parser.Add("template", file, "A Jinja chat template").Require("template");
  parser.Add("now", now, "Date and time for strftime_now, like 2026-11-20T12:00:00; the clock's when empty");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  TemplateOptions options{.template_path = file, .now = std::nullopt};
  if (!now.empty()) options.now = now;
  return RunTemplate(options, console.in, console.out, console.err);
}

}  // namespace

const Command kTemplateCommand{"template", "render a chat template", &RunTemplateCommand};

int RunTemplate(const TemplateOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto parsed = LoadTemplate(options.template_path);
  if (!parsed.ok()) {
    err << "roostctl template: " << parsed.error().ToString() << '\n';
    return 1;
  }
  const Result<std::tm> now = TimeFor(options.now);
  if (!now.ok()) {
    err << "roostctl template: " << now.error().ToString() << '\n';
    return 1;
  }
  const RenderOptions render_options{*now, {}};
  int status = 0;
  for (std::string line; std::getline(in, line);) {
    const Result<jinja::Value> context = ContextOf(line);
    if (!context.ok()) {
      out << OneField("error", context.error().ToString()) << '\n';
      status = 1;
      continue;
    }
    const Result<std::string> text = (*parsed)->Render(*context, render_options);
    out << (text.ok() ? OneField("rendered", *text) : OneField("error", text.error().message)) << '\n';
  }
  return status;
}

namespace {

constexpr std::size_t kMaxDepth = 64;

void WriteIds(std::string_view key, const std::vector<TokenId>& ids, JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const TokenId id : ids) json.Number(id);
  json.EndArray();
}

Result<std::string> Answer(const Tokenizer& tokenizer, simdjson::dom::parser& parser, const std::string& line) {
  if (line.size() > kMaxTokenizeLineBytes) {
    return InvalidArgument("", "the line has over {} bytes", kMaxTokenizeLineBytes);
  }
  simdjson::dom::element document;
  simdjson::error_code code = parser.allocate(line.size(), kMaxDepth);
  if (code == simdjson::SUCCESS) code = parser.parse(line).get(document);
  if (code != simdjson::SUCCESS) return InvalidArgument("", "not valid JSON: {}", simdjson::error_message(code));
  std::string_view text;
  if (document["text"].get(text) != simdjson::SUCCESS) return InvalidArgument("text", "must be a string");
  ROOST_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.Encode(text, SpecialTokens::kOmit));
  ROOST_ASSIGN_OR_RETURN(const std::vector<TokenId> framed, tokenizer.Encode(text, SpecialTokens::kAdd));
  JsonWriter json;
  json.BeginObject();
  WriteIds("ids", ids, json);
  WriteIds("ids_with_special", framed, json);
  json.Key("decoded").String(tokenizer.Decode(ids)).EndObject();
  return json.Take();
}

std::string ErrorLine(const Error& error) {
  JsonWriter json;
  json.BeginObject().Key("error").String(error.ToString()).EndObject();
  return json.Take();
}

int RunTokenizeCommand(Arguments arguments, const Console& console) {
  std::string tokenizer;
  ConfigParser parser("roostctl tokenize",
                      "Reads lines of JSON {\"text\"} and prints {\"ids\", \"ids_with_special\", \"decoded\"}.");
  parser.Add("tokenizer", tokenizer, "A tokenizer.json").Require("tokenizer");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunTokenize({.tokenizer = tokenizer}, console.in, console.out, console.err);
}

}  // namespace

const Command kTokenizeCommand{"tokenize", "turn text into token ids and back", &RunTokenizeCommand};

int RunTokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::FromFile(options.tokenizer);
  if (!tokenizer.ok()) {
    err << "roostctl tokenize: " << tokenizer.error().ToString() << '\n';
    return 2;
  }
  simdjson::dom::parser parser;
  int status = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const Result<std::string> answer = Answer(**tokenizer, parser, line);
    if (!answer.ok()) status = 1;
    out << (answer.ok() ? *answer : ErrorLine(answer.error())) << '\n';
  }
  return status;
}

}  // namespace roost::roostctl
