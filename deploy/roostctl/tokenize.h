// `roostctl tokenize --tokenizer FILE`: shows the tokens that the router makes of a text, to debug prompts and cache
// misses. One JSON object per line in, one per line out, in order:
//
//   {"text": "Hello"}   →   {"ids": [15496], "ids_with_special": [15496], "decoded": "Hello"}
//   anything else       →   {"error": "…"}
//
// `decoded` is the text of `ids`, with special tokens shown. Empty lines are skipped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <ostream>

#include "deploy/roostctl/command.h"

namespace roost::roostctl {

inline constexpr std::size_t kMaxTokenizeLineBytes = 64 * 1024 * 1024;

struct TokenizeOptions {
  std::filesystem::path tokenizer;  // a tokenizer.json
};

// Returns the exit code: 0; 1 when a line was bad (the others are answered); 2 when the tokenizer can not be used.
int RunTokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

extern const Command kTokenizeCommand;

}  // namespace roost::roostctl
