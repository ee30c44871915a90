// Pictures of a prompt's blocks as text: which workers hold how much of it, along its chain.
//
//   blocks 1-40: worker-a, worker-b
//   └─ blocks 41-88: worker-a; worker-b computes them
//      └─ to prefill: blocks 89-92 and 6 tokens behind them
//
// A worker that holds a block holds all blocks before it, so each stretch has the holders of the next one, and perhaps
// more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost::roostctl {

struct BlockHolder {
  std::string name;
  std::uint64_t held_blocks = 0;
  std::uint64_t pending_blocks = 0;  // behind these: it is computing them
};

struct PromptShape {
  std::uint64_t token_count = 0;
  std::uint64_t block_tokens = 16;  // at least 1
};

// Lines that begin with `indent`. At most kMaxStretches, then the shallowest are one; of each at most kMaxNames names.
inline constexpr std::size_t kMaxStretches = 12;
inline constexpr std::size_t kMaxNames = 4;
[[nodiscard]] std::string DrawBlockTree(PromptShape prompt, const std::vector<BlockHolder>& holders,
                                        std::string_view indent);

// Text for a terminal: invisible characters, and those that would change how the rest looks, become escapes.
[[nodiscard]] std::string Printable(std::string_view text);

}  // namespace roost::roostctl
