// Reads the rotary position embedding from config.json: rope_theta at the top and rope_scaling beside it, or everything
// in rope_parameters, as in newer files. A key that would change the numbers and is not known is an Error that names
// it.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "worker/model/json_file.h"
#include "worker/model/rope.h"

namespace roost::worker {

inline constexpr std::uint32_t kMaxPositions = 1U << 26U;  // the longest context that is accepted

// `max_positions` is max_position_embeddings.
[[nodiscard]] Result<RopeConfig> ParseRopeConfig(const JsonObject& config, std::uint32_t max_positions);

// The context of a model: `max_positions`, or the length to which YaRN stretches the original context if that is
// longer. Files of models that got YaRN later keep their old max_position_embeddings.
[[nodiscard]] std::uint32_t ScaledPositions(const RopeConfig& rope, std::uint32_t max_positions);

}  // namespace roost::worker
