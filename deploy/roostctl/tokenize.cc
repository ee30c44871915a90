#include "deploy/roostctl/tokenize.h"

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/text/tokenizer.h"

namespace roost::roostctl {
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
