// The blocks of a naive cache that an erasure takes, by definition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/model/naive_cache.h"

namespace roost::testing_support {

class NaiveErasure {
 public:
  explicit NaiveErasure(const NaiveCache& cache) : cache_(cache) {}

  // The blocks that go with a prompt: its last full block with all behind it, or what holds nothing but the prompt;
  // then those before them that nothing else continues.
  [[nodiscard]] std::vector<BlockId> Of(const worker::BlockChain& prompt) const {
    std::optional<BlockId> last;
    std::size_t count = 0;
    for (; count < prompt.hashes.size(); ++count) {
      const NaiveCache::Entry* entry = cache_.WithHash(prompt.hashes[count]);
      if (entry == nullptr || entry->parent != last || !BeginsAlike(*entry, prompt)) break;
      if (entry->prefix.size() != (count + 1) * cache_.block_tokens()) break;
      last = entry->block;
    }
    std::vector<BlockId> going;
    std::optional<BlockId> before = last;
    if (count > 0 && count == prompt.hashes.size()) {
      before = cache_.Get(*last)->parent;
      AppendTree(*last, going);
    } else {
      for (const NaiveCache::Entry& entry : cache_.entries()) {
        if (entry.parent == last && IsOfPrompt(entry, prompt)) AppendTree(entry.block, going);
      }
    }
    const auto goes = [&going](BlockId block) { return std::find(going.begin(), going.end(), block) != going.end(); };
    while (before && std::all_of(cache_.entries().begin(), cache_.entries().end(),
                                 [&](const auto& other) { return other.parent != before || goes(other.block); })) {
      going.push_back(*before);
      before = cache_.Get(*before)->parent;
    }
    return going;
  }

  // The blocks of a tenant, and those behind them.
  [[nodiscard]] std::vector<BlockId> Of(worker::TenantId tenant) const {
    std::vector<BlockId> going;
    for (const NaiveCache::Entry& entry : cache_.entries()) {
      const NaiveCache::Entry* each = &entry;
      while (each->tenant != tenant && each->parent) each = cache_.Get(*each->parent);
      if (each->tenant == tenant) going.push_back(entry.block);
    }
    return going;
  }

 private:
  // One of the two is the beginning of the other.
  static bool BeginsAlike(const NaiveCache::Entry& entry, const worker::BlockChain& prompt) {
    const auto common = static_cast<std::ptrdiff_t>(std::min(entry.prefix.size(), prompt.tokens.size()));
    return entry.root == prompt.root &&
           std::equal(prompt.tokens.begin(), prompt.tokens.begin() + common, entry.prefix.begin());
  }
  // It holds nothing but the prompt, or all of a prompt that is shorter than a block.
  [[nodiscard]] bool IsOfPrompt(const NaiveCache::Entry& entry, const worker::BlockChain& prompt) const {
    if (!BeginsAlike(entry, prompt)) return false;
    if (cache_.IsPartial(entry) && entry.prefix.size() <= prompt.tokens.size()) return true;
    return prompt.tokens.size() < cache_.block_tokens() && entry.prefix.size() >= prompt.tokens.size();
  }
  void AppendTree(BlockId block, std::vector<BlockId>& blocks) const {
    blocks.push_back(block);
    for (const NaiveCache::Entry& entry : cache_.entries()) {
      if (entry.parent == block) AppendTree(entry.block, blocks);
    }
  }

  const NaiveCache& cache_;
};

}  // namespace roost::testing_support
