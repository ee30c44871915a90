// Loads the code of the CUDA backend's kernels, file by file. Otherwise the driver would load a kernel at its first
// use, and may then wait for the device, which may be waiting for another rank in a collective op, or be recording. So
// all kernels are loaded when the device is opened.
#pragma once

#include "kernels/device.h"

namespace roost::kernels {

void LoadAttentionKernels(Device& device);
void LoadCopyBlockRowsKernels(Device& device);
void LoadGatherEmbeddingKernels(Device& device);
void LoadLogprobsKernels(Device& device);
void LoadMoveBlocksKernels(Device& device);
void LoadPlaceSampledKernels(Device& device);
void LoadRmsNormKernels(Device& device);
void LoadRopeKernels(Device& device);
void LoadSampleKernels(Device& device);
void LoadSiluMulKernels(Device& device);

}  // namespace roost::kernels
