#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/large_memory.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/ops.h"

namespace roost::kernels {

CpuDevice::CpuDevice(std::uint32_t thread_count, std::function<void(std::uint32_t)> on_threads)
    : scratch_(thread_count),
      matmul_kernels_(std::make_unique<MatmulKernelCache>(thread_count)),
      pool_(thread_count, [] { omp_set_num_threads(1); }) {
  if (on_threads != nullptr && thread_count > 1) watch_.emplace(pool_, std::move(on_threads));
}

CpuDevice::~CpuDevice() = default;

void CpuDevice::BeginBatch(const BatchShape& batch) {
  batch_ = batch;
  if (watch_) watch_->Look(SteadyClock().Now());
}

void CpuDevice::FreeDeleter::operator()(float* memory) const { std::free(memory); }

float* CpuDevice::Scratch(std::uint32_t thread, std::size_t floats) {
  Buffer& buffer = scratch_[thread];
  if (buffer.floats < floats) {
    const std::size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
    buffer.memory.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    ROOST_CHECK(buffer.memory != nullptr, "no memory for {} bytes of scratch", bytes);
    buffer.floats = bytes / sizeof(float);
  }
  return buffer.memory.get();
}

namespace {

constexpr std::uint32_t kMaxThreads = 1024;

Result<Device*> Open(const DeviceOptions& options) {
  if (options.thread_count == 0 || options.thread_count > kMaxThreads) {
    return InvalidArgument("threads", "must be 1 to {}, is {}", kMaxThreads, options.thread_count);
  }
  if (options.ordinal != 0) return InvalidArgument("device", "the CPU is device 0, there is no {}", options.ordinal);
  return static_cast<Device*>(std::make_unique<CpuDevice>(options.thread_count, options.on_threads).release());
}

void Close(Device* device) { const std::unique_ptr<CpuDevice> owned(static_cast<CpuDevice*>(device)); }

void BeginBatch(Device& device, const BatchShape& shape) { CpuDevice::Of(device).BeginBatch(shape); }

void Fail(Device& device, std::string_view call, std::string_view error) {
  EndOnDeviceFailure({.call = call, .error = error, .device = "cpu", .batch = CpuDevice::Of(device).batch()});
}

void* Allocate(Device& /*device*/, std::size_t bytes) { return AllocateLarge(bytes); }

void Release(Device& /*device*/, void* memory) { FreeLarge()(memory); }

Result<void> CheckModel(Device& /*device*/, const ModelDims& model) {
  if (model.vocab_size <= kMaxSampledVocab) return {};
  return InvalidArgument("vocab_size", "the CPU draws from at most {} tokens, not from {}", kMaxSampledVocab,
                         model.vocab_size);
}

std::optional<MemoryUse> MemoryUseOf(Device& /*device*/) { return std::nullopt; }

void Copy(Device& /*device*/, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Upload(Device& /*device*/, void* to, std::span<const HostPiece> pieces) { Gather(pieces, to); }

bool ReserveUploads(Device& /*device*/, std::size_t /*bytes*/) { return true; }

void BeginReadback(Device& device, const void* from, std::size_t bytes) {
  CpuDevice::Of(device).readbacks().Begin(from, bytes);
}

void EndReadback(Device& device, void* to) { CpuDevice::Of(device).readbacks().End(to); }

// CPUs without bf16 instructions widen bf16 in registers: a step then still reads half the bytes of f32.
DType PreferredDType(Device& /*device*/) { return DType::kBF16; }
bool SupportsDType(Device& /*device*/, DType dtype) { return dtype != DType::kF16; }

DType ActivationDType(Device& /*device*/, DType /*dtype*/) { return DType::kF32; }

// Equal inputs give equal bits in any batch. The tolerance is for K and V that another processor computed.
Arithmetic ArithmeticOf(Device& /*device*/) { return {}; }

DType ReferencePreferredDType(Device& /*device*/) { return DType::kF32; }

}  // namespace

const OpTable& CpuOps() {
  static constexpr OpTable kOps{
      .name = "cpu",
      .has_host_memory = true,
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
      .copy_to_device = Copy,
      .upload = Upload,
      .reserve_uploads = ReserveUploads,
      .copy_to_host = Copy,
      .begin_readback = BeginReadback,
      .end_readback = EndReadback,
      .check_model = CheckModel,
      .gather_embedding = GatherEmbeddingCpu,
      .rms_norm = RmsNormCpu,
      .prepare_matmul = PrepareMatmulCpu,
      .matmul = MatmulCpu,
      .rope_angles = RopeAnglesCpu,
      .rope_to_cache = RopeToCacheCpu,
      .attention_profile = AttentionProfileCpu,
      .attention = AttentionCpu,
      .silu_mul = SiluMulCpu,
      .copy_block_rows = CopyBlockRowsCpu,
      .scatter_blocks = ScatterBlocksCpu,
      .sample = SampleCpu,
      .logprobs = LogprobsCpu,
      .place_sampled = PlaceSampledCpu,
      .connect = ConnectCpu,
      .all_reduce = AllReduceCpu,
      .gather_columns = GatherColumnsCpu,
      .broadcast = BroadcastCpu,
  };
  return kOps;
}

const OpTable& ReferenceOps() {
  static constexpr OpTable kOps{
      .name = "reference",
      .has_host_memory = true,
      .open = Open,
      .close = Close,
      .preferred_dtype = ReferencePreferredDType,
      .supports_dtype = SupportsDType,
      .activation_dtype = ActivationDType,
      .arithmetic = ArithmeticOf,
      .begin_batch = BeginBatch,
      .fail = Fail,
      .allocate = Allocate,
      .release = Release,
      .memory_use = MemoryUseOf,
      .copy_to_device = Copy,
      .upload = Upload,
      .reserve_uploads = ReserveUploads,
      .copy_to_host = Copy,
      .begin_readback = BeginReadback,
      .end_readback = EndReadback,
      .check_model = CheckModel,
      .gather_embedding = GatherEmbeddingRef,
      .rms_norm = RmsNormRef,
      .prepare_matmul = PrepareMatmulRef,
      .matmul = MatmulRef,
      .rope_angles = RopeAnglesRef,
      .rope_to_cache = RopeToCacheRef,
      .attention_profile = AttentionProfileCpu,
      .attention = AttentionRef,
      .silu_mul = SiluMulRef,
      .copy_block_rows = CopyBlockRowsCpu,
      .scatter_blocks = ScatterBlocksCpu,
      .sample = SampleRef,
      .logprobs = LogprobsRef,
      .place_sampled = PlaceSampledCpu,
      .connect = ConnectCpu,
      .all_reduce = AllReduceCpu,
      .gather_columns = GatherColumnsCpu,
      .broadcast = BroadcastCpu,
  };
  return kOps;
}

}  // namespace roost::kernels
