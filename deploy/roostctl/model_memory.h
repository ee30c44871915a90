// `roostctl memory --model DIR|synthetic:PRESET`: checks a model folder like roost-worker before it reads the weights,
// and prints how much memory the model needs: weights, KV per token, free memory, and a --kv-memory that fits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "kernels/dtype.h"

namespace roost::roostctl {

struct ModelSize {
  std::string name;  // the folder's name, or the preset
  std::string architecture;
  kernels::DType dtype = kernels::DType::kF32;  // of weights and KV in memory
  std::uint64_t weight_bytes = 0;               // in memory, for one worker
  std::uint64_t file_bytes = 0;                 // 0 for a preset, which has no files
  std::uint64_t kv_bytes_per_token = 0;
  std::uint32_t context_tokens = 0;  // the longest context served: the model's limit, or its sliding window if that is
                                     // less
  bool has_chat_template = false;
};

enum class MemoryOf : std::uint8_t { kHost, kDevice };

// Reads config.json, the tokenizer, the chat template and the headers of the safetensors files. Errors name the file,
// and what in it is missing, wrong or not supported. A "synthetic:PRESET" in place of a folder has a shape alone.
[[nodiscard]] Result<ModelSize> MeasureModel(const std::filesystem::path& folder, MemoryOf where, kernels::DType dtype);

struct MemoryPlan {
  std::uint64_t kv_bytes = 0;   // of one worker
  std::uint64_t kv_tokens = 0;  // the tokens that fit into kv_bytes
};

struct FreeMemory {
  std::uint64_t bytes = 0;
  MemoryOf where = MemoryOf::kHost;
};

// KV memory for each of `worker_count` workers, at least 1, that share `free`. On a device: 0.9 of what weights and
// steps leave, as with --kv-memory auto. On the host, where others need memory too: half of that, and at most 8 GiB or
// 64 whole contexts unless one context needs more. kUnavailable, with the needed and the available memory, if that
// holds neither one context nor 1,024 tokens.
[[nodiscard]] Result<MemoryPlan> PlanMemory(const ModelSize& model, FreeMemory free, std::uint32_t worker_count);

struct MemoryOptions {
  std::string folder;
  std::string backend = "cpu";  // or cuda
  // 0: what this process may use and the machine has free. On CUDA it must be the free memory of the device.
  std::uint64_t memory_bytes = 0;
  std::uint32_t worker_count = 1;
};

// Prints the result, and last a line of key=value pairs. Returns the exit code: 0 if the model can be served; 1 if the
// folder or the memory is not sufficient, with the reason on `err`.
int RunMemory(const MemoryOptions& options, std::ostream& out, std::ostream& err);

extern const Command kMemoryCommand;

}  // namespace roost::roostctl
