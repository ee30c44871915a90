// `roostctl memory --model DIR`: checks a model folder as roost-worker does before it reads the weights, and says how
// much memory the model takes: weights, KV per token, what is free, and a --kv-memory that fits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "common/base/result.h"
#include "kernels/dtype.h"

namespace roost::roostctl {

struct ModelSize {
  std::string name;  // the folder's
  std::string architecture;
  kernels::DType dtype = kernels::DType::kF32;  // of weights and KV in memory
  std::uint64_t weight_bytes = 0;               // in memory, of one worker
  std::uint64_t file_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint32_t context_tokens = 0;  // that are served: the model's limit, or its sliding window where that is less
  bool has_chat_template = false;
};

enum class MemoryOf : std::uint8_t { kHost, kDevice };

// Reads config.json, the tokenizer, the chat template and the headers of the safetensors files. Errors name the file
// and what in it is missing, wrong or not supported.
[[nodiscard]] Result<ModelSize> MeasureModel(const std::filesystem::path& folder, MemoryOf where, kernels::DType dtype);

struct MemoryPlan {
  std::uint64_t kv_bytes = 0;   // of one worker
  std::uint64_t kv_tokens = 0;  // that these hold
};

struct FreeMemory {
  std::uint64_t bytes = 0;
  MemoryOf where = MemoryOf::kHost;
};

// Memory for KV of each of `worker_count` workers, at least 1, that share `free`. On a device it is 0.9 of what weights
// and steps leave, as with --kv-memory auto. On the host, where others need memory too, it is half of that, and no more
// than 8 GiB or 64 whole contexts unless one context needs it. kUnavailable, with what is needed and what is there,
// where that holds neither a context nor 1,024 tokens.
[[nodiscard]] Result<MemoryPlan> PlanMemory(const ModelSize& model, FreeMemory free, std::uint32_t worker_count);

struct MemoryOptions {
  std::string folder;
  std::string backend = "cpu";  // or cuda
  // 0: what this process may use and the machine has free. On CUDA it must be given: what is free on the device.
  std::uint64_t memory_bytes = 0;
  std::uint32_t worker_count = 1;
};

// Prints what was found, and last a line of key=value pairs. The exit code: 0 where the model can be served, 1 where
// the folder or the memory is at fault, which is said on `err`.
int RunMemory(const MemoryOptions& options, std::ostream& out, std::ostream& err);

}  // namespace roost::roostctl
