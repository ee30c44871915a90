// `roostctl prefix-diff A B`: where the block hashes of two prompts part, and which text stands there. What stands
// before that place is computed once and shared; all behind it is computed for each.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "deploy/roostctl/prompt_tokenizer.h"

namespace roost::roostctl {

struct PrefixDiffOptions {
  std::string first;  // files, see ReadPromptBody
  std::string second;
  std::string router = "http://127.0.0.1:8000";
  std::string model;                // a folder, or the name of a model that the router serves
  std::uint32_t block_tokens = 16;  // of a folder's model; a router knows its workers'
};

struct PrefixDiff {
  std::uint64_t shared_blocks = 0;  // full blocks whose hashes are equal
  std::uint64_t shared_tokens = 0;  // tokens that both begin with, whatever their salts
};

// O(tokens). `block_tokens` is valid.
[[nodiscard]] PrefixDiff ComparePrompts(std::span<const TokenId> first, std::span<const TokenId> second,
                                        std::uint32_t block_tokens);

// For people. The tokenizer gives tokens, text and the size of a block.
[[nodiscard]] Result<std::string> DescribeDiff(PromptTokenizer& tokenizer, const PromptBody& first,
                                               const PromptBody& second);

// The exit code: 0 when the two were compared, equal or not.
int RunPrefixDiff(const PrefixDiffOptions& options, std::ostream& out, std::ostream& err);

}  // namespace roost::roostctl
