#include "kernels/gather_embedding.h"

namespace roost::kernels {

void GatherEmbeddingRef(Device& /*device*/, const GatherEmbeddingArgs& args) {
  for (std::size_t r = 0; r < args.rows; ++r) {
    const std::size_t row = TableRowOf(args, args.tokens[r]);
    for (std::size_t i = 0; i < args.width; ++i) {
      args.out[r * args.width + i] =
          row < args.token_count ? LoadElement(args.table, args.table_dtype, row * args.width + i) : 0;
    }
  }
}

}  // namespace roost::kernels
