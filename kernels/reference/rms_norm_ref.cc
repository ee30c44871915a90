#include <cmath>

#include "kernels/rms_norm.h"

namespace roost::kernels {

void RmsNormRef(Device& /*device*/, const RmsNormArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t source = (args.row_indices != nullptr ? args.row_indices[r] : r) * std::size_t{args.width};
    float* hidden = args.hidden + source;
    double sum = 0;
    for (std::size_t i = 0; i < args.width; ++i) {
      if (args.delta != nullptr) hidden[i] += LoadElement(args.delta, args.delta_dtype, source + i);
      sum += double{hidden[i]} * hidden[i];
    }
    const double scale = 1 / std::sqrt(sum / args.width + args.epsilon);
    for (std::size_t i = 0; i < args.width; ++i) {
      const double value = hidden[i] * scale * args.weight[i];
      StoreElement(args.out, args.out_dtype, r * args.width + i, static_cast<float>(value));
    }
  }
}

}  // namespace roost::kernels
