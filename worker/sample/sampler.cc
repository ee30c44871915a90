#include "worker/sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace roost::worker {
namespace {

using kernels::SampleStatus;

const char* NameOf(SampleStatus status) {
  switch (status) {
    case SampleStatus::kNotANumber: return "not a number";
    case SampleStatus::kInfinite: return "infinite";
    case SampleStatus::kAllMinusInfinity: return "all minus infinity";
    case SampleStatus::kSampled: break;
  }
  return "sound";
}

// False for NaN.
Result<void> CheckBetween(float value, float low, float high, const char* field) {
  if (value >= low && value <= high) return {};
  return InvalidArgument(field, "{} is not from {} to {}", value, low, high);
}

Result<void> CheckLogitBias(const std::vector<wire::LogitBias>& biases, std::uint32_t vocab_size) {
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const auto& [token, bias] = biases[i];
    if (token >= vocab_size) {
      return InvalidArgument("logit_bias", "token {} is beyond the vocabulary of {}", token, vocab_size);
    }
    if (i > 0 && token <= biases[i - 1].token) {
      return InvalidArgument("logit_bias", "token {} comes after token {}", token, biases[i - 1].token);
    }
    ROOST_RETURN_IF_ERROR(CheckBetween(bias, -wire::kMaxLogitBias, wire::kMaxLogitBias, "logit_bias"));
  }
  return {};
}

}  // namespace

wire::Features SamplingFeatures() { return {wire::Feature::kFullSampling}; }

Result<void> ValidateSampling(const wire::Sampling& sampling, std::uint32_t vocab_size) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return InvalidArgument("temperature", "{} is not a number from 0", sampling.temperature);
  }
  ROOST_RETURN_IF_ERROR(CheckBetween(sampling.top_p, 0, 1, "top_p"));
  ROOST_RETURN_IF_ERROR(CheckBetween(sampling.min_p, 0, 1, "min_p"));
  ROOST_RETURN_IF_ERROR(CheckBetween(sampling.repetition_penalty, wire::kMinRepetitionPenalty,
                                     wire::kMaxRepetitionPenalty, "repetition_penalty"));
  ROOST_RETURN_IF_ERROR(
      CheckBetween(sampling.presence_penalty, -wire::kMaxPenalty, wire::kMaxPenalty, "presence_penalty"));
  ROOST_RETURN_IF_ERROR(
      CheckBetween(sampling.frequency_penalty, -wire::kMaxPenalty, wire::kMaxPenalty, "frequency_penalty"));
  return CheckLogitBias(sampling.logit_bias, vocab_size);
}

kernels::SampleRow DrawOf(const wire::Sampling& sampling, std::uint64_t output_index) {
  return {.seed = sampling.seed,
          .output_index = output_index,
          .temperature = sampling.temperature,
          .top_k = sampling.top_k,
          .top_p = sampling.top_p,
          .min_p = sampling.min_p};
}

void BanTokens(std::vector<TokenId> tokens, std::uint32_t vocab_size, std::vector<kernels::LogitBias>& biases) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  tokens.erase(std::lower_bound(tokens.begin(), tokens.end(), vocab_size), tokens.end());
  std::erase_if(biases, [&tokens](const kernels::LogitBias& bias) {
    return std::binary_search(tokens.begin(), tokens.end(), bias.token);
  });
  for (const TokenId token : tokens) {
    biases.push_back({.token = token, .bias = -std::numeric_limits<float>::infinity()});
  }
}

wire::TokenLogprobs LogprobsOf(const kernels::ScoredToken& scored, std::span<const kernels::TopToken> top) {
  // NaN becomes the least value too.
  const auto bounded = [](float logprob) {
    return logprob > wire::kMinLogprob ? std::min(logprob, 0.0F) : wire::kMinLogprob;
  };
  wire::TokenLogprobs position{.logprob = bounded(scored.logprob), .rank = scored.rank, .top = {}};
  position.top.reserve(top.size());
  for (const kernels::TopToken& token : top) {
    position.top.push_back({.token = token.token, .logprob = bounded(token.logprob)});
  }
  return position;
}

Result<TokenId> TokenOf(const kernels::SampledToken& sampled) {
  if (sampled.status == SampleStatus::kSampled) return sampled.token;
  return Error{ErrorCode::kInternal, fmt::format("the model's logits are {}", NameOf(sampled.status)), ""};
}

Result<TokenId> SampleToken(std::span<const float> logits, const wire::Sampling& sampling, std::uint64_t output_index,
                            kernels::SampleScratch& scratch) {
  return TokenOf(kernels::SampleOnCpu(logits, DrawOf(sampling, output_index), scratch));
}

}  // namespace roost::worker
