// What a worker is sent for a request: its prompt so far, the hashes of that, and how to go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// Can the wire carry it, also with all of the output in the prompt? kInvalidArgument names the field.
[[nodiscard]] Result<void> CheckBounds(const GenerateSpec& spec);

// The hashes of the full blocks of prompt and the first `output_count` tokens of `output`. Those of the prompt were
// computed when it came; only what stands behind them is hashed here.
[[nodiscard]] std::vector<BlockHash> HashesSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output,
                                                 std::size_t output_count);

// Choices of a request that one worker computes together.
struct ChoiceRange {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

// An order to generate `choices`, which have the tokens of `output` already: these stand behind the prompt. `hashes`
// are those of prompt and output. Log probabilities of the prompt are told once.
struct WorkerOrder {
  RequestId id;
  ChoiceRange choices;
  const std::vector<TokenId>& output;
  std::vector<BlockHash> hashes;
  std::uint32_t expected_cached_tokens = 0;
  std::optional<std::uint32_t> prompt_logprobs;
};
[[nodiscard]] wire::Generate MessageOf(const GenerateSpec& spec, WorkerOrder order, Instant now);

}  // namespace roost::router
