// The commands that give workers an order, each in a file of its own: cordon.cc, evict.cc, pin.cc.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/prompt_options.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

// `roostctl cordon`, `roostctl uncordon` and `roostctl drain`: takes a worker out of service for all routers, and puts
// it back.

enum class CordonVerb { kCordon, kUncordon, kDrain };

struct CordonOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string worker;
  double wait_seconds = 0;  // of a drain: for the worker's requests to end
};

// A worker's answer.
struct CordonReport {
  std::string worker;
  bool is_cordoned = false;
  bool is_idle = false;
  std::uint64_t running_requests = 0;  // of all routers
  std::uint64_t waiting_requests = 0;
};
// kUnavailable, with the reason, when the worker has not done it; kDataLoss when it is no such answer.
[[nodiscard]] Result<CordonReport> ReadCordonAnswer(std::string_view answer_json);

// "worker-a is cordoned: 2 requests run there, 1 waits", and so on.
[[nodiscard]] std::string FormatCordonReport(const CordonReport& report);

// Asks the router and prints. A drain prints how many requests are left whenever that changes, on `err`. Returns the
// exit code: 0 when the worker has done it; of a drain with a wait, when no request is left there.
int RunCordon(CordonVerb verb, const CordonOptions& options, std::ostream& out, std::ostream& err);

extern const Command kCordonCommand;
extern const Command kUncordonCommand;
extern const Command kDrainCommand;

// `roostctl evict`: erases a prompt, or all of a tenant, from the workers' caches.

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
  std::uint64_t disk_block_count = 0;
};
// kDataLoss when the answer is none of its own.
[[nodiscard]] Result<EvictReport> FormatEvictAnswer(std::string_view answer_json);

// Asks the router and prints. Returns the exit code: 0 when all workers have erased it.
int RunEvict(const EvictOptions& options, std::ostream& out, std::ostream& err);

extern const Command kEvictCommand;

// `roostctl pin` and `roostctl unpin`: keeps the blocks of a prompt in the workers' caches, or releases them.

enum class PinVerb { kPin, kUnpin };

// Without a prompt: the block with `hash` and all before it.
struct PinOptions : PromptOptions {
  std::string hash;             // as `roostctl prefixes` prints it
  std::string duration;         // like 10m; empty: until unpinned
  std::string workers = "all";  // or best, or names separated by commas
};

// Parses a whole number with a unit (ms, s, m, h or d) into milliseconds. More than 0, at most 366 days.
[[nodiscard]] Result<std::uint64_t> ParseDuration(std::string_view text);

// The body of POST /admin/v1/pin. `messages_json` is the file's content; it is ignored when there is a prompt.
[[nodiscard]] Result<std::string> PinBody(const PinOptions& options, std::string_view messages_json);

// A line for each worker: what it kept. kDataLoss when `answer_json` is not an answer to a pin.
[[nodiscard]] Result<std::string> FormatPinAnswer(PinVerb verb, std::string_view answer_json);

// Asks the router and prints. Returns the exit code: 0 when the router sent the order to its workers.
int RunPin(PinVerb verb, const PinOptions& options, std::ostream& out, std::ostream& err);

extern const Command kPinCommand;
extern const Command kUnpinCommand;

}  // namespace roost::roostctl
