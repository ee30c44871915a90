// The op table: everything a model asks of a device, one function pointer per op. The CPU fills it, and so does a
// shared object for another device that is opened at run time; callers know neither.
//
// Pointers in an op's arguments are device memory unless its header says host. Ops of one device take effect in the
// order of their calls. An op that fails for good (a lost device) ends the process with one clear line, see
// device_failure.h; running short of memory is an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "kernels/attention.h"
#include "kernels/collective.h"
#include "kernels/copy_block_rows.h"
#include "kernels/device.h"
#include "kernels/gather_embedding.h"
#include "kernels/host_pieces.h"
#include "kernels/logprobs.h"
#include "kernels/matmul.h"
#include "kernels/model_dims.h"
#include "kernels/move_blocks.h"
#include "kernels/place_sampled.h"
#include "kernels/recording.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sample.h"
#include "kernels/silu_mul.h"

namespace roost::kernels {

struct OpTable {
  std::string_view name;  // "cpu", "reference", "cuda"

  Result<Device*> (*open)(const DeviceOptions& options) = nullptr;
  void (*close)(Device* device) = nullptr;  // after all of its memory and weights are released
  // The dtype in which matrix products are quickest without losing what bf16 weights hold.
  DType (*preferred_dtype)(Device& device) = nullptr;
  bool (*supports_dtype)(Device& device, DType dtype) = nullptr;
  // Of what ops hand each other between products of compute dtype `dtype`: results of products, queries. The residual
  // stream and logits are always f32. The CPU computes in its caches and keeps f32; where memory sets the pace it is
  // the compute dtype.
  DType (*activation_dtype)(Device& device, DType dtype) = nullptr;

  // What the ops after it compute, for the line that tells of a failure. Comes before the first op of a thread that did
  // not open the device.
  void (*begin_batch)(Device& device, const BatchShape& shape) = nullptr;

  // Ends the process as an op does that fails for good: one line with this, the device and the batch.
  void (*fail)(Device& device, std::string_view call, std::string_view error) = nullptr;

  // Null when memory is short. At least 64-byte aligned, not cleared.
  void* (*allocate)(Device& device, std::size_t bytes) = nullptr;
  void (*release)(Device& device, void* memory) = nullptr;
  // Bytes that could be allocated now, where the device's memory is the worker's to fill; nothing on the CPU.
  std::optional<std::size_t> (*free_memory)(Device& device) = nullptr;
  void (*copy_to_device)(Device& device, void* to, const void* from_host, std::size_t bytes) = nullptr;
  // What a step needs of the host: one copy of all the pieces to `to` and behind. Returns when the pieces may change,
  // and waits for no copy but the one before the last.
  void (*upload)(Device& device, void* to, std::span<const HostPiece> pieces) = nullptr;
  // Takes what uploads of so many bytes need on their way, so that none of them has to.
  void (*reserve_uploads)(Device& device, std::size_t bytes) = nullptr;
  // Returns when the bytes are there, so after all ops before it.
  void (*copy_to_host)(Device& device, void* to_host, const void* from, std::size_t bytes) = nullptr;
  // The same in two parts, between which the host does other things: the first returns at once, the second when the
  // bytes of the oldest copy that has begun and not ended are there. At most kMaxReadbackBytes each, and
  // kMaxReadbacks that have not ended. No bytes are a wait for the ops before.
  void (*begin_readback)(Device& device, const void* from, std::size_t bytes) = nullptr;
  void (*end_readback)(Device& device, void* to_host) = nullptr;

  // Ops called between the two are recorded instead of run, and their memory stays as it is; ops with host memory among
  // their arguments, copies and allocations must not be called there. All three are null on a device that gains
  // nothing.
  void (*begin_recording)(Device& device) = nullptr;
  std::unique_ptr<Recording> (*end_recording)(Device& device) = nullptr;
  void (*replay)(Device& device, const Recording& recording) = nullptr;

  // kInvalidArgument when the ops do not compute such a model, with the reason and the name of the size.
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
  void (*gather_blocks)(Device& device, const MoveBlocksArgs& args) = nullptr;
  void (*scatter_blocks)(Device& device, const MoveBlocksArgs& args) = nullptr;
  void (*sample)(Device& device, const SampleArgs& args) = nullptr;
  void (*logprobs)(Device& device, const LogprobsArgs& args) = nullptr;
  void (*place_sampled)(Device& device, const PlaceSampledArgs& args) = nullptr;

  // For devices of this table that compute one model together; see collective.h. The devices are open and different,
  // and outlive the communicators; the first is rank 0's.
  Result<Communicators> (*connect)(std::span<Device* const> devices) = nullptr;
  void (*all_reduce)(Device& device, const AllReduceArgs& args) = nullptr;
  void (*gather_columns)(Device& device, const GatherColumnsArgs& args) = nullptr;
  void (*broadcast)(Device& device, const BroadcastArgs& args) = nullptr;
};

// The CPU, quick: oneDNN for products, vector code chosen at run time for the rest.
[[nodiscard]] const OpTable& CpuOps();

// The CPU, plain: scalar loops with double sums, for tests to compare with.
[[nodiscard]] const OpTable& ReferenceOps();

}  // namespace roost::kernels
