// A model that computes nothing and takes the time of an engine on a GPU: a step's results come when a service model
// says that they would. So the daemons around it can be measured as in a fleet of GPUs, on a machine without one.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "deploy/roostctl/simulate/service_model.h"
#include "worker/model/model.h"

namespace roost::testing_support {

// The seconds of a step with this batch. A slice of one token behind others decodes; all others are parts of prompts.
[[nodiscard]] double StepSeconds(const simulate::ServiceModel& service, const worker::Batch& batch);

class PacedModel final : public worker::Model {
 public:
  struct Options {
    simulate::ServiceModel service;
    std::uint32_t vocab_size = 0;
    std::uint32_t max_context_tokens = 0;
    std::uint32_t block_tokens = 16;
    std::uint32_t block_count = 0;
    // The token of all answers.
    TokenId token = 0;
  };
  explicit PacedModel(const Options& options);

  [[nodiscard]] const worker::ModelShape& shape() const override { return shape_; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return options_.block_tokens; }
  [[nodiscard]] std::uint32_t block_count() const override { return options_.block_count; }

  // Begins the step when the one before it ends.
  void Compute(const worker::Batch& batch, const worker::Draws& draws) override;
  // Sleeps until the step's end.
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override;
  // All zero: no request of theirs is answered with probabilities.
  [[nodiscard]] std::span<const float> Logits() override { return logits_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Step {
    SteadyTime end;
    std::size_t draw_count = 0;
  };

  Options options_;
  worker::ModelShape shape_;
  SteadyTime last_end_{};
  std::deque<Step> steps_;
  std::vector<kernels::SampledToken> sampled_;
  std::vector<float> logits_;
};

}  // namespace roost::testing_support
