// The prompt that a command is about, and the workers that it means, as flags and as JSON for the router.
#pragma once

#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "common/base/result.h"

namespace roost::roostctl {

struct PromptOptions {
  std::string admin = "http://127.0.0.1:8001";
  std::string tenant;  // whose blocks; empty: those of requests without a key
  std::string model;
  std::string prompt;         // text, or
  std::string messages_file;  // JSON: an array of messages, or an object with messages and perhaps tools
  std::string cache_salt;
};

// What the messages' file holds; empty when there is none.
[[nodiscard]] Result<std::string> ReadMessages(const PromptOptions& options);

// Members "model" and, unless it is empty, "cache_salt" of an object that `body` has begun.
void WriteScope(const PromptOptions& options, JsonWriter& body);
// Member "prompt", or "messages" and perhaps "tools". `messages_json` is not read when there is a prompt.
[[nodiscard]] Result<void> WritePrompt(const PromptOptions& options, std::string_view messages_json, JsonWriter& body);
// Member "workers": `workers` is "all", "best" or names with commas between them.
void WriteWorkers(std::string_view workers, JsonWriter& body);

}  // namespace roost::roostctl
