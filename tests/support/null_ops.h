// The op table of a device that computes nothing, so that a step costs only the host's work. It plans like a large CUDA
// device and records like one. It makes copies to the device, from the caller's memory into staging memory; the drawn
// token is always kNullToken.
#pragma once

#include "common/base/ids.h"
#include "kernels/ops.h"

namespace roost::testing_support {

inline constexpr TokenId kNullToken = 7;

// As for a device with 132 multiprocessors.
inline constexpr kernels::AttentionProfile kLargeDeviceProfile{.lane_tiles = {16, 64, 128},
                                                               .partial_step = 16,
                                                               .max_partial_positions = 1U << 31U,
                                                               .read_cost_lanes = 64,
                                                               .item_cost_positions = 64,
                                                               .concurrent_items = 264};

[[nodiscard]] const kernels::OpTable& NullOps();

}  // namespace roost::testing_support
