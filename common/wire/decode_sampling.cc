#include "common/wire/decode_sampling.h"

#include <cmath>
#include <vector>

#include "common/wire/codec.h"

namespace roost::wire {
namespace {

Result<float> ReadTemperature(float temperature) {
  if (!std::isfinite(temperature) || temperature < 0) return DataLoss("temperature", "{}", temperature);
  return temperature;
}

Result<float> ReadTopP(float top_p) {
  if (!(top_p > 0 && top_p <= 1)) return DataLoss("topP", "{} is not in (0, 1]", top_p);
  return top_p;
}

// Refuses NaN too: it is not between any bounds.
Result<float> ReadBetween(float value, float low, float high, const char* field) {
  if (!(value >= low && value <= high)) return DataLoss(field, "{} is not from {} to {}", value, low, high);
  return value;
}

Result<float> ReadRepetitionPenalty(float penalty) {
  return ReadBetween(penalty, kMinRepetitionPenalty, kMaxRepetitionPenalty, "repetitionPenalty");
}

Result<std::vector<LogitBias>> ReadLogitBias(capnp::List<schema::LogitBias>::Reader list) {
  if (list.size() > WireLimits::kMaxLogitBiases) {
    return DataLoss("logitBias", "{} items, limit {}", list.size(), WireLimits::kMaxLogitBiases);
  }
  std::vector<LogitBias> biases;
  biases.reserve(list.size());
  for (const auto item : list) {
    ROOST_ASSIGN_OR_RETURN(const float bias, ReadBetween(item.getBias(), -kMaxLogitBias, kMaxLogitBias, "logitBias"));
    if (!biases.empty() && item.getToken() <= biases.back().token) {
      return DataLoss("logitBias", "token {} after token {}", item.getToken(), biases.back().token);
    }
    biases.push_back({.token = item.getToken(), .bias = bias});
  }
  return biases;
}

}  // namespace

Result<SamplingDefaults> ReadSamplingDefaults(schema::Hello::Reader in) {
  SamplingDefaults defaults;
  ROOST_ASSIGN_OR_RETURN(defaults.temperature, ReadTemperature(in.getDefaultTemperature()));
  ROOST_ASSIGN_OR_RETURN(defaults.top_p, ReadTopP(in.getDefaultTopP()));
  defaults.top_k = in.getDefaultTopK();
  ROOST_ASSIGN_OR_RETURN(defaults.min_p, ReadBetween(in.getDefaultMinP(), 0, 1, "minP"));
  ROOST_ASSIGN_OR_RETURN(defaults.repetition_penalty, ReadRepetitionPenalty(in.getDefaultRepetitionPenalty()));
  return defaults;
}

Result<Sampling> ReadSampling(schema::Generate::Reader in) {
  Sampling sampling;
  ROOST_ASSIGN_OR_RETURN(sampling.temperature, ReadTemperature(in.getTemperature()));
  ROOST_ASSIGN_OR_RETURN(sampling.top_p, ReadTopP(in.getTopP()));
  sampling.top_k = in.getTopK();
  sampling.seed = in.getSeed();
  ROOST_ASSIGN_OR_RETURN(sampling.min_p, ReadBetween(in.getMinP(), 0, 1, "minP"));
  ROOST_ASSIGN_OR_RETURN(sampling.repetition_penalty, ReadRepetitionPenalty(in.getRepetitionPenalty()));
  ROOST_ASSIGN_OR_RETURN(sampling.presence_penalty,
                         ReadBetween(in.getPresencePenalty(), -kMaxPenalty, kMaxPenalty, "presencePenalty"));
  ROOST_ASSIGN_OR_RETURN(sampling.frequency_penalty,
                         ReadBetween(in.getFrequencyPenalty(), -kMaxPenalty, kMaxPenalty, "frequencyPenalty"));
  ROOST_ASSIGN_OR_RETURN(sampling.logit_bias, ReadLogitBias(in.getLogitBias()));
  return sampling;
}

}  // namespace roost::wire
