// What the CPU's two kinds of products share. Weights of a dtype that oneDNN computes in are its own; see
// matmul_cpu.cc. Weights in bf16 on a CPU without instructions for it are panels; see matmul_panels_cpu.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "kernels/cpu_device.h"
#include "kernels/matmul.h"

namespace roost::kernels {

class CpuMatmulWeights : public MatmulWeights {
 public:
  // args.weights are these, and there are rows.
  virtual void Multiply(CpuDevice& device, const MatmulArgs& args) const = 0;

 protected:
  using MatmulWeights::MatmulWeights;
};

// Any CPU computes with these; the compute dtype is kBF16.
[[nodiscard]] Result<std::unique_ptr<MatmulWeights>> PreparePanels(CpuDevice& device, const PrepareMatmulArgs& args);

// Of all parts.
[[nodiscard]] std::uint32_t OutputsOf(const PrepareMatmulArgs& args);

// Rows first … first + count - 1 of the stacked parts, in the compute dtype.
void ConvertRows(const PrepareMatmulArgs& args, std::uint32_t first, std::uint32_t count, std::byte* to);

// The bias of all parts, or nothing where none has one.
[[nodiscard]] std::vector<float> StackedBias(const PrepareMatmulArgs& args);

}  // namespace roost::kernels
