// Doubles of CUDA's runtime, cuBLASLt and NCCL, as far as the host side of the CUDA backend calls them: devices that
// compute nothing but moves of blocks, and that complete, hang and fail as a test says. Linked instead of the
// libraries, also with the kernels' objects as nvcc makes them: a launch is checked against a device's limits, and
// noted.
//
// A stream is a queue (late_device.h), and waits for events of others. Copies and moves of blocks end at once, or,
// after EndLate, as late as they may and in any order; until then what they fill holds NaN. One thread at a time.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace roost::fake_cuda {

inline constexpr int kDevices = 3;

// Resets all devices: idle, working, with 227 KiB of shared memory per block.
void Reset();

// Work that begins on the device from now on does not end until GoOn. A wait gives up after some seconds, so that a
// test that would hang fails.
void Hang(int device);
void GoOn(int device);
// From now on each call that checks the device returns this error.
void Fail(int device, cudaError_t error);
// From now on this function returns this error; "cudaLaunchKernel" is a launch by <<<>>>.
void FailCalls(std::string_view function, cudaError_t error);
void SetSharedBytes(int device, std::size_t bytes);
// The shared memory that every kernel declares, and how much more a launch of this kernel may use.
void SetDeclaredShared(std::size_t bytes);
[[nodiscard]] std::size_t AllowedShared(const void* kernel);
// The asynchronous error of a rank's communicator.
void FailCommunicator(int rank, ncclResult_t error);

// From now on cuBLASLt's algorithms accept only the number of rows that they were found for.
void TakeOnlyPlannedRows();
// cuBLASLt names so many algorithms from now on, as far as they are asked for; one run of each takes that long. The
// default is one.
void SetAlgorithms(std::vector<float> milliseconds);
// The number of the algorithm of the latest product.
[[nodiscard]] std::size_t LastAlgorithm();
// The number of calls of cublasLtMatmul, including refused ones.
[[nodiscard]] int ProductsTried();
// The scheme by which the latest product adds its parts; a product is cut along K if possible.
[[nodiscard]] cublasLtReductionScheme_t LastReduction();
// A launch as a device got it. A product has the name cublasLtMatmul and no size.
struct Launch {
  std::string kernel;  // mangled
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  // dynamic
};
// The launches that the device ran so far, including those of graphs, in order. Launches that are being captured do not
// run.
[[nodiscard]] const std::vector<Launch>& Launched(int device);
// All kernels of the program, and those whose attributes were asked for since Reset, which loads their code.
[[nodiscard]] std::set<std::string> Kernels();
[[nodiscard]] std::set<std::string> LoadedKernels();
// Graphs and executable graphs that were not destroyed, and uploads of executable ones since Reset.
struct GraphCounts {
  int graphs = 0;
  int executables = 0;
  int uploads = 0;
};
[[nodiscard]] GraphCounts CountsOfGraphs();

// From now on, until Reset, everything ends late. LateStreams::All() draws the order.
void EndLate();
// Faults that the double then has.
enum class Fault { kNone, kStreamsDoNotWait, kEventsAreNotAwaited };
void Plant(Fault fault);
// The calls so far that begin, await or order work, of all devices, by name.
[[nodiscard]] std::map<std::string, int> CallCounts();
// The bytes of the longest copy.
[[nodiscard]] std::size_t LongestCopy();

// The number of calls of cudaMalloc, cudaMallocHost and cudaHostAlloc.
[[nodiscard]] int Allocations();

}  // namespace roost::fake_cuda
