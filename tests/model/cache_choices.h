// The choices of a random test of the prefix cache: its options, prompts, lies, and times. Equal choices give equal
// ones.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "tests/model/choices.h"
#include "tests/support/cache_user.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

// Lying users sometimes give wrong hashes, as a router with a bug might.
enum class Honesty : std::uint8_t { kHonest, kLying };

class CacheChoices {
 public:
  static constexpr std::uint32_t kBlockTokens = 4;

  // `choices` outlives it.
  CacheChoices(Choices& choices, Honesty honesty) : choices_(choices), honesty_(honesty) {}

  [[nodiscard]] std::uint32_t Below(std::uint64_t bound) { return static_cast<std::uint32_t>(choices_.Below(bound)); }
  [[nodiscard]] bool OneIn(std::uint32_t count) { return Below(count) == 0; }

  [[nodiscard]] worker::CacheOptions Options() {
    constexpr double kPinShares[] = {0, 0.25, 0.5, 1};
    worker::CacheOptions options{.block_tokens = kBlockTokens, .pinned_share_limit = kPinShares[Below(4)]};
    if (OneIn(2)) options.min_hold = HalfTicks(1 + Below(20));
    options.held_share_limit = kPinShares[Below(4)];
    for (std::uint32_t groups = Below(4); groups > 0; --groups) {
      options.group_shares.push_back(static_cast<double>(1 + Below(8)) / 16);
    }
    return options;
  }

  // Mostly so short that many of them pass, sometimes so long that none does.
  [[nodiscard]] Duration ShortOrLong() { return OneIn(8) ? std::chrono::hours(1 + Below(4)) : HalfTicks(Below(60)); }

  [[nodiscard]] worker::BlockRetention Retention(Instant now) {
    constexpr std::uint32_t kPriorities[] = {0, 10, 34, 35, 36, 64, 90, 100};
    if (OneIn(2)) return {};
    return {.priority = kPriorities[Below(8)], .end = now + ShortOrLong()};
  }

  // Few different blocks, so that prompts share prefixes, part within a block, and have equal blocks at other
  // positions.
  void AppendTokens(std::vector<TokenId>& tokens, std::uint32_t block_count) {
    for (; block_count > 0; --block_count) {
      const TokenId letter = Below(1 + Below(3));
      const std::uint32_t odd_one = OneIn(3) ? Below(kBlockTokens) : kBlockTokens;
      for (std::uint32_t i = 0; i < kBlockTokens; ++i) tokens.push_back(i == odd_one ? 3 + Below(2) : letter);
    }
  }
  [[nodiscard]] CacheUser Prompt(std::uint32_t group_count, std::span<const worker::TenantId> tenants) {
    const BlockHash root{1, Below(2)};
    std::vector<TokenId> tokens;
    AppendTokens(tokens, Below(10));
    for (std::uint32_t rest = Below(kBlockTokens); rest > 0; --rest) tokens.push_back(Below(2));
    CacheUser prompt(root, std::move(tokens), kBlockTokens);
    prompt.group = worker::EvictionGroup(Below(group_count));
    prompt.tenant = tenants[Below(tenants.size())];
    Lie(prompt, 0);
    return prompt;
  }
  // Gives wrong hashes for some blocks from `first` on.
  void Lie(CacheUser& prompt, std::size_t first) {
    if (honesty_ == Honesty::kHonest || !OneIn(3)) return;
    for (std::size_t i = first; i < prompt.hashes.size(); ++i) {
      if (OneIn(2)) prompt.hashes[i] = {7, Below(6)};
    }
  }

 private:
  [[nodiscard]] static Duration HalfTicks(std::uint64_t count) {
    return worker::TimerWheel::kTick / 2 * static_cast<Duration::rep>(count);
  }

  Choices& choices_;
  const Honesty honesty_;
};

}  // namespace roost::testing_support
