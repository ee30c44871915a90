#include "worker/sample/sampler.h"

#include <fmt/format.h>

#include <cmath>

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

}  // namespace

Result<void> ValidateSampling(const wire::Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return InvalidArgument("temperature", "{} is not a number from 0", sampling.temperature);
  }
  if (!(sampling.top_p >= 0 && sampling.top_p <= 1)) {
    return InvalidArgument("top_p", "{} is not between 0 and 1", sampling.top_p);
  }
  return {};
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
