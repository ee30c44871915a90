#include "deploy/roostctl/remote/prompt_options.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/json/kept_numbers.h"

namespace roost::roostctl {
namespace {

// Writes members "messages" and "tools" from a file that contains an array of messages, or an object with these
// members.
Result<void> WriteMessages(std::string_view file, JsonWriter& body) {
  const json::Document document(file, json::Document::KeepNumbers());
  if (!document.ok()) return InvalidArgument("messages", "the file is not valid JSON");
  const json::Element root = document.root();
  const auto messages = root.is_array() ? std::optional(root) : json::At<json::Element>(root, "messages");
  if (!messages) {
    return InvalidArgument("messages", "the file must hold an array of messages, or an object with messages");
  }
  body.Key("messages").Raw(json::JsonText(*messages));
  if (const auto tools = json::At<json::Element>(root, "tools")) body.Key("tools").Raw(json::JsonText(*tools));
  return {};
}

}  // namespace

void DeclareAnyPrompt(PromptOptions& options, ConfigParser& parser) {
  DeclareAdmin(options.admin, parser);
  parser.Add("model", options.model, "Model that the prompt is for")
      .Add("prompt", options.prompt, "Text, as in /v1/completions")
      .Add("messages", options.messages_file,
           "File with the messages of a chat: a JSON array, or an object with messages and tools");
}

void DeclarePrompt(PromptOptions& options, ConfigParser& parser) {
  DeclareAnyPrompt(options, parser);
  parser.Require("model")
      .Add("tenant", options.tenant, "Tenant of the requests that should hit it; empty: requests without a key")
      .Add("cache-salt", options.cache_salt, "The cache_salt of the requests that should hit it");
}

Result<std::string> ReadMessages(const PromptOptions& options) {
  if (options.messages_file.empty()) return std::string();
  std::ifstream file(options.messages_file, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, "can not be read", options.messages_file};
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteScope(const PromptOptions& options, JsonWriter& body) {
  body.Key("model").String(options.model);
  if (!options.tenant.empty()) body.Key("tenant").String(options.tenant);
  if (!options.cache_salt.empty()) body.Key("cache_salt").String(options.cache_salt);
}

Result<void> WritePrompt(const PromptOptions& options, std::string_view messages_json, JsonWriter& body) {
  if (options.prompt.empty() && options.messages_file.empty()) {
    return InvalidArgument("prompt", "is missing or empty: give --prompt TEXT or --messages FILE");
  }
  if (!options.prompt.empty() && !options.messages_file.empty()) {
    return InvalidArgument("prompt", "can not be given together with --messages");
  }
  if (options.prompt.empty()) return WriteMessages(messages_json, body);
  body.Key("prompt").String(options.prompt);
  return {};
}

void WriteWorkers(std::string_view workers, JsonWriter& body) {
  body.Key("workers");
  if (workers == "all" || workers == "best") {
    body.String(workers);
    return;
  }
  body.BeginArray();
  while (true) {
    const std::size_t comma = std::min(workers.find(','), workers.size());
    body.String(workers.substr(0, comma));
    if (comma == workers.size()) break;
    workers.remove_prefix(comma + 1);
  }
  body.EndArray();
}

}  // namespace roost::roostctl
