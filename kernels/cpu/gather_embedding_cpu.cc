#include "kernels/gather_embedding.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_parallel.h"

namespace roost::kernels {
namespace {

template <float (*Widen)(std::uint16_t)>
void WidenRow(const void* table, std::size_t first, std::size_t width, float* out) {
  const std::uint16_t* row = static_cast<const std::uint16_t*>(table) + first;
  for (std::size_t i = 0; i < width; ++i) out[i] = Widen(row[i]);
}

void GatherRow(const GatherEmbeddingArgs& args, std::size_t r) {
  const std::uint32_t table_row = TableRowOf(args, args.tokens[r]);
  const std::size_t first = table_row * std::size_t{args.width};
  float* out = args.out + r * args.width;
  if (table_row >= args.token_count) {
    std::fill_n(out, args.width, 0.0F);
    return;
  }
  switch (args.table_dtype) {
    case DType::kF32:
      std::memcpy(out, static_cast<const float*>(args.table) + first, args.width * sizeof(float));
      return;
    case DType::kBF16: WidenRow<BF16ToFloat>(args.table, first, args.width, out); return;
    case DType::kF16: WidenRow<F16ToFloat>(args.table, first, args.width, out); return;
  }
}

}  // namespace

void GatherEmbeddingCpu(Device& device, const GatherEmbeddingArgs& args) {
  ParallelRows(CpuDevice::Of(device), args.rows, args.width, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t r = begin; r < end; ++r) GatherRow(args, r);
  });
}

}  // namespace roost::kernels
