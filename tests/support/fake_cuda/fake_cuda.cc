#include "tests/support/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/nccl_library.h"
#include "tests/support/fake_cuda/fake_streams.h"

// The handle types, which the headers only declare.
struct CUstream_st {
  int device;
  roost::testing_support::LateStreams::Stream* queue = roost::testing_support::LateStreams::All().Open();
};
struct CUevent_st {
  int device;
  bool hangs;  // the work before it hangs
  float at;    // milliseconds that products took before it
  bool is_captured = false;
  cudaStream_t stream = nullptr;  // null: not recorded yet
  std::uint64_t mark = 0;         // what the stream had been given before it
};
struct CUgraph_st {
  std::vector<roost::fake_cuda::Launch> launches;
};
struct CUgraphExec_st {
  std::vector<roost::fake_cuda::Launch> launches;
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
  std::vector<Launch> recorded;
  std::vector<Launch> launched;
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
std::map<std::string, cudaError_t, std::less<>> failing_calls;
std::set<const void*> loaded_kernels;
cudaError_t last_error = cudaSuccess;
GraphCounts graph_counts;
Launch configuration;  // of the next launch by <<<>>>
cudaStream_t configured_stream = nullptr;
cublasLtReductionScheme_t last_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
Fault planted = Fault::kNone;
std::map<std::string, int> call_counts;
std::size_t longest_copy = 0;

State& Current() { return devices[static_cast<std::size_t>(current_device)]; }
State& Of(int device) { return devices[static_cast<std::size_t>(device)]; }

// Kernels register before static objects of other files exist.
std::map<const void*, std::string>& Registered() {
  static std::map<const void*, std::string> kernels;
  return kernels;
}

cudaError_t StatusOf(std::string_view function, int device) {
  const auto found = failing_calls.find(function);
  return found != failing_calls.end() ? found->second : Of(device).error;
}

// A call that a thread must not make while it captures spoils the recording.
cudaError_t SpoilRecording(int device) {
  if (!Of(device).recording) return cudaSuccess;
  Of(device).recording_broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

void Take(int device, const Launch& launch) {
  State& state = Of(device);
  (state.recording ? state.recorded : state.launched).push_back(launch);
}

bool IsWithinLimits(const void* kernel, const Launch& launch) {
  constexpr unsigned kMaxGridYZ = 65535;
  constexpr unsigned kMaxThreads = 1024;
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  return launch.grid.x > 0 && launch.grid.y > 0 && launch.grid.z > 0 && launch.grid.y <= kMaxGridYZ &&
         launch.grid.z <= kMaxGridYZ && threads > 0 && threads <= kMaxThreads &&
         launch.shared_bytes <= AllowedShared(kernel);
}

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

cudaError_t Allocate(std::string_view function, void** memory, std::size_t bytes) {
  if (const cudaError_t spoilt = SpoilRecording(current_device); spoilt != cudaSuccess) return spoilt;
  if (const cudaError_t status = StatusOf(function, current_device); status == cudaErrorMemoryAllocation) {
    return last_error = status;
  }
  ++allocations;
  *memory = std::malloc(bytes);
  return Current().error;
}

// Waits for the whole device.
cudaError_t Free(void* memory) {
  Queues().RunAll();
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
  failing_calls.clear();
  loaded_kernels.clear();
  last_error = cudaSuccess;
  graph_counts = {};
  ends_late = false;
  planted = Fault::kNone;
  call_counts.clear();
  longest_copy = 0;
}
void EndLate() { ends_late = true; }
void Plant(Fault fault) { planted = fault; }
std::map<std::string, int> CallCounts() { return call_counts; }
std::size_t LongestCopy() { return longest_copy; }
void Hang(int device) {
  Of(device).hangs = true;
  Of(device).hangs_since = std::chrono::steady_clock::now();
}
void GoOn(int device) { Of(device).hangs = false; }
void Fail(int device, cudaError_t error) { Of(device).error = error; }
void FailCalls(std::string_view function, cudaError_t error) { failing_calls[std::string(function)] = error; }
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
const std::vector<Launch>& Launched(int device) { return Of(device).launched; }
std::set<std::string> Kernels() {
  std::set<std::string> names;
  for (const auto& [kernel, name] : Registered()) names.insert(name);
  return names;
}
std::set<std::string> LoadedKernels() {
  std::set<std::string> names;
  for (const void* kernel : loaded_kernels) names.insert(Registered()[kernel]);
  return names;
}
GraphCounts CountsOfGraphs() { return graph_counts; }
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
using roost::fake_cuda::graph_counts;
using roost::fake_cuda::Of;
using roost::fake_cuda::SpoilRecording;
using roost::fake_cuda::StatusOf;
using roost::fake_cuda::Take;

// ---- devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  *count = roost::fake_cuda::kDevices;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
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
cudaError_t cudaGetLastError() { return std::exchange(roost::fake_cuda::last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    default: return "another error";
  }
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  roost::fake_cuda::loaded_kernels.insert(kernel);
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

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return roost::fake_cuda::Allocate("cudaMalloc", memory, bytes);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return roost::fake_cuda::Allocate("cudaMallocHost", memory, bytes);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  if (flags != cudaHostAllocPortable) return cudaErrorInvalidValue;
  return roost::fake_cuda::Allocate("cudaHostAlloc", memory, bytes);
}
cudaError_t cudaFree(void* memory) { return roost::fake_cuda::Free(memory); }
cudaError_t cudaFreeHost(void* memory) { return roost::fake_cuda::Free(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = std::size_t{1} << 30U;
  return Current().error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  ++roost::fake_cuda::call_counts["cudaMemsetAsync"];
  // The memory may be none of the double's.
  if (roost::fake_cuda::ends_late) {
    roost::fake_cuda::Add(stream->queue, {}, [memory, value, bytes] { std::memset(memory, value, bytes); });
  }
  return Of(stream->device).error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  ++roost::fake_cuda::call_counts["cudaMemcpyAsync"];
  roost::fake_cuda::longest_copy = std::max(roost::fake_cuda::longest_copy, bytes);
  if (bytes > 0)
    roost::fake_cuda::Add(stream->queue, {{.memory = to, .width = bytes}}, [=] { std::memcpy(to, from, bytes); });
  return StatusOf("cudaMemcpyAsync", stream->device);
}
// Copies only late: products and collective ops have memory that the double does not have.
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  ++roost::fake_cuda::call_counts["cudaMemcpy2DAsync"];
  roost::fake_cuda::longest_copy = std::max(roost::fake_cuda::longest_copy, width * height);
  if (roost::fake_cuda::ends_late) {
    roost::fake_cuda::Add(stream->queue, {{.memory = to, .pitch = to_pitch, .width = width, .rows = height}}, [=] {
      for (std::size_t row = 0; row < height; ++row) {
        std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                    static_cast<const std::byte*>(from) + row * from_pitch, width);
      }
    });
  }
  return Of(stream->device).error;
}

// ---- streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = std::make_unique<CUstream_st>(CUstream_st{current_device}).release();
  return Current().error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::unique_ptr<CUstream_st> owned(stream);
  roost::fake_cuda::Queues().Close(stream->queue);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  ++roost::fake_cuda::call_counts["cudaStreamWaitEvent"];
  if (const cudaError_t spoilt = SpoilRecording(stream->device); spoilt != cudaSuccess) return spoilt;
  const bool waits =
      event->stream != nullptr && roost::fake_cuda::planted != roost::fake_cuda::Fault::kStreamsDoNotWait;
  if (waits) roost::fake_cuda::Queues().AddWait(stream->queue, event->stream->queue, event->mark);
  return Of(stream->device).error;
}
// Querying a stream that is being recorded spoils its recording, and a stream may only be used on its own device.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->device != current_device) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t spoilt = SpoilRecording(stream->device); spoilt != cudaSuccess) return spoilt;
  ++roost::fake_cuda::call_counts["cudaStreamQuery"];
  return roost::fake_cuda::Ask(stream->device, true);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++roost::fake_cuda::call_counts["cudaStreamSynchronize"];
  roost::fake_cuda::Queues().Await(stream->queue, roost::fake_cuda::Queues().Mark(stream->queue));
  return roost::fake_cuda::Wait(stream->device, true);
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
  ++roost::fake_cuda::call_counts["cudaEventRecord"];
  event->stream = stream;
  event->mark = roost::fake_cuda::Queues().Mark(stream->queue);
  event->hangs = Of(stream->device).hangs;
  event->at = roost::fake_cuda::products_milliseconds;
  event->is_captured = Of(stream->device).recording;
  return Of(stream->device).error;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = end->at - begin->at;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  ++roost::fake_cuda::call_counts["cudaEventQuery"];
  return roost::fake_cuda::Ask(event->device, event->hangs);
}
// An event that was recorded while its stream is captured never comes.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++roost::fake_cuda::call_counts["cudaEventSynchronize"];
  if (event->stream != nullptr && roost::fake_cuda::planted != roost::fake_cuda::Fault::kEventsAreNotAwaited) {
    roost::fake_cuda::Queues().Await(event->stream->queue, event->mark);
  }
  if (event->is_captured) {
    (void)SpoilRecording(event->device);
    return cudaErrorCapturedEvent;
  }
  return roost::fake_cuda::Wait(event->device, event->hangs);
}

// ---- graphs ----

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  Of(stream->device).recording = true;
  return StatusOf("cudaStreamBeginCapture", stream->device);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  roost::fake_cuda::State& state = Of(stream->device);
  *graph = nullptr;
  state.recording = false;
  if (std::exchange(state.recording_broken, false)) return cudaErrorStreamCaptureInvalidated;
  *graph = std::make_unique<CUgraph_st>(CUgraph_st{std::exchange(state.recorded, {})}).release();
  ++graph_counts.graphs;
  return StatusOf("cudaStreamEndCapture", stream->device);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  const cudaError_t status = StatusOf("cudaGraphInstantiate", current_device);
  if (status != cudaSuccess) return roost::fake_cuda::last_error = status;
  *executable = std::make_unique<CUgraphExec_st>(CUgraphExec_st{graph->launches}).release();
  ++graph_counts.executables;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> owned(graph);
  --graph_counts.graphs;
  return StatusOf("cudaGraphDestroy", current_device);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t /*executable*/, cudaStream_t stream) {
  ++graph_counts.uploads;
  const cudaError_t status = StatusOf("cudaGraphUpload", stream->device);
  if (status != cudaSuccess) roost::fake_cuda::last_error = status;
  return status;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const roost::fake_cuda::Launch& launch : executable->launches) Take(stream->device, launch);
  return StatusOf("cudaGraphLaunch", stream->device);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::unique_ptr<CUgraphExec_st> owned(executable);
  --graph_counts.executables;
  return cudaSuccess;
}

// ---- kernels, as nvcc's code for the host registers and launches them. These functions are in no header for C++ ----

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* /*kernel*/, int /*threads*/,
                                                                   std::size_t /*shared_bytes*/, unsigned /*flags*/) {
  *blocks = 2;
  return Current().error;
}

extern "C" {
void** __cudaRegisterFatBinary(void* /*binary*/) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 1; }  // where nothing is inlined
void __cudaRegisterFunction(void** /*handle*/, const char* function, char* /*device_function*/, const char* name,
                            int /*thread_limit*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*block_size*/,
                            dim3* /*grid_size*/, int* /*warp_size*/) {
  roost::fake_cuda::Registered()[function] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  roost::fake_cuda::configuration = {.kernel = {}, .grid = grid, .block = block, .shared_bytes = shared_bytes};
  roost::fake_cuda::configured_stream = stream;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  *grid = roost::fake_cuda::configuration.grid;
  *block = roost::fake_cuda::configuration.block;
  *shared_bytes = roost::fake_cuda::configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = roost::fake_cuda::configured_stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  ++roost::fake_cuda::call_counts["cudaLaunchKernel"];
  const roost::fake_cuda::Launch launch{
      .kernel = roost::fake_cuda::Registered()[kernel], .grid = grid, .block = block, .shared_bytes = shared_bytes};
  cudaError_t status = StatusOf("cudaLaunchKernel", stream->device);
  if (!roost::fake_cuda::IsWithinLimits(kernel, launch)) status = cudaErrorInvalidConfiguration;
  if (status == cudaSuccess) Take(stream->device, launch);
  if (status == cudaSuccess && launch.kernel.find("MoveBlocksKernel") != std::string::npos) {
    roost::fake_cuda::MoveBlocks(launch, arguments[0], stream->queue);
  }
  return roost::fake_cuda::last_error = status;
}
}

// ---- products: an algorithm works only for the rows and the layout that it was found for. It cuts the sum, and keeps
// its parts in the smallest type among those that are allowed ----

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }
std::size_t cublasLtGetVersion() { return 130'200; }
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
                              std::size_t /*workspace_bytes*/, cudaStream_t stream) {
  ++roost::fake_cuda::products_tried;
  roost::fake_cuda::last_algorithm = algorithm->data[2];
  roost::fake_cuda::products_milliseconds += roost::fake_cuda::algorithm_milliseconds[algorithm->data[2]];
  roost::fake_cuda::last_reduction = static_cast<cublasLtReductionScheme_t>(algorithm->data[1]);
  const bool taken = !roost::fake_cuda::take_only_planned_rows || algorithm->data[0] == b->data[0];
  if (taken) Take(stream->device, {.kernel = "cublasLtMatmul", .grid = {}, .block = {}});
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
