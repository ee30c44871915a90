// Frequencies of the rotary position embedding, with the scaling of Llama 3.1.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace roost::worker {

// Llama 3.1's: long wavelengths are stretched by `factor`, short ones kept, those between blended.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};

struct RopeConfig {
  double theta = 10000;
  std::optional<Llama3Scaling> llama3;
};

// Angle per position of each pair of elements: [head_dim/2]. Computed in f32 where Hugging Face transformers does.
[[nodiscard]] std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim);

}  // namespace roost::worker
