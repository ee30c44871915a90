// The bodies of answers about prefixes: pins, evictions, warm-ups, matches, the most used ones. Pure functions from
// values to JSON text; errors name the parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// "prompt 18 tokens: 16 cached in 4 blocks, 2 to prefill". A partly cached block counts as a block.
[[nodiscard]] std::string HitLine(std::uint32_t prompt_tokens, std::uint32_t cached_tokens, std::uint32_t block_tokens);

// The fields with which all answers about one prompt begin.
struct PromptSize {
  std::string model;
  std::uint64_t block_count = 0;
  std::uint64_t token_count = 0;
};

// The content that an order to pin names: a prompt, or a block of a model.
struct BlockOfModel {
  std::string model;
  BlockHash hash;
};
using PinnedPart = std::variant<PromptSize, BlockOfModel>;
// Each worker with the blocks that it kept, waits for and refused, or with "answered": false. Of a block only itself is
// counted.
[[nodiscard]] std::string PinBody(const PinnedPart& part, std::span<const WorkerAnswer> answers);
// The first members of an answer about an eviction.
struct EvictedSize {
  std::string model;   // empty: all
  std::string tenant;  // empty: none
  std::optional<PromptSize> prompt = {};
  std::optional<BlockHash> block = {};
};
// The sums, and each worker with what left its cache, or with "answered": false and the reason.
[[nodiscard]] std::string EvictBody(const EvictedSize& size, std::span<const WorkerAnswer> answers);
// Each worker with its outcome: computed, pulled, held, refused, or unanswered; and what it fetched from another one.
[[nodiscard]] std::string WarmBody(const PromptSize& size, std::span<const WorkerAnswer> answers);
[[nodiscard]] std::string MatchBody(const PromptQuery& query, const PromptMatch& match);

// GET /admin/v1/prefixes?model=M&top=K.
struct PrefixesQuery {
  static constexpr std::uint32_t kDefaultTop = 20;

  std::string model;  // empty: all models that are served
  std::uint32_t top = kDefaultTop;
};
[[nodiscard]] Result<PrefixesQuery> ParsePrefixesQuery(std::string_view query);

// The answers of a model's workers.
struct PrefixesOfModel {
  std::shared_ptr<const ServedModel> model;
  std::vector<WorkerAnswer> answers;
};

// The prefixes of all answers, the most used first, at most `top`. Prefixes of a model with equal hashes are merged and
// their hits added. A prefix lists only the workers that have it among their own most used ones. If workers sent
// tokens, they are shown as text, at most kMaxShownText bytes each for the first and the last block. One model is named
// once; of several, each prefix names its own.
inline constexpr std::size_t kMaxShownText = 200;
[[nodiscard]] std::string PrefixesBody(std::span<const PrefixesOfModel> models, std::uint32_t top);

}  // namespace roost::router
