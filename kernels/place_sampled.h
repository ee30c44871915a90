// tokens[places[i].index] = sampled[places[i].draw].token: drawn tokens go into the next batch without passing through
// the host.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/device.h"
#include "kernels/sample.h"

namespace roost::kernels {

struct SampledPlace {
  std::uint32_t index = 0;  // of a token of the batch; each index at most once
  std::uint32_t draw = 0;
};

struct PlaceSampledArgs {
  const SampledToken* sampled = nullptr;
  const SampledPlace* places = nullptr;  // [place_count]
  std::uint32_t place_count = 0;
  TokenId* tokens = nullptr;
};

void PlaceSampledCpu(Device& device, const PlaceSampledArgs& args);
void PlaceSampledCuda(Device& device, const PlaceSampledArgs& args);

}  // namespace roost::kernels
