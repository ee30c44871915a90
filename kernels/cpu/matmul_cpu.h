// The interface that the CPU's two kinds of products share. oneDNN packs weights of a dtype that it computes in; see
// matmul_cpu.cc. On a CPU without bf16 instructions, bf16 weights are panels; see matmul_panels_cpu.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/matmul.h"

namespace roost::kernels {

class CpuMatmulWeights : public MatmulWeights {
 public:
  // args.weights are these weights, and args.rows is not 0.
  virtual void Multiply(CpuDevice& device, const MatmulArgs& args) const = 0;

 protected:
  using MatmulWeights::MatmulWeights;
};

// For any CPU; the compute dtype is kBF16.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PreparePanels(CpuDevice& device, const PrepareMatmulArgs& args);

// The outputs of all parts together.
[[nodiscard]] std::uint32_t OutputsOf(const PrepareMatmulArgs& args);

// Rows first … first + count - 1 of the stacked parts, in the compute dtype.
void ConvertRows(const PrepareMatmulArgs& args, std::uint32_t first, std::uint32_t count, std::byte* to);

// The bias of all parts, or empty if none has one.
[[nodiscard]] std::vector<float> StackedBias(const PrepareMatmulArgs& args);

}  // namespace roost::kernels
