#include "worker/model/hf_config.h"

#include <algorithm>
#include <array>

namespace roost::worker {
namespace {

// The keys of config.json that add biases. Transformers reads them for some architectures and ignores them for others.
enum class BiasKeys : std::uint8_t { kNone, kAttention, kAttentionAndMlp };
// The use of a window: whenever there is one, or only if use_sliding_window says so, and then in the layers from
// max_window_layers on.
enum class WindowUse : std::uint8_t { kAlways, kIfSaid };

struct Architecture {
  std::string_view name;
  Bias qkv_bias;  // regardless of the keys
  BiasKeys bias_keys;
  QkNorm qk_norm;
  WindowUse window_use;
  std::optional<std::uint32_t> default_window;  // used if sliding_window is absent and not null
  std::uint32_t default_head_dim;               // 0: hidden_size / num_attention_heads
};

// Transformers has no window for Llama at all; a file that names one is taken at its word.
constexpr std::array<Architecture, 4> kArchitectures{
    {{"LlamaForCausalLM", Bias::kNone, BiasKeys::kAttentionAndMlp, QkNorm::kNone, WindowUse::kAlways, std::nullopt, 0},
     {"MistralForCausalLM", Bias::kNone, BiasKeys::kNone, QkNorm::kNone, WindowUse::kAlways, 4096, 0},
     {"Qwen2ForCausalLM", Bias::kBiased, BiasKeys::kNone, QkNorm::kNone, WindowUse::kIfSaid, 4096, 0},
     {"Qwen3ForCausalLM", Bias::kNone, BiasKeys::kAttention, QkNorm::kNormed, WindowUse::kIfSaid, 4096, 128}}};

Result<const Architecture*> ParseArchitecture(const JsonObject& config) {
  ROOST_ASSIGN_OR_RETURN(const auto names, config.Array("architectures"));
  std::string_view name;
  if (names.empty() || names.front().get(name) != simdjson::SUCCESS) {
    return config.Complain("architectures", "must name the model's class");
  }
  const auto* found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                   [name](const Architecture& known) { return known.name == name; });
  if (found != kArchitectures.end()) return found;
  return config.Complain("architectures", fmt::format("'{}' is not supported, only LlamaForCausalLM, "
                                                      "MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM are{}",
                                                      name.substr(0, 100), kOtherEngines));
}

Result<std::uint32_t> BoundedCount(const JsonObject& config, std::string_view key, std::uint32_t limit) {
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t value, config.RequiredCount(key));
  if (value > limit) return config.Complain(key, fmt::format("is {}, and at most {} is accepted", value, limit));
  return value;
}

Result<void> ParseSizes(const JsonObject& config, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(result.vocab_size, BoundedCount(config, "vocab_size", kMaxVocabSize));
  ROOST_ASSIGN_OR_RETURN(result.hidden_size, BoundedCount(config, "hidden_size", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(result.intermediate_size, BoundedCount(config, "intermediate_size", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(result.layer_count, BoundedCount(config, "num_hidden_layers", kMaxLayers));
  ROOST_ASSIGN_OR_RETURN(result.max_positions, BoundedCount(config, "max_position_embeddings", kMaxPositions));
  ROOST_ASSIGN_OR_RETURN(const double epsilon, config.NumberOr("rms_norm_eps", 1e-6));
  if (!(epsilon > 0 && epsilon < 1)) return config.Complain("rms_norm_eps", "must lie between 0 and 1");
  result.norm_epsilon = static_cast<float>(epsilon);
  return {};
}

Result<void> ParseHeads(const JsonObject& config, const Architecture& architecture, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(result.query_head_count, BoundedCount(config, "num_attention_heads", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(const auto kv_heads, config.Count("num_key_value_heads"));
  result.kv_head_count = kv_heads.value_or(result.query_head_count);
  if (result.kv_head_count == 0 || result.query_head_count % result.kv_head_count != 0) {
    return config.Complain("num_key_value_heads", fmt::format("is {}, must divide num_attention_heads, {}",
                                                              result.kv_head_count, result.query_head_count));
  }
  ROOST_ASSIGN_OR_RETURN(const auto head_dim, config.Count("head_dim"));
  if (!head_dim && architecture.default_head_dim == 0 && result.hidden_size % result.query_head_count != 0) {
    return config.Complain("num_attention_heads", "must divide hidden_size where head_dim is not given");
  }
  const std::uint32_t derived =
      architecture.default_head_dim != 0 ? architecture.default_head_dim : result.hidden_size / result.query_head_count;
  result.head_dim = head_dim.value_or(derived);
  if (result.head_dim == 0 || result.head_dim % 2 != 0 || result.head_dim > kMaxHeadDim ||
      std::uint64_t{result.head_dim} * result.query_head_count > kMaxWidth) {
    return config.Complain("head_dim", fmt::format("{} is not supported: it must be even and at most {}, and all heads "
                                                   "together at most {} wide{}",
                                                   result.head_dim, kMaxHeadDim, kMaxWidth, kOtherEngines));
  }
  return {};
}

// Keys that must be off.
Result<void> RefuseWhenTrue(const JsonObject& config, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const bool value, config.BoolOr(key, false));
  if (value) return config.Complain(key, fmt::format("true is not supported{}", kOtherEngines));
  return {};
}

// Returns what the key says; refuses it for an architecture for which transformers would not read it.
Result<Bias> ParseBias(const JsonObject& config, std::string_view key, const Architecture& architecture,
                       BiasKeys needed) {
  if (architecture.bias_keys < needed) {
    ROOST_RETURN_IF_ERROR(RefuseWhenTrue(config, key));
    return Bias::kNone;
  }
  ROOST_ASSIGN_OR_RETURN(const bool biased, config.BoolOr(key, false));
  return biased ? Bias::kBiased : Bias::kNone;
}

Result<void> ParseBiases(const JsonObject& config, const Architecture& architecture, HfConfig& result) {
  result.qkv_bias = architecture.qkv_bias;
  // Qwen 2 always has these biases, and its files do not mention them.
  if (architecture.qkv_bias == Bias::kNone) {
    ROOST_ASSIGN_OR_RETURN(result.qkv_bias, ParseBias(config, "attention_bias", architecture, BiasKeys::kAttention));
    result.o_bias = result.qkv_bias;
  }
  ROOST_ASSIGN_OR_RETURN(result.mlp_bias, ParseBias(config, "mlp_bias", architecture, BiasKeys::kAttentionAndMlp));
  return {};
}

// The layers' kinds as layer_types tells them.
enum class LayerTypes : std::uint8_t { kUnsaid, kAllFull, kSomeSliding };

Result<LayerTypes> ParseLayerTypes(const JsonObject& config) {
  ROOST_ASSIGN_OR_RETURN(const auto elements, config.Array("layer_types"));
  LayerTypes result = elements.empty() ? LayerTypes::kUnsaid : LayerTypes::kAllFull;
  for (const simdjson::dom::element& element : elements) {
    std::string_view type;
    const bool is_text = element.get(type) == simdjson::SUCCESS;
    if (is_text && type == "sliding_attention") {
      result = LayerTypes::kSomeSliding;
    } else if (!is_text || type != "full_attention") {
      return config.Complain("layer_types",
                             fmt::format("only full_attention and sliding_attention are supported{}", kOtherEngines));
    }
  }
  return result;
}

// Does any layer have the window that the file names?
Result<bool> UsesWindow(const JsonObject& config, const Architecture& architecture, std::uint32_t layer_count) {
  ROOST_ASSIGN_OR_RETURN(const LayerTypes types, ParseLayerTypes(config));
  const bool always = architecture.window_use == WindowUse::kAlways;
  ROOST_ASSIGN_OR_RETURN(const bool used, config.BoolOr("use_sliding_window", always));
  if (!used && types == LayerTypes::kSomeSliding) {
    return config.Complain("layer_types", "has sliding_attention, but use_sliding_window is not true");
  }
  if (always || !used) return used;
  constexpr std::uint32_t kDefaultFullLayers = 28;
  ROOST_ASSIGN_OR_RETURN(const auto full_layers, config.Count("max_window_layers"));
  return types == LayerTypes::kSomeSliding ||
         (types == LayerTypes::kUnsaid && full_layers.value_or(kDefaultFullLayers) < layer_count);
}

Result<void> ParseSlidingWindow(const JsonObject& config, const Architecture& architecture, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(auto window, config.Count("sliding_window"));
  if (!window && !config.IsNull("sliding_window")) window = architecture.default_window;
  if (window == 0U) return config.Complain("sliding_window", "must not be 0");
  ROOST_ASSIGN_OR_RETURN(const bool used, UsesWindow(config, architecture, result.layer_count));
  if (used) result.sliding_window = window;
  return {};
}

Result<void> RefuseWhatIsNotBuilt(const JsonObject& config) {
  if (config.Find("quantization_config")) {
    return config.Complain("quantization_config", fmt::format("quantized weights are not supported{}", kOtherEngines));
  }
  ROOST_ASSIGN_OR_RETURN(const auto activation, config.String("hidden_act"));
  if (activation && *activation != "silu") {
    return config.Complain("hidden_act",
                           fmt::format("'{}' is not supported, only silu is{}", *activation, kOtherEngines));
  }
  return {};
}

}  // namespace

Result<HfConfig> ParseHfConfig(const JsonObject& config) {
  ROOST_ASSIGN_OR_RETURN(const Architecture* architecture, ParseArchitecture(config));
  HfConfig result;
  result.architecture = architecture->name;
  result.qk_norm = architecture->qk_norm;
  ROOST_RETURN_IF_ERROR(ParseSizes(config, result));
  ROOST_RETURN_IF_ERROR(ParseHeads(config, *architecture, result));
  ROOST_ASSIGN_OR_RETURN(result.rope, ParseRopeConfig(config, result.max_positions));
  result.max_positions = ScaledPositions(result.rope, result.max_positions);
  ROOST_RETURN_IF_ERROR(ParseBiases(config, *architecture, result));
  ROOST_RETURN_IF_ERROR(ParseSlidingWindow(config, *architecture, result));
  ROOST_RETURN_IF_ERROR(RefuseWhatIsNotBuilt(config));
  ROOST_ASSIGN_OR_RETURN(const bool tied, config.BoolOr("tie_word_embeddings", false));
  result.tie = tied ? EmbeddingTie::kTied : EmbeddingTie::kUntied;
  return result;
}

std::uint64_t MatrixElements(const HfConfig& config, TiedTable tied) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t heads = 2 * std::uint64_t{config.query_head_count} + 2 * std::uint64_t{config.kv_head_count};
  const std::uint64_t layer = hidden * (heads * config.head_dim + 3 * std::uint64_t{config.intermediate_size});
  const std::uint64_t tables = config.tie == EmbeddingTie::kTied && tied == TiedTable::kOnce ? 1 : 2;
  return config.layer_count * layer + tables * config.vocab_size * hidden;
}

Result<void> CheckSlidingWindow(const HfConfig& config, std::uint32_t context_tokens) {
  if (!config.sliding_window || context_tokens <= *config.sliding_window) return {};
  return InvalidArgument("sliding_window",
                         "the sliding window of {} tokens is shorter than the context of {}, which is not supported; "
                         "with --max-context-tokens of at most {} the model is served{}",
                         *config.sliding_window, context_tokens, *config.sliding_window, kOtherEngines);
}

}  // namespace roost::worker
