// How long a worker takes; replaces the forward pass. All times are for a worker of speed 1; a worker of speed s takes
// 1/s of them.
//
//   prefill   a step computes its chunks one after the other:
//               step_base + Σ chunks: tokens / prefill_rate + attention · Σ tokens: tokens before it
//   decode    runs beside prefill, as a fluid: every running request draws tokens at the same rate, one per
//               decode_base + per_request · (running requests) + per_context_token · (tokens of their contexts)
//
// So the first token comes at the end of the step that completes the prompt, and prefill does not slow decoding down.
// The defaults follow a published style of simulation: 10,000 tokens per second, one prefill after the other, and 50
// tokens per second for each request, independent of the others. Not modelled: the network, sampling, the interference
// of prefill and decode in one batch.
#pragma once

#include <cstdint>

namespace roost::simulate {

struct ServiceModel {
  double prefill_tokens_per_second = 10'000;
  double step_base_seconds = 0;
  double attention_seconds = 0;  // per token and per token before it
  double decode_base_seconds = 0.02;
  double decode_seconds_per_request = 0;
  double decode_seconds_per_context_token = 0;

  // The time for tokens first_position … first_position + token_count - 1 of one prompt.
  [[nodiscard]] double ChunkSeconds(std::uint32_t first_position, std::uint32_t token_count) const {
    const auto count = static_cast<double>(token_count);
    const double before = static_cast<double>(first_position) + (count - 1) / 2;  // average over the chunk
    return count / prefill_tokens_per_second + attention_seconds * count * before;
  }
  [[nodiscard]] double DecodeStepSeconds(double running_requests, double context_tokens) const {
    return decode_base_seconds + decode_seconds_per_request * running_requests +
           decode_seconds_per_context_token * context_tokens;
  }
};

}  // namespace roost::simulate
