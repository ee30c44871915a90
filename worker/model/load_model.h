// Loads a model by name, ready to serve, with everything that belongs to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "kernels/ops.h"
#include "worker/model/copy_engine.h"
#include "worker/model/loading/model_text.h"
#include "worker/model/model.h"
#include "worker/model/step_size.h"

namespace roost::worker {

// A Hugging Face model directory, or "synthetic:<preset>"; see synthetic.h.
struct ModelSource {
  std::string location;
};

// kAuto: what the device prefers, see preferred_dtype in ops.h.
enum class ComputeDType : std::uint8_t { kAuto, kBF16, kF32 };
[[nodiscard]] Result<ComputeDType> ParseComputeDType(std::string_view name);

struct ModelOptions {
  std::uint32_t thread_count = 1;                             // of all ranks together
  std::function<void(std::uint32_t in_use)> on_threads = {};  // see DeviceOptions; not of several ranks
  ComputeDType compute_dtype = ComputeDType::kAuto;
  std::uint32_t block_tokens = 16;
  // The size of the KV pool: a number of blocks, or as many blocks as fit into this many bytes, over all ranks.
  std::optional<std::uint32_t> block_count = std::nullopt;
  std::uint64_t kv_bytes = std::uint64_t{1} << 30U;
  // The limit for everything together if device memory is host memory, see AvailableMemoryBytes; empty: not checked.
  std::optional<std::uint64_t> memory_limit_bytes = std::nullopt;
  // Called with the bytes of a KV block's data before the weights are read. Returns the frames that the process needs
  // beside weights and KV, whose memory counts too. Its error ends the loading.
  std::function<Result<FrameRoom>(std::uint64_t data_bytes)> frames = {};
  // Or as many blocks as fit into a share of the device memory that the weights leave free; see TransformerOptions.
  std::optional<double> kv_share = std::nullopt;
  // The largest step that the engine will ask for; see TransformerOptions.
  StepBounds step_bounds = {};
  // Lowers the model's own limit.
  std::optional<std::uint32_t> max_context_tokens = std::nullopt;
  std::uint64_t synthetic_seed = 0;
  std::string chat_template_name = {};  // among those of the folder; empty: the default
  // Called with the text of the model, which it may complete, before the weights are read. Its error ends the loading.
  std::function<Result<void>(ModelText&)> check_text = {};
  const kernels::OpTable* ops = &kernels::CpuOps();
  // Devices of the op table. Several devices compute the model together, one rank each; see tensor_parallel.h. On the
  // CPU all ranks are device 0, and they share the threads.
  std::vector<std::uint32_t> device_ordinals{0};
};

struct LoadedModel {
  std::unique_ptr<Model> model;
  ModelText text;
  std::string fingerprint;  // SHA-256 in hexadecimal, see PrefixScope
  std::string kv_dtype;     // "bf16", "f32"
  std::uint32_t max_context_tokens = 0;
};

// A missing, truncated, inconsistent or unsupported file gives one Error that names the file and what is wrong in it.
[[nodiscard]] Result<LoadedModel> LoadModel(const ModelSource& source, const ModelOptions& options);

}  // namespace roost::worker
