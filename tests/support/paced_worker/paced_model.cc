#include "tests/support/paced_worker/paced_model.h"

#include <algorithm>
#include <thread>

#include "common/base/check.h"

namespace roost::testing_support {

double StepSeconds(const simulate::ServiceModel& service, const worker::Batch& batch) {
  double chunk_seconds = 0;
  double context_tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t decodes = 0;
  for (const worker::BatchSlice& slice : batch.slices) {
    if (slice.token_count == 1 && slice.first_position > 0) {
      context_tokens += slice.first_position + 1;
      ++decodes;
    } else {
      chunk_seconds += service.ChunkSeconds(slice.first_position, slice.token_count);
      prompt_tokens += slice.token_count;
    }
  }
  const double prompt_seconds = prompt_tokens == 0 ? 0 : service.PromptSeconds(chunk_seconds, prompt_tokens);
  if (decodes == 0) return service.step_base_seconds + prompt_seconds;
  return service.DecodeStepSeconds(decodes, context_tokens) + prompt_seconds;
}

PacedModel::PacedModel(const Options& options) : options_(options), logits_(options.vocab_size) {
  shape_.vocab_size = options.vocab_size;
  shape_.max_context_tokens = options.max_context_tokens;
}

void PacedModel::Compute(const worker::Batch& batch, const worker::Draws& draws) {
  const auto seconds = std::chrono::duration<double>(StepSeconds(options_.service, batch));
  const SteadyTime begin = std::max(last_end_, std::chrono::steady_clock::now());
  last_end_ = begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(seconds);
  steps_.push_back({last_end_, draws.rows.size()});
}

std::span<const kernels::SampledToken> PacedModel::AwaitSampled() {
  ROOST_CHECK(!steps_.empty(), "no batch has begun");
  const Step step = steps_.front();
  steps_.pop_front();
  std::this_thread::sleep_until(step.end);
  sampled_.assign(step.draw_count, {.token = options_.token});
  return sampled_;
}

}  // namespace roost::testing_support
