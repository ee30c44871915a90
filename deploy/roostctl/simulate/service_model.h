// The time that a worker takes; replaces the forward pass. All times are for a worker of speed 1; a worker of speed s
// takes 1/s of them.
//
// An engine with continuous batching runs one step after the other. A step draws one token for each running request and
// computes a chunk of the prompts that still wait for their first token, so both take its whole time:
//
//   step    = step_base + prompts (if the step computes any) + decodes (if requests run)
//   prompts = prefill_base + Σ chunks: tokens / prefill_rate + attention · Σ tokens: tokens before it
//             + prefill_square · (tokens of all chunks)²
//   decodes = decode_base + per_request · requests + per_context_token · c + context_square · c²
//             c: tokens in the running requests' contexts
//
// The first token comes at the end of the step that completes the prompt. Not modelled: the network, sampling, and the
// share of a step's token budget that decodes take.
#pragma once

#include <algorithm>
#include <cstdint>

namespace roost::simulate {

enum class Batching : std::uint8_t {
  kMixed,     // one step does both, as above: prompts delay the running requests' tokens
  kSeparate,  // decodes have a machine of their own: neither slows the other down, and step_base
              // counts for steps that compute prompts only
};

struct ServiceModel {
  Batching batching = Batching::kMixed;
  double step_base_seconds = 0;
  double prefill_base_seconds = 0;
  double prefill_tokens_per_second = 10'000;
  double prefill_square_seconds = 0;
  double attention_seconds = 0;  // per token and per token before it
  double decode_base_seconds = 0.02;
  double decode_seconds_per_request = 0;
  double decode_seconds_per_context_token = 0;
  double decode_context_square_seconds = 0;

  // The time for tokens first_position … first_position + token_count - 1 of one prompt.
  [[nodiscard]] double ChunkSeconds(std::uint32_t first_position, std::uint32_t token_count) const {
    const auto count = static_cast<double>(token_count);
    const double before = static_cast<double>(first_position) + (count - 1) / 2;  // average over the chunk
    return count / prefill_tokens_per_second + attention_seconds * count * before;
  }
  // By how much longer a token takes for each token before it, relative to a prompt's first token.
  [[nodiscard]] double DepthGrowth() const { return attention_seconds * prefill_tokens_per_second; }
  // The time that prompts add to a step that computes this many of their tokens, in chunks of these seconds together.
  [[nodiscard]] double PromptSeconds(double chunk_seconds, std::uint32_t token_count) const {
    const auto count = static_cast<double>(token_count);
    return prefill_base_seconds + chunk_seconds + prefill_square_seconds * count * count;
  }
  // A step without prompts.
  [[nodiscard]] double DecodeStepSeconds(double running_requests, double context_tokens) const {
    const double base = decode_base_seconds + (batching == Batching::kMixed ? step_base_seconds : 0);
    return std::max(kMinStepSeconds, base + decode_seconds_per_request * running_requests +
                                         context_tokens * (decode_seconds_per_context_token +
                                                           decode_context_square_seconds * context_tokens));
  }
  // By how much one more context token lengthens it.
  [[nodiscard]] double SecondsPerContextToken(double context_tokens) const {
    return decode_seconds_per_context_token + 2 * decode_context_square_seconds * context_tokens;
  }

  static constexpr double kMinStepSeconds = 1e-7;
};

}  // namespace roost::simulate
