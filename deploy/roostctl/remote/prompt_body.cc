#include "deploy/roostctl/remote/prompt_body.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"

namespace roost::roostctl {
namespace {

using simdjson::dom::element;

std::string Member(std::string_view name, std::string_view json) {
  std::string member;
  AppendJsonString(name, member);
  return fmt::format("{}:{}", member, json);
}

Result<PromptBody> FromObject(PromptBody body, simdjson::dom::object object) {
  element ignored;
  if (object["messages"].get(ignored) != simdjson::SUCCESS && object["prompt"].get(ignored) != simdjson::SUCCESS) {
    return InvalidArgument(body.name, "holds a JSON object with neither messages nor prompt");
  }
  for (const auto& [name, value] : object) {
    if (name == "model" || name == "stream" || name == "stream_options") continue;
    if (!body.members.empty()) body.members += ',';
    body.members += Member(name, simdjson::minify(value));
  }
  std::string_view salt;
  if (object["cache_salt"].get(salt) == simdjson::SUCCESS) body.cache_salt = salt;
  return body;
}

}  // namespace

Result<PromptBody> ParsePromptBody(std::string name, const std::string& text) {
  PromptBody body{.name = std::move(name), .members = {}, .cache_salt = {}};
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return InvalidArgument(body.name, "is empty");
  if (text[begin] != '{' && text[begin] != '[') {
    std::string json;
    AppendJsonString(text, json);
    body.members = Member("prompt", json);
    return body;
  }
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(simdjson::padded_string(text)).get(root); error != simdjson::SUCCESS) {
    return InvalidArgument(body.name, "begins with {} but is not valid JSON: {}", text[begin],
                           simdjson::error_message(error));
  }
  if (simdjson::dom::object object; root.get(object) == simdjson::SUCCESS) return FromObject(std::move(body), object);
  body.members = Member("messages", simdjson::minify(root));
  return body;
}

Result<PromptBody> ReadPromptBody(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) return Error{ErrorCode::kNotFound, "can not be read, or is empty", path};
  if (content.view().size() > kMaxPromptFileBytes) {
    return InvalidArgument(path.string(), "has more than {} bytes", kMaxPromptFileBytes);
  }
  return ParsePromptBody(path.string(), content.str());
}

}  // namespace roost::roostctl
