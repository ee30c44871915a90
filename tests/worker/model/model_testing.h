// Shared by the tests of the model: building one from random weights, running sequences through it, comparing bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/transformer.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

struct TestModelOptions {
  std::string preset = "tiny";
  kernels::DType dtype = kernels::DType::kF32;
  std::uint32_t thread_count = 1;
  std::uint32_t block_tokens = 16;
  std::uint32_t block_count = 200;
  StepBounds step_bounds = {};
  const kernels::OpTable* ops = &kernels::CpuOps();
  std::size_t frame_count = 0;  // through which its blocks travel, on a device with memory of its own
};

inline std::shared_ptr<const FrameSlab> PinFrames(const kernels::Backend& backend, const HfConfig& config,
                                                  const TestModelOptions& options) {
  if (options.frame_count == 0) return nullptr;
  const FrameSizes sizes{.block_tokens = options.block_tokens,
                         .data_bytes = KvBlockBytes(config, options.block_tokens, options.dtype)};
  return FrameSlab::Pin(backend, {options.frame_count, sizes.data_offset(), kFrameSumBytes}, sizes.data_bytes).value();
}

inline constexpr std::uint64_t kTestSeed = 7;

// Every request for a weight gets an error about "a weight".
class NoWeights final : public WeightSource {
 public:
  [[nodiscard]] Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> /*shape*/) const override {
    return Error{ErrorCode::kInternal, std::string(name), "a weight"};
  }
};

inline Result<std::unique_ptr<Transformer>> MakeModel(const HfConfig& config, const WeightSource& weights,
                                                      const TestModelOptions& options) {
  ROOST_ASSIGN_OR_RETURN(auto backend, kernels::Backend::Open(*options.ops, {.thread_count = options.thread_count}));
  const auto slab = PinFrames(backend, config, options);
  return Transformer::Create(std::move(backend), config, weights,
                             {.block_tokens = options.block_tokens,
                              .block_count = options.block_count,
                              .max_context_tokens = config.max_positions,
                              .step_bounds = options.step_bounds,
                              .compute_dtype = options.dtype,
                              .slab = slab});
}

inline std::unique_ptr<Transformer> MakeTestModel(const TestModelOptions& options) {
  return MakeModel(*SyntheticConfig(options.preset), RandomWeights(kTestSeed), options).value();
}

// Includes bf16 if the CPU computes in it.
inline std::vector<kernels::DType> ComputeDTypes() {
  auto backend = kernels::Backend::Open(kernels::CpuOps(), {}).value();
  if (backend.ops().supports_dtype(backend.device(), kernels::DType::kBF16)) {
    return {kernels::DType::kF32, kernels::DType::kBF16};
  }
  return {kernels::DType::kF32};
}

inline std::vector<TokenId> RandomTokens(std::uint64_t seed, std::size_t count, std::uint32_t vocab_size) {
  Rng rng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(vocab_size));
  return tokens;
}

// One sequence in a model: its tokens, its blocks, how far it is computed.
class TestSequence {
 public:
  // Takes blocks first_block, first_block + 2, …, so that they are not adjacent.
  TestSequence(const Model& model, std::vector<TokenId> tokens, std::uint32_t first_block = 0)
      : tokens_(std::move(tokens)) {
    const std::size_t count = (tokens_.size() + model.block_tokens() - 1) / model.block_tokens();
    for (std::uint32_t i = 0; i < count; ++i) blocks_.emplace_back(first_block + 2 * i);
  }

  [[nodiscard]] bool done() const { return computed_ == tokens_.size(); }
  [[nodiscard]] std::uint32_t remaining() const { return static_cast<std::uint32_t>(tokens_.size()) - computed_; }

  // The blocks that the next `count` tokens are the first to use.
  [[nodiscard]] std::span<const BlockId> Begun(std::uint32_t count, std::uint32_t block_tokens) const {
    const auto blocks_of = [block_tokens](std::uint32_t tokens) { return (tokens + block_tokens - 1) / block_tokens; };
    return std::span(blocks_).subspan(blocks_of(computed_), blocks_of(computed_ + count) - blocks_of(computed_));
  }

  // Adds the next `count` tokens to the batch.
  void AddTo(Batch& batch, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) batch.tokens.push_back(tokens_[computed_ + i]);
    batch.slices.push_back({blocks_, computed_, count, 1});
    computed_ += count;
  }

 private:
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
  std::uint32_t computed_ = 0;
};

// The logits of the last token of `tokens`, computed alone in chunks of `chunk` tokens.
inline std::vector<float> LastLogits(Model& model, const std::vector<TokenId>& tokens, std::uint32_t chunk) {
  TestSequence sequence(model, tokens);
  std::vector<float> logits;
  while (!sequence.done()) {
    Batch batch;
    sequence.AddTo(batch, std::min(chunk, sequence.remaining()));
    const auto result = model.Forward(batch);
    logits.assign(result.begin(), result.end());
  }
  return logits;
}

// The logits of every token: [tokens][vocab_size].
inline std::vector<float> AllLogits(Model& model, const std::vector<TokenId>& tokens) {
  TestSequence sequence(model, tokens);
  std::vector<float> logits;
  while (!sequence.done()) {
    Batch batch;
    sequence.AddTo(batch, 1);
    const auto result = model.Forward(batch);
    logits.insert(logits.end(), result.begin(), result.end());
  }
  return logits;
}

inline bool BitEqual(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Largest |a - b| over the largest |b|, and the same in the Euclidean norm, whichever is greater.
inline double RelativeError(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  double largest = 0;
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double distance = double{a[i]} - b[i];
    worst = std::max(worst, std::abs(distance));
    largest = std::max(largest, std::abs(double{b[i]}));
    difference += distance * distance;
    norm += double{b[i]} * b[i];
  }
  return std::max(worst / largest, std::sqrt(difference / norm));
}

// Four sequences of different lengths, and `step_count` more tokens for each. The tokens are drawn from the logits of
// the previous step; the host puts them into the batch, or the device places them there. [steps][sequences]
enum class TokenWay : std::uint8_t { kOverTheHost, kOnTheDevice };
inline std::vector<std::vector<TokenId>> DrawOnwards(Model& model, TokenWay way, std::uint32_t step_count) {
  constexpr std::uint32_t kSequences = 4;
  const std::uint32_t vocab_size = model.shape().vocab_size;
  std::vector<std::vector<BlockId>> blocks(kSequences);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<TokenId>> drawn;
  for (std::uint32_t i = 0; i < kSequences; ++i) tokens.push_back(RandomTokens(i, 3 + 14 * i, vocab_size));
  Draws draws;
  const auto append = [&tokens](std::span<const kernels::SampledToken> sampled) {
    std::vector<TokenId> step;
    for (std::uint32_t i = 0; i < kSequences; ++i) {
      step.push_back(sampled[kSequences - 1 - i].token);
      tokens[i].push_back(step.back());
    }
    return step;
  };
  for (std::uint32_t step = 0; step < step_count; ++step) {
    const bool places = step > 0 && way == TokenWay::kOnTheDevice;
    Batch batch;
    for (std::uint32_t i = 0; i < kSequences; ++i) {
      // The host does not know the latest token yet if the device places it.
      const auto end = static_cast<std::uint32_t>(tokens[i].size()) + (places ? 1 : 0);
      const std::uint32_t first = step == 0 ? 0 : end - 1;
      while (blocks[i].size() * model.block_tokens() < end) {
        blocks[i].emplace_back(static_cast<std::uint32_t>(blocks[i].size()) * kSequences + i);
      }
      if (places) batch.sampled_places.push_back({.index = i, .draw = kSequences - 1 - i});
      for (std::uint32_t p = first; p < end; ++p) batch.tokens.push_back(p < tokens[i].size() ? tokens[i][p] : 0);
      batch.slices.push_back({blocks[i], first, end - first, 1});
    }
    draws.Clear();
    draws.feed_next_batch = true;
    for (std::uint32_t i = 0; i < kSequences; ++i) {  // in a different order than the rows
      draws.Add({.seed = i, .output_index = step, .row = kSequences - 1 - i, .temperature = 1}, {});
    }
    model.Compute(batch, draws);
    if (places || way == TokenWay::kOverTheHost) drawn.push_back(append(model.AwaitSampled()));
  }
  if (way == TokenWay::kOnTheDevice) drawn.push_back(append(model.AwaitSampled()));
  return drawn;
}

}  // namespace roost::worker
