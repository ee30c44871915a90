#include "kernels/place_sampled.h"

namespace roost::kernels {

void PlaceSampledCpu(Device& /*device*/, const PlaceSampledArgs& args) {
  for (std::uint32_t i = 0; i < args.place_count; ++i) {
    args.tokens[args.places[i].index] = args.sampled[args.places[i].draw].token;
  }
}

}  // namespace roost::kernels
