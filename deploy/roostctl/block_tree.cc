#include "deploy/roostctl/block_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "common/base/utf8.h"

namespace roost::roostctl {
namespace {

// Blocks (after, last] of the chain, counted from 1.
struct Stretch {
  std::uint64_t after = 0;
  std::uint64_t last = 0;
};

std::string NameOf(Stretch stretch) {
  if (stretch.last == stretch.after + 1) return fmt::format("block {}", stretch.last);
  return fmt::format("blocks {}-{}", stretch.after + 1, stretch.last);
}

std::vector<Stretch> StretchesOf(const std::vector<BlockHolder>& holders, std::uint64_t block_count) {
  std::set<std::uint64_t> ends;
  for (const BlockHolder& holder : holders) {
    ends.insert(std::min(holder.held_blocks, block_count));
    ends.insert(std::min(holder.held_blocks + holder.pending_blocks, block_count));
    ends.insert(std::min(holder.held_blocks + holder.disk_blocks, block_count));
  }
  ends.erase(0);
  while (ends.size() > kMaxStretches) ends.erase(ends.begin());
  std::vector<Stretch> stretches;
  stretches.reserve(ends.size());
  for (const std::uint64_t end : ends) stretches.push_back({stretches.empty() ? 0 : stretches.back().last, end});
  return stretches;
}

std::string Names(const std::vector<std::string>& names) {
  if (names.size() <= kMaxNames) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMaxNames, ", "),
                     names.size() - kMaxNames);
}

std::string HoldersOf(Stretch stretch, const std::vector<BlockHolder>& holders) {
  std::vector<std::string> holding;
  std::vector<std::string> computing;
  for (const BlockHolder& holder : holders) {
    if (holder.held_blocks >= stretch.last) {
      holding.push_back(holder.name);
    } else if (holder.held_blocks + holder.disk_blocks >= stretch.last) {
      holding.push_back(holder.name + " on disk");
    } else if (holder.held_blocks + holder.pending_blocks >= stretch.last) {
      computing.push_back(holder.name);
    }
  }
  if (computing.empty()) return Names(holding);
  return fmt::format("{}{}being computed by {}", Names(holding), holding.empty() ? "" : "; ", Names(computing));
}

// The part behind the `deepest` blocks of the prompt; empty when they are all of it.
std::string RestOf(PromptShape prompt, std::uint64_t deepest) {
  const std::uint64_t block_count = prompt.token_count / prompt.block_tokens;
  const std::uint64_t tail = prompt.token_count % prompt.block_tokens;
  std::string rest;
  if (deepest < block_count) rest = NameOf({deepest, block_count});
  if (tail == 0) return rest;
  const std::string tokens = fmt::format("{} token{}", tail, tail == 1 ? "" : "s");
  return rest.empty() ? tokens : fmt::format("{} and {}", rest, tokens);
}

bool IsInvisible(char32_t value) {
  const bool is_control = value < 0x20 || (value >= 0x7f && value < 0xa0);
  const bool turns_text = (value >= 0x200b && value <= 0x200f) || (value >= 0x2028 && value <= 0x202e) ||
                          (value >= 0x2060 && value <= 0x2069) || value == 0xfeff;
  return is_control || turns_text;
}

}  // namespace

std::string DrawBlockTree(PromptShape prompt, const std::vector<BlockHolder>& holders, std::string_view indent) {
  std::string text;
  std::string branch;
  const auto add = [&](std::string_view line) {
    text += fmt::format("{}{}{}\n", indent, branch, line);
    branch = branch.empty() ? "└─ " : "   " + branch;
  };
  const std::vector<Stretch> stretches = StretchesOf(holders, prompt.token_count / prompt.block_tokens);
  for (const Stretch stretch : stretches) add(fmt::format("{}: {}", NameOf(stretch), HoldersOf(stretch, holders)));
  const std::string rest = RestOf(prompt, stretches.empty() ? 0 : stretches.back().last);
  if (!rest.empty()) add(fmt::format("{}: no worker", rest));
  return text;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::optional<CodePoint> code = DecodeUtf8(text);
    const std::size_t length = code ? code->length : 1;
    if (!code) {
      printable += "\\ufffd";
    } else if (code->value == '\n') {
      printable += "\\n";
    } else if (code->value == '\t') {
      printable += "\\t";
    } else if (IsInvisible(code->value)) {
      printable += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code->value));
    } else {
      printable += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return printable;
}

}  // namespace roost::roostctl
