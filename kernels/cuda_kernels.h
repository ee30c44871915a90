// The kernels of the CUDA backend, file by file: brings their code to the device. The driver loads a kernel when it is
// first asked for, and may wait for the device then, which may wait for another rank in a collective op, or be
// recorded: so all are loaded when the device is opened.
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
