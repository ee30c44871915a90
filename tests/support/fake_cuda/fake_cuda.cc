#include "tests/support/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "kernels/nccl_library.h"

// The handle types, which the headers only declare.
struct CUstream_st {
  int device;
};
struct CUevent_st {
  int device;
  bool hangs;  // the work before it hangs
  float at;    // milliseconds that products took before it
};
struct ncclComm {
  int rank;
  ncclResult_t state;
};

namespace roost::fake_cuda {
namespace {

constexpr std::chrono::seconds kPatience{5};

struct State {
  bool hangs = false;
  bool recording = false;
  bool recording_broken = false;
  cudaError_t error = cudaSuccess;
  std::size_t shared_bytes = std::size_t{227} * 1024;
  std::chrono::steady_clock::time_point hangs_since;
};

std::array<State, kDevices> devices;
std::array<ncclComm, kDevices> communicators;
int current_device = 0;
bool take_only_planned_rows = false;
int products_tried = 0;
std::vector<float> algorithm_milliseconds{1};
std::size_t last_algorithm = 0;
float products_milliseconds = 0;
int allocations = 0;
std::size_t declared_shared = 0;
std::map<const void*, std::size_t> allowed_shared;
cublasLtReductionScheme_t last_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;

State& Current() { return devices[static_cast<std::size_t>(current_device)]; }
State& Of(int device) { return devices[static_cast<std::size_t>(device)]; }

cudaError_t Ask(int device, bool hangs) {
  const State& state = Of(device);
  if (state.error != cudaSuccess) return state.error;
  const bool patient = std::chrono::steady_clock::now() - state.hangs_since < kPatience;
  return hangs && state.hangs && patient ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t Wait(int device, bool hangs) {
  cudaError_t status = Ask(device, hangs);
  while (status == cudaErrorNotReady) status = Ask(device, hangs);
  return status;
}

cudaError_t Allocate(void** memory, std::size_t bytes) {
  ++allocations;
  *memory = std::malloc(bytes);
  return Current().error;
}

cudaError_t Free(void* memory) {
  std::free(memory);
  return Current().error;
}

ncclResult_t InitAll(ncclComm_t* made, int count, const int* /*ordinals*/) {
  for (int rank = 0; rank < count; ++rank) {
    communicators[static_cast<std::size_t>(rank)] = {rank, ncclSuccess};
    made[rank] = &communicators[static_cast<std::size_t>(rank)];
  }
  return ncclSuccess;
}

}  // namespace

void Reset() {
  devices = {};
  current_device = 0;
  take_only_planned_rows = false;
  products_tried = 0;
  algorithm_milliseconds = {1};
  declared_shared = 0;
  allowed_shared.clear();
}
void Hang(int device) {
  Of(device).hangs = true;
  Of(device).hangs_since = std::chrono::steady_clock::now();
}
void GoOn(int device) { Of(device).hangs = false; }
void Fail(int device, cudaError_t error) { Of(device).error = error; }
void SetSharedBytes(int device, std::size_t bytes) { Of(device).shared_bytes = bytes; }
void FailCommunicator(int rank, ncclResult_t error) { communicators[static_cast<std::size_t>(rank)].state = error; }
void TakeOnlyPlannedRows() { take_only_planned_rows = true; }
void SetDeclaredShared(std::size_t bytes) { declared_shared = bytes; }
std::size_t AllowedShared(const void* kernel) {
  constexpr std::size_t kWithoutAsking = std::size_t{48} * 1024;
  const auto found = allowed_shared.find(kernel);
  return found != allowed_shared.end() ? found->second : kWithoutAsking - declared_shared;
}
cublasLtReductionScheme_t LastReduction() { return last_reduction; }
void SetAlgorithms(std::vector<float> milliseconds) { algorithm_milliseconds = std::move(milliseconds); }
std::size_t LastAlgorithm() { return last_algorithm; }
int ProductsTried() { return products_tried; }
int Allocations() { return allocations; }

}  // namespace roost::fake_cuda

namespace roost::kernels {

Result<NcclLibrary> OpenNccl() {
  NcclLibrary nccl;
  nccl.comm_init_all = fake_cuda::InitAll;
  nccl.comm_destroy = [](ncclComm_t /*communicator*/) { return ncclSuccess; };
  nccl.comm_get_async_error = [](ncclComm_t communicator, ncclResult_t* state) {
    *state = communicator->state;
    return ncclSuccess;
  };
  nccl.get_error_string = [](ncclResult_t status) { return status == ncclSuccess ? "no error" : "an error of NCCL"; };
  nccl.get_last_error = [](ncclComm_t communicator) { return communicator == nullptr ? "" : "told by it"; };
  return nccl;
}

}  // namespace roost::kernels

using roost::fake_cuda::Current;
using roost::fake_cuda::current_device;
using roost::fake_cuda::Of;

// ---- devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  *count = roost::fake_cuda::kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strcpy(properties->name, "Double");
  properties->major = 9;
  properties->multiProcessorCount = 1;
  properties->sharedMemPerBlockOptin = Of(device).shared_bytes;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "another error";
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  attributes->sharedSizeBytes = roost::fake_cuda::declared_shared;
  return Current().error;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const auto bytes = static_cast<std::size_t>(value);
    if (roost::fake_cuda::declared_shared + bytes > Current().shared_bytes) return cudaErrorInvalidValue;
    roost::fake_cuda::allowed_shared[kernel] = bytes;
  }
  return Current().error;
}

// ---- memory ----

cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return roost::fake_cuda::Allocate(memory, bytes); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return roost::fake_cuda::Allocate(memory, bytes); }
cudaError_t cudaFree(void* memory) { return roost::fake_cuda::Free(memory); }
cudaError_t cudaFreeHost(void* memory) { return roost::fake_cuda::Free(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = std::size_t{1} << 30U;
  return Current().error;
}
cudaError_t cudaMemsetAsync(void* /*memory*/, int /*value*/, std::size_t /*bytes*/, cudaStream_t stream) {
  return Of(stream->device).error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return Of(stream->device).error;
}
cudaError_t cudaMemcpy2DAsync(void* /*to*/, std::size_t /*to_pitch*/, const void* /*from*/, std::size_t /*from_pitch*/,
                              std::size_t /*width*/, std::size_t /*height*/, cudaMemcpyKind /*kind*/,
                              cudaStream_t stream) {
  return Of(stream->device).error;
}

// ---- streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = std::make_unique<CUstream_st>(CUstream_st{current_device}).release();
  return Current().error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::unique_ptr<CUstream_st> owned(stream);
  return cudaSuccess;
}
// Querying a stream that is being recorded spoils its recording, and a stream may only be used on its own device.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->device != current_device) return cudaErrorInvalidResourceHandle;
  if (Of(stream->device).recording) {
    Of(stream->device).recording_broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return roost::fake_cuda::Ask(stream->device, true);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return roost::fake_cuda::Wait(stream->device, true); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  Of(stream->device).recording = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  Of(stream->device).recording = false;
  return Of(stream->device).recording_broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = std::make_unique<CUevent_st>(CUevent_st{current_device, false, 0}).release();
  return Current().error;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::unique_ptr<CUevent_st> owned(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->hangs = Of(stream->device).hangs;
  event->at = roost::fake_cuda::products_milliseconds;
  return Of(stream->device).error;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = end->at - begin->at;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return roost::fake_cuda::Ask(event->device, event->hangs); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return roost::fake_cuda::Wait(event->device, event->hangs); }

// ---- products: an algorithm works only for the rows and the layout that it was found for. It cuts the sum, and keeps
// its parts in the smallest type among those that are allowed ----

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) { return "an error of cuBLASLt"; }
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t /*operation*/, std::size_t /*size*/,
                                               cublasComputeType_t /*compute*/, cudaDataType_t /*scale*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t /*operation*/,
                                              cublasLtMatmulDescAttributes_t /*attribute*/, const void* /*value*/,
                                              std::size_t /*size*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t /*size*/,
                                                 cudaDataType /*type*/, std::uint64_t /*rows*/, std::uint64_t columns,
                                                 std::int64_t /*stride*/) {
  layout->data[0] = columns;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t /*size*/) {
  preference->data[0] = CUBLASLT_REDUCTION_SCHEME_MASK;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t size) {
  if (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
  if (size != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  preference->data[0] = *static_cast<const std::uint32_t*>(value);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*operation*/,
                                              cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  using roost::fake_cuda::algorithm_milliseconds;
  *count = std::min(wanted, static_cast<int>(algorithm_milliseconds.size()));
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    std::uint64_t* algorithm = found[i].algo.data;
    algorithm[0] = b->data[0];
    algorithm[1] = CUBLASLT_REDUCTION_SCHEME_NONE;
    algorithm[2] = static_cast<std::uint64_t>(i);
    for (const auto scheme : {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE,
                              CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE}) {
      if ((preference->data[0] & scheme) != 0) algorithm[1] = scheme;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*operation*/, const void* /*alpha*/,
                              const void* /*a_values*/, cublasLtMatrixLayout_t /*a*/, const void* /*b_values*/,
                              cublasLtMatrixLayout_t b, const void* /*beta*/, const void* /*c_values*/,
                              cublasLtMatrixLayout_t /*c*/, void* /*d_values*/, cublasLtMatrixLayout_t /*d*/,
                              const cublasLtMatmulAlgo_t* algorithm, void* /*workspace*/,
                              std::size_t /*workspace_bytes*/, cudaStream_t /*stream*/) {
  ++roost::fake_cuda::products_tried;
  roost::fake_cuda::last_algorithm = algorithm->data[2];
  roost::fake_cuda::products_milliseconds += roost::fake_cuda::algorithm_milliseconds[algorithm->data[2]];
  roost::fake_cuda::last_reduction = static_cast<cublasLtReductionScheme_t>(algorithm->data[1]);
  const bool taken = !roost::fake_cuda::take_only_planned_rows || algorithm->data[0] == b->data[0];
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
