// The message that sends a request to a worker: its prompt and the tokens so far, their hashes, and how to continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// An error when the wire can not carry the request, even if all of its output has become part of the prompt.
// kInvalidArgument names the field.
[[nodiscard]] Result<void> CheckBounds(const GenerateSpec& spec);

// The hashes of the full blocks of the prompt followed by the first `output_count` tokens of `output`. The prompt's
// hashes are known; only later blocks are hashed here.
[[nodiscard]] std::vector<BlockHash> HashesSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output,
                                                 std::size_t output_count);

// Choices of a request that one worker computes together.
struct ChoiceRange {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

// One attempt's changes to its request's message: it generates `choices`, which already have the tokens of `output`
// after the prompt. `hashes` are those of the full blocks of prompt and output. Log probabilities of the prompt are
// requested only once.
struct WorkerOrder {
  RequestId id;
  ChoiceRange choices;
  const std::vector<TokenId>& output;
  std::span<const BlockHash> hashes;
  std::uint32_t expected_cached_tokens = 0;
  std::optional<std::uint32_t> prompt_logprobs;
  std::uint32_t priority = 50;
  // kPrompt: one token, and no hint for the session's return.
  wire::RequestPart part = wire::RequestPart::kWhole;
  std::string_view kv_transfer = {};  // see wire::Generate
};
[[nodiscard]] wire::Generate MessageOf(const GenerateSpec& spec, const WorkerOrder& order, Instant now);

}  // namespace roost::router
