#include "router/fleet/requests/worker_message.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/wire/codec.h"

namespace roost::router {
namespace {

std::uint64_t MillisecondsLeft(Instant deadline, Instant now) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, left));
}

}  // namespace

Result<void> CheckBounds(const GenerateSpec& spec) {
  const std::size_t most = wire::WireLimits::kMaxPromptTokens;
  if (spec.generate.prompt.empty()) return InvalidArgument("prompt", "has no tokens");
  if (spec.generate.prompt.size() + spec.generate.max_output_tokens > most) {
    return InvalidArgument("prompt", "{} tokens and {} of output are together more than {}",
                           spec.generate.prompt.size(), spec.generate.max_output_tokens, most);
  }
  if (spec.generate.max_output_tokens == 0) return InvalidArgument("max_tokens", "must be at least 1");
  if (spec.generate.stop_tokens.size() > wire::WireLimits::kMaxStopTokens) {
    return InvalidArgument("stop", "{} stop tokens are more than {}", spec.generate.stop_tokens.size(),
                           wire::WireLimits::kMaxStopTokens);
  }
  if (spec.generate.sample_count == 0 || spec.generate.sample_count > wire::kMaxSampleCount) {
    return InvalidArgument("n", "{} is not from 1 to {}", spec.generate.sample_count, wire::kMaxSampleCount);
  }
  if (spec.generate.output_logprobs.value_or(0) > wire::kMaxTopLogprobs) {
    return InvalidArgument("logprobs", "{} is more than {}", *spec.generate.output_logprobs, wire::kMaxTopLogprobs);
  }
  if (spec.generate.prompt_logprobs.value_or(0) > wire::kMaxTopLogprobs) {
    return InvalidArgument("prompt_logprobs", "{} is more than {}", *spec.generate.prompt_logprobs,
                           wire::kMaxTopLogprobs);
  }
  ROOST_CHECK(spec.generate.block_hashes.size() == spec.generate.prompt.size() / spec.model->block_tokens);
  return {};
}

std::vector<BlockHash> HashesSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output,
                                   std::size_t output_count) {
  std::vector<BlockHash> hashes = spec.generate.block_hashes;
  const auto hashed_tokens = static_cast<std::ptrdiff_t>(hashes.size() * spec.model->block_tokens);
  std::vector<TokenId> rest(spec.generate.prompt.begin() + hashed_tokens, spec.generate.prompt.end());
  rest.insert(rest.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(output_count));
  const BlockHash last = hashes.empty() ? spec.generate.root : hashes.back();
  const BlockHash parent =
      ParentOf(static_cast<std::uint32_t>(hashes.size()), spec.generate.root, spec.generate.own, last);
  const std::vector<BlockHash> behind = HashBlocks(parent, rest, spec.model->block_tokens);
  hashes.insert(hashes.end(), behind.begin(), behind.end());
  return hashes;
}

wire::Generate MessageOf(const GenerateSpec& spec, const WorkerOrder& order, Instant now) {
  wire::Generate message = spec.generate;
  const auto output_count = static_cast<std::uint32_t>(order.output.size());
  const auto later_hashes = order.hashes.subspan(spec.generate.block_hashes.size());
  message.request_id = order.id;
  message.prompt.insert(message.prompt.end(), order.output.begin(), order.output.end());
  message.block_hashes.insert(message.block_hashes.end(), later_hashes.begin(), later_hashes.end());
  message.sampling.seed += order.choices.first;
  message.sample_count = order.choices.count;
  message.max_output_tokens -= output_count;
  message.first_output_index = output_count;
  message.expected_cached_tokens = order.expected_cached_tokens;
  message.deadline_ms = spec.deadline.has_value() ? MillisecondsLeft(*spec.deadline, now) : 0;
  message.priority = order.priority;
  message.prompt_logprobs = order.prompt_logprobs;
  message.adapter = spec.model->adapter();
  message.part = order.part;
  message.kv_transfer = order.kv_transfer;
  if (order.part != wire::RequestPart::kPrompt) return message;
  message.max_output_tokens = 1;
  message.min_output_tokens = std::min(message.min_output_tokens, 1U);  // engines refuse more than the most
  message.retention.reset();
  message.lifetimes.clear();
  message.session_hash = 0;
  message.expect_return_ms = 0;
  return message;
}

}  // namespace roost::router
