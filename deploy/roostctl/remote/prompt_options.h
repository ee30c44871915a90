// The prompt of a command, and the workers that it is for, as flags and as JSON for the router.
#pragma once

#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/config/config.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct PromptOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string tenant;  // the owner of the blocks; empty: those of requests without a key
  std::string model;
  std::string prompt;         // text, or
  std::string messages_file;  // JSON: an array of messages, or an object with messages and perhaps tools
  std::string cache_salt;
};

// For --workers of orders about a prompt.
inline constexpr const char* kWorkersHelp =
    "all workers of the model, the best one (where a request with this prompt would go), or names: worker-a,worker-b";

// The flags of a prompt. DeclarePrompt: also the scope of its requests, and --model must be given.
void DeclareAnyPrompt(PromptOptions& options, ConfigParser& parser);
void DeclarePrompt(PromptOptions& options, ConfigParser& parser);

// The content of the messages file; empty when there is none.
[[nodiscard]] Result<std::string> ReadMessages(const PromptOptions& options);

// Writes member "model" and, unless it is empty, "cache_salt" into the object that `body` has begun.
void WriteScope(const PromptOptions& options, JsonWriter& body);
// Writes member "prompt", or "messages" and perhaps "tools". Ignores `messages_json` when there is a prompt.
[[nodiscard]] Result<void> WritePrompt(const PromptOptions& options, std::string_view messages_json, JsonWriter& body);
// Writes member "workers": `workers` is "all", "best" or names separated by commas.
void WriteWorkers(std::string_view workers, JsonWriter& body);

}  // namespace roost::roostctl
