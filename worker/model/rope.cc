#include "worker/model/rope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace roost::worker {
namespace {

using Frequencies = std::vector<float>;

void Scale(std::monostate /*none*/, const RopeConfig& /*config*/, Frequencies& /*frequencies*/) {}

void Scale(const LinearScaling& scaling, const RopeConfig& /*config*/, Frequencies& frequencies) {
  for (float& frequency : frequencies) frequency /= static_cast<float>(scaling.factor);
}

float Scaled(float frequency, const Llama3Scaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / double{frequency};
  const double longest_kept = scaling.original_max_positions / scaling.high_freq_factor;
  const double shortest_stretched = scaling.original_max_positions / scaling.low_freq_factor;
  if (wavelength < longest_kept) return frequency;
  const double stretched = double{frequency} / scaling.factor;
  if (wavelength > shortest_stretched) return static_cast<float>(stretched);
  const double kept_share = (scaling.original_max_positions / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
  return static_cast<float>((1 - kept_share) * stretched + kept_share * double{frequency});
}

void Scale(const Llama3Scaling& scaling, const RopeConfig& /*config*/, Frequencies& frequencies) {
  for (float& frequency : frequencies) frequency = Scaled(frequency, scaling);
}

// The index of the element, as a real number, whose pair turns this many times in the original context.
double ElementThatTurns(double times, const YarnScaling& scaling, double theta, std::size_t head_dim) {
  return static_cast<double>(head_dim) * std::log(scaling.original_max_positions / (times * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

void Scale(const YarnScaling& scaling, const RopeConfig& config, Frequencies& frequencies) {
  const std::size_t head_dim = 2 * frequencies.size();
  double kept_to = ElementThatTurns(scaling.beta_fast, scaling, config.theta, head_dim);
  double stretched_from = ElementThatTurns(scaling.beta_slow, scaling, config.theta, head_dim);
  if (scaling.bounds == YarnBounds::kWholeElements) {
    kept_to = std::floor(kept_to);
    stretched_from = std::ceil(stretched_from);
  }
  kept_to = std::max(kept_to, 0.0);
  stretched_from = std::min(stretched_from, static_cast<double>(head_dim - 1));
  if (kept_to == stretched_from) stretched_from += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp =
        (static_cast<float>(i) - static_cast<float>(kept_to)) / static_cast<float>(stretched_from - kept_to);
    const float kept_share = 1 - std::clamp(ramp, 0.0F, 1.0F);
    const float stretched = frequencies[i] / static_cast<float>(scaling.factor);
    frequencies[i] = stretched * (1 - kept_share) + frequencies[i] * kept_share;
  }
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim) {
  Frequencies frequencies;
  for (std::uint32_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    frequencies.push_back(1 / std::pow(static_cast<float>(config.theta), exponent));
  }
  std::visit([&](const auto& scaling) { Scale(scaling, config, frequencies); }, config.scaling);
  return frequencies;
}

double ScoreFactor(const RopeConfig& config) {
  const auto* yarn = std::get_if<YarnScaling>(&config.scaling);
  return yarn != nullptr ? yarn->attention_factor * yarn->attention_factor : 1;
}

}  // namespace roost::worker
