#include "deploy/roostctl/model_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <ostream>

#include "common/base/memory_limit.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "kernels/device_memory.h"
#include "worker/model/load_model.h"
#include "worker/model/loading/generation_config.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/safetensors.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/loading/weight_shapes.h"
#include "worker/model/transformer.h"

namespace roost::roostctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHostKvBytes = std::uint64_t{8} << 30U;
constexpr std::uint64_t kMaxHostContexts = 64;  // a CPU worker runs as many requests at a time
constexpr double kHostKvShare = 0.5;
constexpr double kDeviceKvShare = 0.9;
constexpr std::uint64_t kMinKvTokens = 1024;
// Memory of a process beside weights and KV: the program itself, and one step's activations and logits.
constexpr std::uint64_t kProcessBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kStepPartOfWeights = 16;

std::string Amount(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value < 1e9 ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{:.1f} GB", value / 1e9);
}

// roost-worker's default dtype.
Result<kernels::DType> DTypeOf(MemoryOf where) {
  if (where == MemoryOf::kDevice) return kernels::DType::kBF16;
  ROOST_ASSIGN_OR_RETURN(const auto cpu, kernels::Backend::Open(kernels::CpuOps(), {.thread_count = 1, .ordinal = 0}));
  return cpu.ops().preferred_dtype(cpu.device());
}

Result<FreeMemory> FreeMemoryOf(const MemoryOptions& options) {
  if (options.backend == "cpu") {
    return FreeMemory{options.memory_bytes > 0 ? options.memory_bytes : AvailableMemoryBytes(), MemoryOf::kHost};
  }
  if (options.memory_bytes > 0) return FreeMemory{options.memory_bytes, MemoryOf::kDevice};
  return InvalidArgument("memory-bytes", "for CUDA, give the free memory of the device");
}

std::string FolderName(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  return (error ? folder : absolute).filename().string();
}

// Checks what the router would refuse.
Result<void> CheckText(const fs::path& folder, const std::string& chat_template) {
  const fs::path path = folder / "tokenizer.json";
  ROOST_ASSIGN_OR_RETURN(const std::string json, ReadSmallFile(path, worker::kMaxTokenizerBytes));
  ROOST_RETURN_IF_ERROR(Tokenizer::FromJson(json, path.string()));
  if (chat_template.empty()) return {};
  ROOST_RETURN_IF_ERROR(ChatTemplate::Parse(chat_template, (folder / "chat_template").string()));
  return {};
}

// The bytes of the weights' files, if the weights belong to the shape.
Result<std::uint64_t> FileBytes(const fs::path& folder, const worker::HfConfig& config) {
  ROOST_ASSIGN_OR_RETURN(const auto weights, worker::SafetensorsDirectory::Open(folder));
  ROOST_RETURN_IF_ERROR(worker::CheckTensors(config, weights));
  std::uint64_t bytes = 0;
  for (const auto& file : weights.files()) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file->path(), error);
    if (error) return Error{ErrorCode::kUnavailable, error.message(), file->path()};
    bytes += size;
  }
  return bytes;
}

std::uint64_t StepBytes(const ModelSize& model) {
  return model.weight_bytes + model.weight_bytes / kStepPartOfWeights + kProcessBytes;
}

void Print(const ModelSize& model, const MemoryPlan& plan, FreeMemory free, std::ostream& out) {
  const std::string_view dtype = kernels::NameOf(model.dtype);
  const std::string source = model.file_bytes > 0 ? Amount(model.file_bytes) + " of files" : "random weights";
  out << fmt::format("model     {}, {}, {}\n", model.name, model.architecture, source)
      << fmt::format("context   {} tokens{}\n", model.context_tokens,
                     model.has_chat_template ? "" : "; no chat template, so completions only")
      << fmt::format("weights   {} of memory per worker, as {}\n", Amount(model.weight_bytes), dtype)
      << fmt::format("KV        {} of memory per worker: {} tokens of {} bytes each, {:.1f} whole contexts\n",
                     Amount(plan.kv_bytes), plan.kv_tokens, model.kv_bytes_per_token,
                     static_cast<double>(plan.kv_tokens) / model.context_tokens)
      << fmt::format("free      {}\n", Amount(free.bytes))
      << fmt::format(
             "memory: chat={} dtype={} weight_bytes={} kv_memory={} kv_tokens={} context_tokens={} "
             "free_bytes={}\n",
             model.has_chat_template ? "yes" : "no", dtype, model.weight_bytes, plan.kv_bytes, plan.kv_tokens,
             model.context_tokens, free.bytes);
}

Result<void> Describe(const MemoryOptions& options, std::ostream& out) {
  ROOST_ASSIGN_OR_RETURN(const FreeMemory free, FreeMemoryOf(options));
  ROOST_ASSIGN_OR_RETURN(const kernels::DType dtype, DTypeOf(free.where));
  ROOST_ASSIGN_OR_RETURN(const ModelSize model, MeasureModel(options.folder, free.where, dtype));
  ROOST_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(model, free, options.worker_count));
  Print(model, plan, free, out);
  return {};
}

// The KV memory of a worker, out of what weights and steps leave.
std::uint64_t KvBytes(const ModelSize& model, MemoryOf where, std::uint64_t left) {
  if (where == MemoryOf::kDevice) return static_cast<std::uint64_t>(kDeviceKvShare * static_cast<double>(left));
  const std::uint64_t context_bytes = model.context_tokens * model.kv_bytes_per_token;
  const std::uint64_t most = std::max(context_bytes, std::min(kMaxHostKvBytes, kMaxHostContexts * context_bytes));
  return std::min(static_cast<std::uint64_t>(kHostKvShare * static_cast<double>(left)), most);
}

int RunMemoryCommand(Arguments arguments, const Console& console) {
  MemoryOptions options;
  ConfigParser parser("roostctl memory", "Checks a model folder and prints how much memory it takes.");
  parser.Add("model", options.folder, "Model folder in Hugging Face layout, or synthetic:PRESET with random weights")
      .Require("model")
      .AddChoice("backend", options.backend, {"cpu", "cuda"},
                 "Backend of the workers. On CUDA, weights and KV are bf16")
      .AddBytes(
          "memory-bytes", options.memory_bytes,
          "Memory for all workers, in bytes or with a unit; 0: what is free here. For CUDA, the free memory of the "
          "device")
      .Add("workers", options.worker_count, "Workers that share the memory", {.low = 1, .high = 1024});
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunMemory(options, console.out, console.err);
}

}  // namespace

const Command kMemoryCommand{"memory", "check a model folder and its memory", &RunMemoryCommand};

namespace {

// The sizes that follow from the shape alone.
ModelSize SizeOf(const worker::HfConfig& config, MemoryOf where, kernels::DType dtype) {
  ModelSize model;
  model.architecture = config.architecture;
  model.dtype = dtype;
  const worker::TiedTable tied = where == MemoryOf::kHost ? worker::TiedTable::kTwice : worker::TiedTable::kOnce;
  model.weight_bytes = worker::MatrixElements(config, tied) * kernels::SizeOf(dtype);
  constexpr std::uint32_t kBlockTokens = 16;
  model.kv_bytes_per_token = worker::KvBlockBytes(config, kBlockTokens, dtype) / kBlockTokens;
  model.context_tokens = std::min(config.max_positions, config.sliding_window.value_or(config.max_positions));
  return model;
}

Result<ModelSize> MeasurePreset(std::string_view preset, MemoryOf where, kernels::DType dtype) {
  const auto config = worker::SyntheticConfig(preset);
  if (!config) return worker::UnknownPreset(preset);
  ModelSize model = SizeOf(*config, where, dtype);
  model.name = preset;
  model.has_chat_template = true;
  return model;
}

}  // namespace

Result<ModelSize> MeasureModel(const fs::path& folder, MemoryOf where, kernels::DType dtype) {
  if (const auto preset = worker::SyntheticPresetOf(folder.native())) return MeasurePreset(*preset, where, dtype);
  std::error_code error;
  if (!fs::is_directory(folder, error)) return Error{ErrorCode::kNotFound, "is not a folder", folder.string()};
  ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(folder / "config.json", worker::kMaxConfigBytes));
  ROOST_ASSIGN_OR_RETURN(const worker::HfConfig config, worker::ParseHfConfig(file.root()));
  ROOST_RETURN_IF_ERROR(worker::LoadGenerationConfig(folder, file.root(), config.vocab_size));
  ROOST_ASSIGN_OR_RETURN(const worker::ChatFormat chat, worker::LoadChatFormat(folder));
  ROOST_RETURN_IF_ERROR(CheckText(folder, chat.combined_template));
  ModelSize model = SizeOf(config, where, dtype);
  ROOST_ASSIGN_OR_RETURN(model.file_bytes, FileBytes(folder, config));
  model.name = FolderName(folder);
  model.has_chat_template = !chat.chat_template.empty();
  return model;
}

Result<MemoryPlan> PlanMemory(const ModelSize& model, FreeMemory free, std::uint32_t worker_count) {
  const std::uint64_t least_tokens = std::min<std::uint64_t>(model.context_tokens, kMinKvTokens);
  const std::uint64_t of_each = free.bytes / worker_count;
  const std::uint64_t left = of_each - std::min(of_each, StepBytes(model));
  const std::uint64_t kv_bytes = KvBytes(model, free.where, left);
  const std::uint64_t kv_tokens = kv_bytes / model.kv_bytes_per_token;
  if (kv_tokens >= least_tokens) return MemoryPlan{.kv_bytes = kv_bytes, .kv_tokens = kv_tokens};
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} of memory per worker are free; weights take {}, steps {}, KV of {} tokens {} of what is "
                           "left, {}",
                           Amount(of_each), Amount(model.weight_bytes), Amount(StepBytes(model) - model.weight_bytes),
                           least_tokens, Amount(least_tokens * model.kv_bytes_per_token), Amount(left)),
               model.name};
}

int RunMemory(const MemoryOptions& options, std::ostream& out, std::ostream& err) {
  const Result<void> described = Describe(options, out);
  if (described.ok()) return 0;
  err << "roostctl memory: " << described.error().ToString() << '\n';
  return 1;
}

}  // namespace roost::roostctl
