// Reads the rotary position embedding from config.json: rope_theta at the top and rope_scaling beside it, or everything
// in rope_parameters, as in newer files. A key that would change the numbers and is not known is an Error that names
// it.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "worker/model/json_file.h"

namespace roost::worker {

// Frequencies of the rotary position embedding, and the ways in which models stretch them beyond the context that they
// were trained on. Computed in f32 where Hugging Face transformers does.

// Every position is divided by `factor`.
struct LinearScaling {
  double factor = 1;
};

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those in between blended.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};

// Elements whose pairs turn more than beta_fast times in the original context are kept, those that turn less than
// beta_slow times are stretched by `factor`, and those in between are blended by their index.
// Source: Peng et al.: YaRN, 2023.
enum class YarnBounds : std::uint8_t { kWholeElements, kExact };
struct YarnScaling {
  double factor = 1;
  double original_max_positions = 8192;
  double beta_fast = 32;
  double beta_slow = 1;
  YarnBounds bounds = YarnBounds::kWholeElements;
  double attention_factor = 1;  // for q and for k: scores get its square
};

struct RopeConfig {
  double theta = 10000;
  std::variant<std::monostate, LinearScaling, Llama3Scaling, YarnScaling> scaling;
};

// Angle per position of each pair of elements: [head_dim/2].
[[nodiscard]] std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim);

// The factor of the scores in addition to 1/√head_dim. Transformers instead multiplies the sine and cosine of both q
// and k by a number, which is the same up to rounding.
[[nodiscard]] double ScoreFactor(const RopeConfig& config);

inline constexpr std::uint32_t kMaxPositions = 1U << 26U;  // the longest context that is accepted

// `max_positions` is max_position_embeddings.
[[nodiscard]] Result<RopeConfig> ParseRopeConfig(const JsonObject& config, std::uint32_t max_positions);

// The context of a model: `max_positions`, or the length to which YaRN stretches the original context if that is
// longer. Files of models that got YaRN later keep their old max_position_embeddings.
[[nodiscard]] std::uint32_t ScaledPositions(const RopeConfig& rope, std::uint32_t max_positions);

}  // namespace roost::worker
