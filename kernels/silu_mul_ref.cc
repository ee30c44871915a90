#include <cmath>

#include "kernels/silu_mul.h"

namespace roost::kernels {

void SiluMulRef(Device& /*device*/, const SiluMulArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const float* gate = args.gate_up + r * 2 * args.width;
    const float* up = gate + args.width;
    for (std::size_t i = 0; i < args.width; ++i) {
      const double value = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * up[i];
      StoreElement(args.out, args.out_dtype, r * args.width + i, static_cast<float>(value));
    }
  }
}

}  // namespace roost::kernels
