// The prompts of `roostctl generate`: one per line.
//
//   Name three colours.                                          text, as in /v1/completions
//   {"prompt": "Name three colours.", "max_tokens": 16}          the body of a /v1/completions request
//   {"messages": [{"role": "user", "content": "Who are you?"}]}  the body of a /v1/chat/completions request
//
// A line that begins with { is JSON with the API's fields and checks. "model" is optional; if present, it must be the
// loaded model's name. Empty lines are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/generate/offline_run.h"
#include "router/fleet/dispatcher.h"

namespace roost::roostctl {

inline constexpr std::size_t kMaxPromptLineBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMaxPrompts = 1'000'000;
inline constexpr std::size_t kMaxPromptFileTokens = std::size_t{1} << 28U;  // 1 GiB of token ids

// For what a line does not say.
struct PromptDefaults {
  std::uint32_t max_tokens = 0;                     // less if the context has less room; 0: to its end
  std::optional<float> temperature = std::nullopt;  // nothing: the model's own
  std::uint64_t seed = 0;                           // each line's seed is derived from this and its index
  bool ignore_eos = false;                          // for all lines
  std::int64_t unix_seconds = 0;                    // the time that chat templates see
};

// Reads all lines before anything is computed. An error names `file`, the line and the field.
[[nodiscard]] Result<std::vector<OfflineRequest>> ReadPrompts(std::istream& in, const std::string& file,
                                                              const std::shared_ptr<const router::ServedModel>& model,
                                                              const PromptDefaults& defaults);

}  // namespace roost::roostctl
