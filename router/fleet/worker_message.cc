#include "router/fleet/worker_message.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/wire/codec.h"

namespace roost::router {
namespace {

// The prompt of the request's next attempt: it includes the tokens that were generated so far.
std::vector<TokenId> PromptSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output) {
  std::vector<TokenId> prompt;
  prompt.reserve(spec.prompt.size() + output.size());
  prompt.insert(prompt.end(), spec.prompt.begin(), spec.prompt.end());
  prompt.insert(prompt.end(), output.begin(), output.end());
  return prompt;
}

std::uint64_t MillisecondsLeft(Instant deadline, Instant now) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, left));
}

}  // namespace

Result<void> CheckBounds(const GenerateSpec& spec) {
  const std::size_t most = wire::WireLimits::kMaxPromptTokens;
  if (spec.prompt.empty()) return InvalidArgument("prompt", "has no tokens");
  if (spec.prompt.size() + spec.max_output_tokens > most) {
    return InvalidArgument("prompt", "{} tokens and {} of output are together more than {}", spec.prompt.size(),
                           spec.max_output_tokens, most);
  }
  if (spec.max_output_tokens == 0) return InvalidArgument("max_tokens", "must be at least 1");
  if (spec.stop_tokens.size() > wire::WireLimits::kMaxStopTokens) {
    return InvalidArgument("stop", "{} stop tokens are more than {}", spec.stop_tokens.size(),
                           wire::WireLimits::kMaxStopTokens);
  }
  if (spec.sample_count == 0 || spec.sample_count > wire::kMaxSampleCount) {
    return InvalidArgument("n", "{} is not from 1 to {}", spec.sample_count, wire::kMaxSampleCount);
  }
  if (spec.output_logprobs.value_or(0) > wire::kMaxTopLogprobs) {
    return InvalidArgument("logprobs", "{} is more than {}", *spec.output_logprobs, wire::kMaxTopLogprobs);
  }
  if (spec.prompt_logprobs.value_or(0) > wire::kMaxTopLogprobs) {
    return InvalidArgument("prompt_logprobs", "{} is more than {}", *spec.prompt_logprobs, wire::kMaxTopLogprobs);
  }
  ROOST_CHECK(spec.block_hashes.size() == spec.prompt.size() / spec.model->block_tokens);
  return {};
}

std::vector<BlockHash> HashesSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output,
                                   std::size_t output_count) {
  std::vector<BlockHash> hashes = spec.block_hashes;
  const auto hashed_tokens = static_cast<std::ptrdiff_t>(hashes.size() * spec.model->block_tokens);
  std::vector<TokenId> rest(spec.prompt.begin() + hashed_tokens, spec.prompt.end());
  rest.insert(rest.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(output_count));
  const BlockHash last = hashes.empty() ? spec.root : hashes.back();
  const BlockHash parent = ParentOf(static_cast<std::uint32_t>(hashes.size()), spec.root, spec.own, last);
  const std::vector<BlockHash> behind = HashBlocks(parent, rest, spec.model->block_tokens);
  hashes.insert(hashes.end(), behind.begin(), behind.end());
  return hashes;
}

wire::Generate MessageOf(const GenerateSpec& spec, WorkerOrder order, Instant now) {
  const auto output_count = static_cast<std::uint32_t>(order.output.size());
  wire::Sampling sampling = spec.sampling;
  sampling.seed += order.choices.first;
  return {.request_id = order.id,
          .prompt = PromptSoFar(spec, order.output),
          .root = spec.root,
          .block_hashes = std::move(order.hashes),
          .sampling = sampling,
          .max_output_tokens = spec.max_output_tokens - output_count,
          .first_output_index = output_count,
          .stop_tokens = spec.stop_tokens,
          .ignore_eos = spec.ignore_eos,
          .expected_cached_tokens = order.expected_cached_tokens,
          .deadline_ms = spec.deadline.has_value() ? MillisecondsLeft(*spec.deadline, now) : 0,
          .own = spec.own,
          .tenant = spec.tenant,
          .cache_mode = spec.cache_mode,
          .priority = order.priority,
          .retention = spec.retention,
          .session_hash = spec.session_hash,
          .expect_return_ms = spec.expect_return_ms,
          .sample_count = order.choices.count,
          .output_logprobs = spec.output_logprobs,
          .prompt_logprobs = order.prompt_logprobs,
          .min_output_tokens = spec.min_output_tokens,
          .constraint = spec.constraint,
          .trace_parent = spec.trace_parent,
          .adapter = std::string(spec.model->adapter())};
}

}  // namespace roost::router
