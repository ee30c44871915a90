#include "deploy/roostctl/remote/prompt_body.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/json/kept_numbers.h"

namespace roost::roostctl {
namespace {

std::string Member(std::string_view name, std::string_view json) {
  std::string member;
  AppendJsonString(name, member);
  return fmt::format("{}:{}", member, json);
}

Result<PromptBody> FromObject(PromptBody body, json::Object object) {
  if (!json::At<json::Element>(object, "messages") && !json::At<json::Element>(object, "prompt")) {
    return InvalidArgument(body.name, "holds a JSON object with neither messages nor prompt");
  }
  for (const auto& [name, value] : object) {
    if (name == "model" || name == "stream" || name == "stream_options") continue;
    if (!body.members.empty()) body.members += ',';
    body.members += Member(name, json::JsonText(value));
  }
  body.cache_salt = json::At<std::string_view>(object, "cache_salt").value_or("");
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
  const json::Document document(text, json::Document::KeepNumbers());
  if (!document.ok()) {
    return InvalidArgument(body.name, "begins with {} but is not valid JSON: {}", text[begin], document.error());
  }
  const json::Element root = document.root();
  if (root.is_object()) return FromObject(std::move(body), json::Object(root));
  body.members = Member("messages", json::JsonText(root));
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
