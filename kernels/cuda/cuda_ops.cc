#include "kernels/cuda/cuda_ops.h"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend_module.h"
#include "kernels/cuda/copy_streams_cuda.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"

namespace roost::kernels {
namespace {

Result<Device*> Open(const DeviceOptions& options) {
  ROOST_ASSIGN_OR_RETURN(CudaDevice * device, CudaDevice::Open(options));
  for (const auto load : {LoadAttentionKernels, LoadCopyBlockRowsKernels, LoadGatherEmbeddingKernels,
                          LoadLogprobsKernels, LoadMoveBlocksKernels, LoadPlaceSampledKernels, LoadRmsNormKernels,
                          LoadRopeKernels, LoadSampleKernels, LoadSiluMulKernels}) {
    load(*device);
  }
  return static_cast<Device*>(device);
}

void Close(Device* device) { const std::unique_ptr<CudaDevice> owned(static_cast<CudaDevice*>(device)); }

DType PreferredDType(Device& /*device*/) { return DType::kBF16; }
bool SupportsDType(Device& /*device*/, DType dtype) { return dtype == DType::kBF16; }
DType ActivationDType(Device& /*device*/, DType dtype) { return dtype; }

// Without the algorithms of products: each start measures which are the fastest, so equal cards may choose others.
Arithmetic ArithmeticOf(Device& device) {
  return {.batch_tolerance = kCudaBatchTolerance,
          .name = fmt::format("{}, Roost {}, cuBLASLt {}", CudaDevice::Of(device).card(), ROOST_VERSION_TEXT,
                              cublasLtGetVersion())};
}

void BeginBatch(Device& device, const BatchShape& shape) { CudaDevice::Of(device).BeginBatch(shape); }

void Fail(Device& device, std::string_view call, std::string_view error) {
  CudaDevice::Of(device).Fail(std::string(call).c_str(), std::string(error).c_str());
}

void* Allocate(Device& device, std::size_t bytes) { return CudaDevice::Of(device).Allocate(bytes); }
void Release(Device& device, void* memory) { CudaDevice::Of(device).Release(memory); }
std::optional<MemoryUse> MemoryUseOf(Device& device) { return CudaDevice::Of(device).memory_use(); }
void CopyToDevice(Device& device, void* to, const void* from_host, std::size_t bytes) {
  CudaDevice::Of(device).CopyToDevice(to, from_host, bytes);
}
void Upload(Device& device, void* to, std::span<const HostPiece> pieces) { CudaDevice::Of(device).Upload(to, pieces); }
bool ReserveUploads(Device& device, std::size_t bytes) { return CudaDevice::Of(device).ReserveUploads(bytes); }
void CopyToHost(Device& device, void* to_host, const void* from, std::size_t bytes) {
  CudaDevice::Of(device).CopyToHost(to_host, from, bytes);
}

void BeginReadback(Device& device, const void* from, std::size_t bytes) {
  CudaDevice::Of(device).BeginReadback(from, bytes);
}
void EndReadback(Device& device, void* to_host) { CudaDevice::Of(device).EndReadback(to_host); }

class CudaGraph final : public Recording {
 public:
  explicit CudaGraph(cudaGraphExec_t exec) : exec_(exec) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  [[nodiscard]] cudaGraphExec_t exec() const { return exec_; }

 private:
  cudaGraphExec_t exec_;
};

void BeginRecording(Device& device) { CudaDevice::Of(device).BeginCapture(); }

std::unique_ptr<Recording> EndRecording(Device& device) {
  CudaDevice& cuda = CudaDevice::Of(device);
  const cudaGraph_t graph = cuda.EndCapture();
  cudaGraphExec_t exec = nullptr;
  const bool is_made = cuda.HasMemory(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  cuda.Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  if (!is_made) return nullptr;
  auto recording = std::make_unique<CudaGraph>(exec);
  // Done now, because at the first launch other ranks may be waiting for it.
  if (!cuda.HasMemory(cudaGraphUpload(exec, cuda.stream()), "cudaGraphUpload")) return nullptr;
  return recording;
}

void Replay(Device& device, const Recording& recording) {
  const CudaDevice& cuda = CudaDevice::Of(device);
  cuda.Check(cudaGraphLaunch(static_cast<const CudaGraph&>(recording).exec(), cuda.stream()), "cudaGraphLaunch");
}

Error Unavailable(const char* call, cudaError_t status) {
  return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", call, cudaGetErrorString(status)), "device"};
}

std::string VersionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// A host without a device, or without its driver, is no fault of a call: the reason is told in words.
Error NoDevice(cudaError_t status) {
  int driver = 0;
  int needed = 0;
  const bool is_known = cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&needed) == cudaSuccess;
  if (status == cudaErrorNoDevice) return {ErrorCode::kUnavailable, "the NVIDIA driver finds no GPU here", "device"};
  if (status != cudaErrorInsufficientDriver || !is_known) return Unavailable("cudaGetDeviceCount", status);
  if (driver == 0) return {ErrorCode::kUnavailable, "there is no NVIDIA driver on this host", "device"};
  return {ErrorCode::kUnavailable,
          fmt::format("the NVIDIA driver is too old: it knows CUDA {}, this program needs {}", VersionText(driver),
                      VersionText(needed)),
          "device"};
}

}  // namespace

Result<std::vector<DeviceInfo>> ListCudaDevices() {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    return NoDevice(status);
  }
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    if (const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal); status != cudaSuccess) {
      return Unavailable("cudaGetDeviceProperties", status);
    }
    devices.push_back({.ordinal = static_cast<std::uint32_t>(ordinal),
                       .name = properties.name,
                       .architecture = fmt::format("sm_{}{}", properties.major, properties.minor),
                       .memory_bytes = properties.totalGlobalMem,
                       .unusable = WhyUnusable(LimitsOf(properties))});
  }
  return devices;
}

const OpTable& CudaOps() {
  static constexpr OpTable kOps{
      .name = "cuda",
      .open = Open,
      .close = Close,
      .preferred_dtype = PreferredDType,
      .supports_dtype = SupportsDType,
      .activation_dtype = ActivationDType,
      .arithmetic = ArithmeticOf,
      .begin_batch = BeginBatch,
      .fail = Fail,
      .allocate = Allocate,
      .release = Release,
      .memory_use = MemoryUseOf,
      .copy_to_device = CopyToDevice,
      .upload = Upload,
      .reserve_uploads = ReserveUploads,
      .copy_to_host = CopyToHost,
      .begin_readback = BeginReadback,
      .end_readback = EndReadback,
      .open_copy_streams = OpenCopyStreamsCuda,
      .pin = PinCuda,
      .unpin = UnpinCuda,
      .begin_recording = BeginRecording,
      .end_recording = EndRecording,
      .replay = Replay,
      .check_model = CheckModelCuda,
      .gather_embedding = GatherEmbeddingCuda,
      .rms_norm = RmsNormCuda,
      .prepare_matmul = PrepareMatmulCuda,
      .matmul = MatmulCuda,
      .rope_angles = RopeAnglesCuda,
      .rope_to_cache = RopeToCacheCuda,
      .attention_profile = AttentionProfileCuda,
      .attention = AttentionCuda,
      .silu_mul = SiluMulCuda,
      .copy_block_rows = CopyBlockRowsCuda,
      .scatter_blocks = ScatterBlocksCuda,
      .sample = SampleCuda,
      .logprobs = LogprobsCuda,
      .place_sampled = PlaceSampledCuda,
      .connect = ConnectCuda,
      .all_reduce = AllReduceCuda,
      .gather_columns = GatherColumnsCuda,
      .broadcast = BroadcastCuda,
  };
  return kOps;
}

}  // namespace roost::kernels

extern "C" __attribute__((visibility("default"))) const roost::kernels::BackendModule* RoostBackendModule() {
  static const roost::kernels::BackendModule module{.version = ROOST_VERSION_TEXT,
                                                    .ops = &roost::kernels::CudaOps(),
                                                    .list_devices = roost::kernels::ListCudaDevices};
  return &module;
}
