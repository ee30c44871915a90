#include <cmath>

#include "kernels/silu_mul.h"

namespace roost::kernels {

void SiluMulRef(Device& /*device*/, const SiluMulArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t gate = r * 2 * args.width;
    for (std::size_t i = 0; i < args.width; ++i) {
      const double g = LoadElement(args.gate_up, args.gate_up_dtype, gate + i);
      const double u = LoadElement(args.gate_up, args.gate_up_dtype, gate + args.width + i);
      const double value = g / (1 + std::exp(-g)) * u;
      StoreElement(args.out, args.out_dtype, r * args.width + i, static_cast<float>(value));
    }
  }
}

}  // namespace roost::kernels
