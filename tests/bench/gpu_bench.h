// The figures of a CUDA device. Each has a name and is measured separately, so that a failing one does not affect
// others.
//
//   gpu_kernel_figures.cc   the device's limits, and kernels compared with them
//   gpu_model_figures.cc    whole models behind the engine
//   gpu_travel_figures.cc   blocks between the pool and pinned memory, and decodes beside them
//   device_copy.h           the plain copy that other bandwidths are compared with
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tests/bench/bench.h"

namespace roost::bench {

inline constexpr std::uint32_t kGpuBlockTokens = 16;

// The sizes of what is measured.
struct GpuSizes {
  std::size_t copy_bytes = std::size_t{2} << 30U;
  std::uint32_t peak_product = 8192;  // square
  std::uint32_t product_tokens = 4096;
  std::uint32_t divide_widths = 1;  // divides the widths of the 8B shape's products
  std::uint32_t kv_heads = 8;
  std::uint32_t group = 8;  // query heads per kv head
  std::vector<std::uint32_t> decode_batches{1, 64};
  std::vector<std::uint32_t> decode_contexts{1024, 4096, 32768};
  std::size_t decode_kv_bytes = std::size_t{256} << 20U;  // at least, so that no cache holds K and V
  std::uint32_t sharing_requests = 64;
  std::uint32_t prompt_tokens = 8192;  // for prefill attention, a shared prefix and a prefix hit
  int calls = 10;                      // calls without a wait in between per measurement

  std::string large_preset = "llama-3.1-8b";
  std::uint32_t prefill_prompts = 8;
  std::uint32_t prefill_prompt_tokens = 4096;
  std::uint32_t max_batch_tokens = 4096;

  std::string small_preset = "qwen3-0.6b";
  std::uint32_t sequences = 256;
  std::uint32_t least_tokens = 100;  // of a prompt, and of an output
  std::uint32_t most_tokens = 1024;
  std::uint32_t context = 512;       // for decodes that are timed per step
  std::uint32_t decode_steps = 128;  // more than there are steps between the first prompt and the last one
  std::size_t repeats = 5;           // of engine figures

  std::size_t travel_blocks = 2048;     // that are copied for a rate
  std::uint32_t travel_sequences = 64;  // that decode beside copies
  std::uint32_t travel_context = 4096;
};

// Sizes that a shim on the CPU can compute; they run all the same code.
[[nodiscard]] GpuSizes TinyGpuSizes();

// Outlives the figures.
struct GpuUnderTest {
  const kernels::OpTable& ops;
  // Median seconds of a plain copy within the device's memory, or between it and pinned memory; see device_copy.h.
  double (*copy_seconds)(void* to, const void* from, std::size_t bytes);
  GpuSizes sizes;
  Effort effort = Effort::kFull;
};

struct GpuFigure {
  std::string name;
  std::string unit;
  std::function<double()> measure;
};

[[nodiscard]] std::vector<GpuFigure> GpuKernelFigures(const GpuUnderTest& gpu);

// A model is made when the first of its figures is measured, and is kept for the others.
[[nodiscard]] std::vector<GpuFigure> GpuModelFigures(const GpuUnderTest& gpu);
[[nodiscard]] std::vector<GpuFigure> GpuTravelFigures(const GpuUnderTest& gpu);

}  // namespace roost::bench
