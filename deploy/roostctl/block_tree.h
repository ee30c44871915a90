// Draws a prompt's blocks as text: which workers hold how much of the chain.
//
//   blocks 1-40: worker-a, worker-b
//   └─ blocks 41-88: worker-a, worker-c on disk; being computed by worker-b
//      └─ blocks 89-92 and 6 tokens: no worker
//
// A worker that holds a block holds all blocks before it, so each stretch has all holders of the next one, and perhaps
// more. Only full blocks count: a worker may also find the beginning of a block that it has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost::roostctl {

struct BlockHolder {
  std::string name;
  std::uint64_t held_blocks = 0;
  std::uint64_t pending_blocks = 0;  // the next ones, which it is computing
  std::uint64_t disk_blocks = 0;     // those behind the held ones that its disk has
};

struct PromptShape {
  std::uint64_t token_count = 0;
  std::uint64_t block_tokens = 16;  // at least 1
};

// Every line begins with `indent`. Draws at most kMaxStretches (the shallowest are joined), with at most kMaxNames
// names each.
inline constexpr std::size_t kMaxStretches = 12;
inline constexpr std::size_t kMaxNames = 4;
[[nodiscard]] std::string DrawBlockTree(PromptShape prompt, const std::vector<BlockHolder>& holders,
                                        std::string_view indent);

// Text for a terminal: escapes invisible characters, and those that would change the display of the rest.
[[nodiscard]] std::string Printable(std::string_view text);

}  // namespace roost::roostctl
