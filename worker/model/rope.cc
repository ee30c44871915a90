#include "worker/model/rope.h"

#include <cmath>
#include <numbers>

namespace roost::worker {
namespace {

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

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim) {
  std::vector<float> frequencies;
  for (std::uint32_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float frequency = 1 / std::pow(static_cast<float>(config.theta), exponent);
    frequencies.push_back(config.llama3 ? Scaled(frequency, *config.llama3) : frequency);
  }
  return frequencies;
}

}  // namespace roost::worker
