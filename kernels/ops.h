// The op table: everything that a model asks of a device, one function pointer per op. The CPU has one, and so has a
// shared object for another kind of device, opened at run time. Callers do not know which.
//
// Pointers in an op's arguments are device memory unless its header says host. Ops of one device take effect in the
// order of their calls. An op that fails for good (a lost device) ends the process with one clear line, see
// device.h; when memory is short, a function returns that instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "kernels/arithmetic.h"
#include "kernels/attention.h"
#include "kernels/collective.h"
#include "kernels/copy_block_rows.h"
#include "kernels/copy_streams.h"
#include "kernels/device.h"
#include "kernels/gather_embedding.h"
#include "kernels/host_pieces.h"
#include "kernels/logprobs.h"
#include "kernels/matmul.h"
#include "kernels/memory_use.h"
#include "kernels/model_dims.h"
#include "kernels/move_blocks.h"
#include "kernels/place_sampled.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sample.h"
#include "kernels/silu_mul.h"

namespace roost::kernels {

struct OpTable {
  std::string_view name;  // "cpu", "reference", "cuda"
  // Its memory is the host's, and ops are done when they return: other threads may read what no op writes.
  bool has_host_memory = false;

  Result<Device*> (*open)(const DeviceOptions& options) = nullptr;
  void (*close)(Device* device) = nullptr;  // after all its memory and weights are released
  // The dtype of the fastest matrix products that keep the precision of bf16 weights.
  DType (*preferred_dtype)(Device& device) = nullptr;
  bool (*supports_dtype)(Device& device, DType dtype) = nullptr;
  // The dtype of what ops pass to each other between products of compute dtype `dtype`: results of products, queries.
  // The residual stream and logits are always f32. The CPU computes in its caches and keeps f32; a device that memory
  // bandwidth limits uses the compute dtype.
  DType (*activation_dtype)(Device& device, DType dtype) = nullptr;
  Arithmetic (*arithmetic)(Device& device) = nullptr;

  // Says what the following ops compute, for the error line. Must precede the first op of a thread that did not open
  // the device.
  void (*begin_batch)(Device& device, const BatchShape& shape) = nullptr;

  // Ends the process like an op that fails for good: one line with this error, the device and the batch.
  void (*fail)(Device& device, std::string_view call, std::string_view error) = nullptr;

  // Null when memory is short. At least 64-byte aligned, not cleared.
  void* (*allocate)(Device& device, std::size_t bytes) = nullptr;
  void (*release)(Device& device, void* memory) = nullptr;
  // The use of the device's memory, if the worker may fill it; nothing on the CPU.
  std::optional<MemoryUse> (*memory_use)(Device& device) = nullptr;
  void (*copy_to_device)(Device& device, void* to, const void* from_host, std::size_t bytes) = nullptr;
  // Uploads a step's inputs: one copy of all pieces to `to` and their offsets. Returns when the pieces may change;
  // waits at most for the copy before the last.
  void (*upload)(Device& device, void* to, std::span<const HostPiece> pieces) = nullptr;
  // Allocates what uploads of up to `bytes` need, so that none of them has to. False when memory is short.
  bool (*reserve_uploads)(Device& device, std::size_t bytes) = nullptr;
  // Returns when the bytes have arrived, so after all earlier ops.
  void (*copy_to_host)(Device& device, void* to_host, const void* from, std::size_t bytes) = nullptr;
  // The same in two calls, so that the host can work in between. The first returns at once. The second waits for the
  // bytes of the oldest pending readback. At most kMaxReadbackBytes each, and kMaxReadbacks pending. Zero bytes: only
  // waits for the earlier ops.
  void (*begin_readback)(Device& device, const void* from, std::size_t bytes) = nullptr;
  void (*end_readback)(Device& device, void* to_host) = nullptr;

  // For blocks that travel; null with host memory. The first two return null when memory is short. Pinned memory is the
  // host's, and may be used by all devices of the table.
  std::unique_ptr<CopyStreams> (*open_copy_streams)(Device& device) = nullptr;
  void* (*pin)(Device& device, std::size_t bytes) = nullptr;
  void (*unpin)(void* memory) = nullptr;

  // Ops called between the two are recorded instead of run, and memory stays unchanged. Ops with host memory among
  // their arguments, copies and allocations are not allowed there. end_recording returns null when there is no memory
  // for the recording. All three are null on a device that gains nothing from it.
  void (*begin_recording)(Device& device) = nullptr;
  std::unique_ptr<Recording> (*end_recording)(Device& device) = nullptr;
  void (*replay)(Device& device, const Recording& recording) = nullptr;

  // kInvalidArgument when the ops do not support such a model, with the reason and the name of the size.
  Result<void> (*check_model)(Device& device, const ModelDims& model) = nullptr;

  void (*gather_embedding)(Device& device, const GatherEmbeddingArgs& args) = nullptr;
  void (*rms_norm)(Device& device, const RmsNormArgs& args) = nullptr;
  Result<std::unique_ptr<MatmulWeights>> (*prepare_matmul)(Device& device, const PrepareMatmulArgs& args) = nullptr;
  void (*matmul)(Device& device, const MatmulArgs& args) = nullptr;
  void (*rope_angles)(Device& device, const RopeAnglesArgs& args) = nullptr;
  void (*rope_to_cache)(Device& device, const RopeToCacheArgs& args) = nullptr;
  AttentionProfile (*attention_profile)(Device& device, std::uint32_t head_dim) = nullptr;
  void (*attention)(Device& device, const AttentionArgs& args) = nullptr;
  void (*silu_mul)(Device& device, const SiluMulArgs& args) = nullptr;
  void (*copy_block_rows)(Device& device, const CopyBlockRowsArgs& args) = nullptr;
  void (*scatter_blocks)(Device& device, const MoveBlocksArgs& args) = nullptr;
  void (*sample)(Device& device, const SampleArgs& args) = nullptr;
  void (*logprobs)(Device& device, const LogprobsArgs& args) = nullptr;
  void (*place_sampled)(Device& device, const PlaceSampledArgs& args) = nullptr;

  // For devices of this table that compute one model together; see collective.h. The devices are open, all different,
  // and outlive the communicators; the first is rank 0's.
  Result<Communicators> (*connect)(std::span<Device* const> devices) = nullptr;
  void (*all_reduce)(Device& device, const AllReduceArgs& args) = nullptr;
  void (*gather_columns)(Device& device, const GatherColumnsArgs& args) = nullptr;
  void (*broadcast)(Device& device, const BroadcastArgs& args) = nullptr;
};

// The CPU, fast: oneDNN for products, vector code chosen at run time for the rest.
[[nodiscard]] const OpTable& CpuOps();

// The CPU, plain: scalar loops with double sums, as a reference for tests.
[[nodiscard]] const OpTable& ReferenceOps();

}  // namespace roost::kernels
