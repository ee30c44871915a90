// The CUDA backend's CopyStreams, pinned memory for it, and its gather.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "kernels/copy_streams.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/move_blocks.h"

namespace roost::kernels {

// Null when memory is short.
[[nodiscard]] std::unique_ptr<CopyStreams> OpenCopyStreamsCuda(Device& device);

// Pinned memory of the host for all devices; null when memory is short.
[[nodiscard]] void* PinCuda(Device& device, std::size_t bytes);
void UnpinCuda(void* memory);

// Begins it behind what the stream was given; see move_blocks.h.
[[nodiscard]] cudaError_t GatherBlocksOn(cudaStream_t stream, const MoveBlocksArgs& args);

}  // namespace roost::kernels
