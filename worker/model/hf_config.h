// What config.json of a Hugging Face model directory says about the network, as far as it is served. Whatever would
// change the numbers and is not built is an Error that names the file and the key, never a wrong answer.
//
// Architectures: LlamaForCausalLM, MistralForCausalLM (without sliding window), Qwen2ForCausalLM (biases on q, k, v),
// Qwen3ForCausalLM (norms on q and k).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/model/json_file.h"
#include "worker/model/rope.h"

namespace roost::worker {

enum class QkvBias : std::uint8_t { kNone, kBiased };
enum class QkNorm : std::uint8_t { kNone, kNormed };
enum class EmbeddingTie : std::uint8_t { kUntied, kTied };  // kTied: the output matrix is the embedding

struct HfConfig {
  std::string architecture;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t query_head_count = 0;
  std::uint32_t kv_head_count = 0;  // divides query_head_count
  std::uint32_t head_dim = 0;       // even
  std::uint32_t max_positions = 0;
  float norm_epsilon = 1e-6F;
  RopeConfig rope;
  QkvBias qkv_bias = QkvBias::kNone;
  QkNorm qk_norm = QkNorm::kNone;
  EmbeddingTie tie = EmbeddingTie::kUntied;
};

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

// Bounds of what is believed: larger numbers are mistakes, and products of them must not overflow.
inline constexpr std::uint32_t kMaxVocabSize = 1U << 22U;
inline constexpr std::uint32_t kMaxWidth = 1U << 18U;  // hidden_size, intermediate_size, heads · head_dim
inline constexpr std::uint32_t kMaxLayers = 1024;
inline constexpr std::uint32_t kMaxHeadDim = 1024;
inline constexpr std::uint32_t kMaxPositions = 1U << 26U;

[[nodiscard]] Result<HfConfig> ParseHfConfig(const JsonObject& config);

}  // namespace roost::worker
