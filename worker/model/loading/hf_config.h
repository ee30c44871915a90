// Reads the network from config.json of a Hugging Face model folder, as far as it is supported. A key that would change
// the numbers and is not supported is an Error that names the file and the key, never a wrong answer.
//
// Architectures: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM (biases on q, k, v), Qwen3ForCausalLM (norms on
// q and k). Sliding-window attention is supported where it equals full attention: in contexts up to the window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/json/json_node.h"

namespace roost::worker {

// Reads the rotary position embedding from config.json: rope_theta at the top and rope_scaling beside it, or everything
// in rope_parameters, as in newer files. A key that would change the numbers and is not known is an Error that names
// it.

// Frequencies of the rotary position embedding, and the ways in which models stretch them beyond the context that they
// were trained on. Computed in f32 where Hugging Face transformers does.

// Every position is divided by `factor`.
struct LinearScaling {
  double factor = 1;
};

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those in between blended.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};

// Elements whose pairs turn more than beta_fast times in the original context are kept, those that turn less than
// beta_slow times are stretched by `factor`, and those in between are blended by their index.
// Source: Peng et al.: YaRN, 2023.
enum class YarnBounds : std::uint8_t { kWholeElements, kExact };
struct YarnScaling {
  double factor = 1;
  double original_max_positions = 8192;
  double beta_fast = 32;
  double beta_slow = 1;
  YarnBounds bounds = YarnBounds::kWholeElements;
  double attention_factor = 1;  // for q and for k: scores get its square
};

struct RopeConfig {
  double theta = 10000;
  std::variant<std::monostate, LinearScaling, Llama3Scaling, YarnScaling> scaling;
};

// Angle per position of each pair of elements: [head_dim/2].
[[nodiscard]] std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim);

// The factor of the scores in addition to 1/√head_dim. Transformers instead multiplies the sine and cosine of both q
// and k by a number, which is the same up to rounding.
[[nodiscard]] double ScoreFactor(const RopeConfig& config);

inline constexpr std::uint32_t kMaxPositions = 1U << 26U;  // the longest context that is accepted

// `max_positions` is max_position_embeddings.
[[nodiscard]] Result<RopeConfig> ParseRopeConfig(const JsonNode& config, std::uint32_t max_positions);

// The context of a model: `max_positions`, or the length to which YaRN stretches the original context if that is
// longer. Files of models that got YaRN later keep their old max_position_embeddings.
[[nodiscard]] std::uint32_t ScaledPositions(const RopeConfig& rope, std::uint32_t max_positions);

enum class Bias : std::uint8_t { kNone, kBiased };
enum class QkNorm : std::uint8_t { kNone, kNormed };
enum class EmbeddingTie : std::uint8_t { kUntied, kTied };  // kTied: the output matrix is the embedding matrix

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
  // The sliding window of the layers that have one: each token sees this many tokens, itself included.
  std::optional<std::uint32_t> sliding_window = std::nullopt;
  Bias qkv_bias = Bias::kNone;  // of q, k and v
  Bias o_bias = Bias::kNone;
  Bias mlp_bias = Bias::kNone;  // of gate, up and down
  QkNorm qk_norm = QkNorm::kNone;
  EmbeddingTie tie = EmbeddingTie::kUntied;
};

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

// Limits of plausible values: larger numbers are mistakes, and their products must not overflow.
inline constexpr std::uint32_t kMaxVocabSize = 1U << 22U;
inline constexpr std::uint32_t kMaxWidth = 1U << 18U;  // hidden_size, intermediate_size, heads · head_dim
inline constexpr std::uint32_t kMaxLayers = 1024;
inline constexpr std::uint32_t kMaxHeadDim = 1024;

// Ends each message about a model that the own engine does not compute.
inline constexpr std::string_view kOtherEngines =
    "; Roost serves such a model before vLLM or SGLang: --engine vllm, --engine sglang";

[[nodiscard]] Result<HfConfig> ParseHfConfig(const JsonNode& config);

// The number of copies in memory of an embedding that is also the output matrix: two if products need weights in a
// layout of their own, as on the CPU.
enum class TiedTable : std::uint8_t { kOnce, kTwice };
// The elements of all matrices in memory.
[[nodiscard]] std::uint64_t MatrixElements(const HfConfig& config, TiedTable tied);

// An Error that names sliding_window if a context of this many tokens is longer than the window.
[[nodiscard]] Result<void> CheckSlidingWindow(const HfConfig& config, std::uint32_t context_tokens);

}  // namespace roost::worker
