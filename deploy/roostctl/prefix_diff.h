// `roostctl prefix-diff A B`: where the block hashes of two prompts start to differ, and the text at that place. The
// prompts share what stands before it; everything behind it is computed for each.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/prompt_tokenizer.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct PrefixDiffOptions {
  std::string first;  // files, see ReadPromptBody
  std::string second;
  RouterAccess router;
  std::string model;                // a folder, or the name of a model that the router serves
  std::uint32_t block_tokens = 16;  // for a model folder; the router knows its workers' value
};

struct PrefixDiff {
  std::uint64_t shared_blocks = 0;  // full blocks whose hashes are equal
  std::uint64_t shared_tokens = 0;  // equal tokens at the front, regardless of salts
};

// O(tokens). `block_tokens` must be valid.
[[nodiscard]] PrefixDiff ComparePrompts(std::span<const TokenId> first, std::span<const TokenId> second,
                                        std::uint32_t block_tokens);

// Text for people. The tokenizer provides tokens, text and the block size.
[[nodiscard]] Result<std::string> DescribeDiff(PromptTokenizer& tokenizer, const PromptBody& first,
                                               const PromptBody& second);

// Returns the exit code: 0 when the comparison worked, whether equal or not.
int RunPrefixDiff(const PrefixDiffOptions& options, std::ostream& out, std::ostream& err);

extern const Command kPrefixDiffCommand;

}  // namespace roost::roostctl
