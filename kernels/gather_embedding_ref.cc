#include "kernels/gather_embedding.h"

namespace roost::kernels {

void GatherEmbeddingRef(Device& /*device*/, const GatherEmbeddingArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    for (std::size_t i = 0; i < args.width; ++i) {
      args.out[r * args.width + i] =
          LoadElement(args.table, args.table_dtype, args.tokens[r] * std::size_t{args.width} + i);
    }
  }
}

}  // namespace roost::kernels
