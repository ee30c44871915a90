// Doubles of CUDA's run time, cuBLASLt and NCCL, as far as the host side of the CUDA backend calls them: devices that
// compute nothing, and end, hang and fail as a test says. Linked instead of the libraries. One thread at a time.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

namespace roost::fake_cuda {

inline constexpr int kDevices = 3;

// All devices are as new: idle, sound, with 227 KiB of shared memory for a block.
void Reset();

// What is begun on the device from now on does not end until it is told so. A wait gives up after some seconds, so that
// a test that would hang fails.
void Hang(int device);
void GoOn(int device);
// Each call that looks at the device from now on answers this.
void Fail(int device, cudaError_t error);
void SetSharedBytes(int device, std::size_t bytes);
// What every kernel declares of shared memory, and how much more a launch of this one may bring.
void SetDeclaredShared(std::size_t bytes);
[[nodiscard]] std::size_t AllowedShared(const void* kernel);
// The asynchronous error of a rank's communicator.
void FailCommunicator(int rank, ncclResult_t error);

// cuBLASLt's algorithms take no other number of rows than the one that they were found for.
void TakeOnlyPlannedRows();
// Calls of cublasLtMatmul, refused ones too.
[[nodiscard]] int ProductsTried();
// How the latest product, which is cut along K where it may be, adds its parts.
[[nodiscard]] cublasLtReductionScheme_t LastReduction();
// Calls of cudaMalloc and cudaMallocHost.
[[nodiscard]] int Allocations();

}  // namespace roost::fake_cuda
