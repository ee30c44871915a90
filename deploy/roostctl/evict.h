// `roostctl evict`: erases a prompt, or all of a tenant, from the workers' caches.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/prompt_options.h"

namespace roost::roostctl {

// Without a prompt: a block, or everything of `tenant`.
struct EvictOptions : PromptOptions {
  std::string prefix_file;      // a prompt in a file, see prompt_body.h; in place of `prompt` and `messages_file`
  std::string hash;             // a block as `roostctl prefixes` prints it, with all that continues it
  std::string workers = "all";  // or names with commas between them
};

// The body of POST /admin/v1/evict. Reads the file that the options name.
[[nodiscard]] Result<std::string> EvictBody(const EvictOptions& options);

// The blocks that left the caches, as text for people, and whether all workers did it.
struct EvictReport {
  std::string text;
  bool is_complete = false;
  std::uint64_t block_count = 0;  // evicted, or to be evicted when requests end
};
// kDataLoss when the answer is none of its own.
[[nodiscard]] Result<EvictReport> FormatEvictAnswer(std::string_view answer_json);

// Asks the router and prints. Returns the exit code: 0 when all workers have erased it.
int RunEvict(const EvictOptions& options, std::ostream& out, std::ostream& err);

extern const Command kEvictCommand;

}  // namespace roost::roostctl
