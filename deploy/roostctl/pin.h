// `roostctl pin` and `roostctl unpin`: keeps the blocks of a prompt in the workers' caches, or releases them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/prompt_options.h"

namespace roost::roostctl {

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
