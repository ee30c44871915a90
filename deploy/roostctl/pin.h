// `roostctl pin` and `roostctl unpin`: keeps the blocks of a prompt in the workers' caches, or lets go of them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/prompt_options.h"

namespace roost::roostctl {

enum class PinVerb { kPin, kUnpin };

struct PinOptions : PromptOptions {
  std::string duration;         // like 10m; empty: until unpinned
  std::string workers = "all";  // or best, or names with commas between them
};

// Milliseconds of a whole number with a unit: ms, s, m, h or d. More than 0 and at most 366 days.
[[nodiscard]] Result<std::uint64_t> ParseDuration(std::string_view text);

// The body of POST /admin/v1/pin. `messages_json` is what the file holds; not read when there is a prompt.
[[nodiscard]] Result<std::string> PinBody(const PinOptions& options, std::string_view messages_json);

// What each worker kept, a line for each. kDataLoss when the answer is none of its own.
[[nodiscard]] Result<std::string> FormatPinAnswer(PinVerb verb, std::string_view answer_json);

// Asks the router and prints. Returns the exit code: 0 when it sent the order to its workers.
int RunPin(PinVerb verb, const PinOptions& options, std::ostream& out, std::ostream& err);

}  // namespace roost::roostctl
