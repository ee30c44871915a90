#include <algorithm>
#include <cstring>

#include "kernels/cpu/matmul_cpu.h"

namespace roost::kernels {

std::uint32_t OutputsOf(const PrepareMatmulArgs& args) {
  std::uint32_t outputs = 0;
  for (const MatmulPart& part : args.parts) outputs += part.outputs;
  return outputs;
}

void ConvertRows(const PrepareMatmulArgs& args, std::uint32_t first, std::uint32_t count, std::byte* to) {
  const std::size_t inputs = args.inputs;
  std::uint32_t part_first = 0;
  for (const MatmulPart& part : args.parts) {
    const std::uint32_t begin = std::max(first, part_first);
    const std::uint32_t end = std::min(first + count, part_first + part.outputs);
    for (std::uint32_t row = begin; row < end; ++row) {
      const std::size_t source = (row - part_first) * inputs;
      std::byte* row_to = to + (row - first) * inputs * SizeOf(args.compute_dtype);
      if (part.dtype == args.compute_dtype) {
        const std::size_t size = SizeOf(part.dtype);
        std::memcpy(row_to, static_cast<const std::byte*>(part.weight) + source * size, inputs * size);
        continue;
      }
      for (std::size_t i = 0; i < inputs; ++i) {
        StoreElement(row_to, args.compute_dtype, i, LoadElement(part.weight, part.dtype, source + i));
      }
    }
    part_first += part.outputs;
  }
}

std::vector<float> StackedBias(const PrepareMatmulArgs& args) {
  std::vector<float> bias;
  const auto has_none = [](const MatmulPart& part) { return part.bias == nullptr; };
  if (std::all_of(args.parts.begin(), args.parts.end(), has_none)) return bias;
  for (const MatmulPart& part : args.parts) {
    for (std::size_t i = 0; i < part.outputs; ++i) {
      bias.push_back(part.bias != nullptr ? LoadElement(part.bias, part.dtype, i) : 0);
    }
  }
  return bias;
}

}  // namespace roost::kernels
