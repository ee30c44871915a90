#include "worker/model/load_model.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "common/base/byte_size.h"
#include "common/prefix/block_hash.h"
#include "worker/model/loading/fingerprint.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/load_progress.h"
#include "worker/model/loading/safetensors.h"
#include "worker/model/loading/shard.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/loading/weight_shapes.h"
#include "worker/model/loading/weights.h"
#include "worker/model/tensor_parallel.h"
#include "worker/model/transformer.h"
#include "worker/model/transformer_weights.h"

namespace roost::worker {
namespace {

std::uint32_t RankCountOf(const ModelOptions& options) {
  return static_cast<std::uint32_t>(options.device_ordinals.size());
}

kernels::DType ResolveDType(const kernels::Backend& backend, ComputeDType wanted) {
  switch (wanted) {
    case ComputeDType::kBF16: return kernels::DType::kBF16;
    case ComputeDType::kF32: return kernels::DType::kF32;
    case ComputeDType::kAuto: break;
  }
  return backend.ops().preferred_dtype(backend.device());
}

// Over all ranks.
std::uint64_t BlockBytesOf(const HfConfig& config, const ModelOptions& options, kernels::DType dtype) {
  const auto ranks = RankCountOf(options);
  return std::uint64_t{ranks} * KvBlockBytes(ConfigOf(config, {0, ranks}), options.block_tokens, dtype);
}

Result<std::uint32_t> ResolveBlockCount(const ModelOptions& options, std::uint64_t block_bytes) {
  if (options.block_count) return *options.block_count;
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max() / std::max(options.block_tokens, 1U);
  const std::uint64_t count = block_bytes == 0 ? 0 : std::min(options.kv_bytes / block_bytes, most);
  if (count == 0) {
    return InvalidArgument("kv_bytes", "{} bytes hold no KV block of this model: one has {} bytes", options.kv_bytes,
                           block_bytes);
  }
  return static_cast<std::uint32_t>(count);
}

// The host grants memory that it does not have, and kills the process when it is used. So the sizes are compared
// before.
struct HostMemory {
  std::uint64_t kv_bytes = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t bytes_beside = 0;
};
Result<void> CheckHostMemory(const ModelOptions& options, const HostMemory& memory) {
  if (!options.memory_limit_bytes) return {};
  const std::uint64_t limit = *options.memory_limit_bytes;
  if (memory.kv_bytes + memory.weight_bytes + memory.bytes_beside <= limit) return {};
  const std::string beside =
      memory.bytes_beside == 0
          ? ""
          : fmt::format(", with {} bytes ({}) for blocks that travel between workers (transfer-memory),",
                        memory.bytes_beside, ByteSizeText(memory.bytes_beside));
  return InvalidArgument(options.block_count ? "kv-blocks" : "kv-memory",
                         "{} bytes of KV blocks ({}) and {} bytes of weights ({}){} are more than the {} bytes of "
                         "memory ({}) that this process may use for them now",
                         memory.kv_bytes, ByteSizeText(memory.kv_bytes), memory.weight_bytes,
                         ByteSizeText(memory.weight_bytes), beside, limit, ByteSizeText(limit));
}

Result<void> CheckOptions(const ModelOptions& options) {
  if (!IsValidBlockTokens(options.block_tokens)) {
    return InvalidArgument("block_tokens", "must be a power of two from {} to {}, is {}", kMinBlockTokens,
                           kMaxBlockTokens, options.block_tokens);
  }
  if (options.max_context_tokens == 0U) return InvalidArgument("max_context_tokens", "must not be 0");
  return {};
}

Result<std::vector<kernels::Backend>> OpenBackends(const ModelOptions& options) {
  const auto ranks = RankCountOf(options);
  const std::uint32_t threads = ranks == 1 ? options.thread_count : std::max(1U, options.thread_count / ranks);
  kernels::DeviceOptions device{.thread_count = threads};
  if (ranks == 1) device.on_threads = options.on_threads;  // ranks wait for each other
  std::vector<kernels::Backend> backends;
  for (const std::uint32_t ordinal : options.device_ordinals) {
    device.ordinal = ordinal;
    ROOST_ASSIGN_OR_RETURN(auto backend, kernels::Backend::Open(*options.ops, device));
    backends.push_back(std::move(backend));
  }
  return backends;
}

Result<std::unique_ptr<Model>> CreateModel(std::vector<kernels::Backend> backends, const HfConfig& config,
                                           const WeightSource& weights, const TransformerOptions& options) {
  if (backends.size() == 1) {
    ROOST_ASSIGN_OR_RETURN(auto model, Transformer::Create(std::move(backends.front()), config, weights, options));
    return std::unique_ptr<Model>(std::move(model));
  }
  ROOST_ASSIGN_OR_RETURN(auto model, TensorParallelModel::Create(std::move(backends), config, weights, options));
  return std::unique_ptr<Model>(std::move(model));
}

struct SizedWeights {
  const WeightSource& source;
  std::optional<std::uint64_t> total_bytes;
};

// Fills in what follows from the network: model, KV dtype, context.
Result<void> BuildModel(const HfConfig& config, const SizedWeights& weights, const ModelOptions& options,
                        LoadedModel& loaded) {
  ROOST_RETURN_IF_ERROR(CheckOptions(options));
  ROOST_RETURN_IF_ERROR(CheckRankCount(config, RankCountOf(options)));
  ROOST_ASSIGN_OR_RETURN(auto backends, OpenBackends(options));
  const kernels::DType dtype = ResolveDType(backends.front(), options.compute_dtype);
  std::uint32_t block_count = 0;
  const bool by_share = options.kv_share && !options.block_count;
  const std::uint64_t block_bytes = BlockBytesOf(config, options, dtype);
  HostMemory memory{.weight_bytes = MatrixElements(config, TiedTable::kTwice) * SizeOf(dtype)};
  const std::uint64_t data_bytes = KvBlockBytes(config, options.block_tokens, dtype);
  FrameRoom frames;
  if (options.frames) {
    ROOST_ASSIGN_OR_RETURN(frames, options.frames(data_bytes));
    memory.bytes_beside = frames.count * (frames.head_bytes + data_bytes + frames.tail_bytes);
  }
  if (!by_share) {
    ROOST_ASSIGN_OR_RETURN(block_count, ResolveBlockCount(options, block_bytes));
    memory.kv_bytes = block_count * block_bytes;
    ROOST_RETURN_IF_ERROR(CheckHostMemory(options, memory));
  }
  loaded.kv_dtype = NameOf(dtype);
  loaded.max_context_tokens = std::min(config.max_positions, options.max_context_tokens.value_or(config.max_positions));
  ROOST_RETURN_IF_ERROR(CheckSlidingWindow(config, loaded.max_context_tokens));
  std::shared_ptr<const FrameSlab> slab;
  if (frames.count > 0 && !options.ops->has_host_memory) {
    ROOST_ASSIGN_OR_RETURN(slab, FrameSlab::Pin(backends.front(), frames, data_bytes));
  }
  const SteadyClock clock;
  LoadProgress progress(weights.total_bytes, clock, StandardProgress());
  const CountedWeights counted(weights.source, progress, RankCountOf(options));
  ROOST_ASSIGN_OR_RETURN(loaded.model, CreateModel(std::move(backends), config, counted,
                                                   {.block_tokens = options.block_tokens,
                                                    .block_count = block_count,
                                                    .kv_share = by_share ? options.kv_share : std::nullopt,
                                                    .max_context_tokens = loaded.max_context_tokens,
                                                    .step_bounds = options.step_bounds,
                                                    .compute_dtype = dtype,
                                                    .slab = std::move(slab)}));
  progress.Finish();
  return {};
}

Result<LoadedModel> LoadSynthetic(std::string_view preset, const ModelOptions& options) {
  const auto config = SyntheticConfig(preset);
  if (!config) return UnknownPreset(preset);
  LoadedModel loaded;
  loaded.text.name = preset;
  loaded.text.vocab_size = config->vocab_size;
  loaded.text.stop_tokens = {kSyntheticTurnEnd, kSyntheticEndOfText};
  loaded.text.tokenizer_json = SyntheticTokenizerJson(config->vocab_size);
  loaded.text.chat_template = SyntheticChatTemplate();
  loaded.text.eos_token = "<|im_end|>";
  if (options.check_text) ROOST_RETURN_IF_ERROR(options.check_text(loaded.text));
  const RandomWeights weights(options.synthetic_seed);
  const std::uint64_t total_bytes = ElementCount(*config) * SizeOf(kernels::DType::kBF16);
  ROOST_RETURN_IF_ERROR(BuildModel(*config, {weights, total_bytes}, options, loaded));
  loaded.fingerprint = SyntheticFingerprint(*config, options.synthetic_seed);
  return loaded;
}

Result<LoadedModel> LoadDirectory(const std::filesystem::path& directory, const ModelOptions& options) {
  ROOST_RETURN_IF_ERROR(CheckModelFolder(directory));
  ROOST_ASSIGN_OR_RETURN(const JsonFile config_file, JsonFile::Load(directory / "config.json", kMaxConfigBytes));
  ROOST_ASSIGN_OR_RETURN(const HfConfig config, ParseHfConfig(config_file.root()));
  LoadedModel loaded;
  // Text and shapes come first, so that errors in them show before the weights are read.
  ROOST_ASSIGN_OR_RETURN(loaded.text,
                         ReadModelText(directory, config_file.root(), config.vocab_size, options.chat_template_name));
  if (options.check_text) ROOST_RETURN_IF_ERROR(options.check_text(loaded.text));
  ROOST_ASSIGN_OR_RETURN(SafetensorsDirectory files, SafetensorsDirectory::Open(directory));
  ROOST_RETURN_IF_ERROR(CheckTensors(config, files));
  SafetensorsWeights weights(std::move(files), RankCountOf(options));
  ROOST_RETURN_IF_ERROR(BuildModel(config, {weights, weights.total_bytes()}, options, loaded));
  ROOST_ASSIGN_OR_RETURN(const std::vector<TensorRecord> tensors, weights.FinishRecords());
  ROOST_RETURN_IF_ERROR(CheckAllRead(config, tensors));
  loaded.fingerprint = ModelFingerprint({config_file.text(), loaded.text.tokenizer_json}, tensors);
  return loaded;
}

}  // namespace

Result<ComputeDType> ParseComputeDType(std::string_view name) {
  if (name == "auto") return ComputeDType::kAuto;
  if (name == "bf16") return ComputeDType::kBF16;
  if (name == "f32") return ComputeDType::kF32;
  return InvalidArgument("compute_dtype", "must be auto, bf16 or f32, is '{}'", name);
}

Result<LoadedModel> LoadModel(const ModelSource& source, const ModelOptions& options) {
  if (const auto preset = SyntheticPresetOf(source.location)) return LoadSynthetic(*preset, options);
  return LoadDirectory(source.location, options);
}

}  // namespace roost::worker
