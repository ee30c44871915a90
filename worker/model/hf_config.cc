#include "worker/model/hf_config.h"

#include <algorithm>
#include <array>

namespace roost::worker {
namespace {

struct Architecture {
  std::string_view name;
  QkvBias qkv_bias;
  QkNorm qk_norm;
  std::uint32_t default_head_dim;  // 0: hidden_size / num_attention_heads
};

constexpr std::array<Architecture, 4> kArchitectures{{{"LlamaForCausalLM", QkvBias::kNone, QkNorm::kNone, 0},
                                                      {"MistralForCausalLM", QkvBias::kNone, QkNorm::kNone, 0},
                                                      {"Qwen2ForCausalLM", QkvBias::kBiased, QkNorm::kNone, 0},
                                                      {"Qwen3ForCausalLM", QkvBias::kNone, QkNorm::kNormed, 128}}};

Result<const Architecture*> ParseArchitecture(const JsonObject& config) {
  ROOST_ASSIGN_OR_RETURN(const auto names, config.Array("architectures"));
  std::string_view name;
  if (names.empty() || names.front().get(name) != simdjson::SUCCESS) {
    return config.Complain("architectures", "must name the model's class");
  }
  const auto* found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                   [name](const Architecture& known) { return known.name == name; });
  if (found != kArchitectures.end()) return found;
  return config.Complain("architectures",
                         fmt::format("'{}' is not supported: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM "
                                     "and Qwen3ForCausalLM are",
                                     name.substr(0, 100)));
}

Result<std::uint32_t> BoundedCount(const JsonObject& config, std::string_view key, std::uint32_t limit) {
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t value, config.RequiredCount(key));
  if (value > limit) return config.Complain(key, fmt::format("is {}, at most {} is believed", value, limit));
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
                                                   "together at most {} wide",
                                                   result.head_dim, kMaxHeadDim, kMaxWidth));
  }
  return {};
}

Result<double> PositiveNumber(const JsonObject& object, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const auto value, object.Number(key));
  if (!value || !(*value > 0)) return object.Complain(key, "must be a positive number");
  return *value;
}

Result<Llama3Scaling> ParseLlama3Scaling(const JsonObject& scaling) {
  Llama3Scaling result;
  ROOST_ASSIGN_OR_RETURN(result.factor, PositiveNumber(scaling, "factor"));
  ROOST_ASSIGN_OR_RETURN(result.low_freq_factor, PositiveNumber(scaling, "low_freq_factor"));
  ROOST_ASSIGN_OR_RETURN(result.high_freq_factor, PositiveNumber(scaling, "high_freq_factor"));
  ROOST_ASSIGN_OR_RETURN(result.original_max_positions, PositiveNumber(scaling, "original_max_position_embeddings"));
  if (result.high_freq_factor <= result.low_freq_factor) {
    return scaling.Complain("high_freq_factor", "must be greater than low_freq_factor");
  }
  return result;
}

// rope_theta at the top and rope_scaling beside it, or both inside rope_parameters, as newer files have it.
Result<void> ParseRope(const JsonObject& config, RopeConfig& result) {
  ROOST_ASSIGN_OR_RETURN(const auto parameters, config.Object("rope_parameters"));
  ROOST_ASSIGN_OR_RETURN(const auto scaling, config.Object("rope_scaling"));
  const JsonObject& theta_at = parameters ? *parameters : config;
  ROOST_ASSIGN_OR_RETURN(const double top_theta, config.NumberOr("rope_theta", 10000));
  ROOST_ASSIGN_OR_RETURN(result.theta, theta_at.NumberOr("rope_theta", top_theta));
  if (!(result.theta >= 1)) return theta_at.Complain("rope_theta", "must be at least 1");

  const std::optional<JsonObject>& described = parameters ? parameters : scaling;
  if (!described) return {};
  ROOST_ASSIGN_OR_RETURN(auto type, described->String("rope_type"));
  if (!type) {
    ROOST_ASSIGN_OR_RETURN(type, described->String("type"));
  }
  if (!type || *type == "default") return {};
  if (*type != "llama3") {
    return described->Complain("rope_type", fmt::format("'{}' is not supported: default and llama3 are", *type));
  }
  ROOST_ASSIGN_OR_RETURN(result.llama3, ParseLlama3Scaling(*described));
  return {};
}

// Keys that must be off.
Result<void> RefuseWhenTrue(const JsonObject& config, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const bool value, config.BoolOr(key, false));
  if (value) return config.Complain(key, "true is not supported");
  return {};
}

Result<void> RefuseSlidingWindow(const JsonObject& config, std::string_view architecture, std::uint32_t max_positions) {
  ROOST_ASSIGN_OR_RETURN(const auto window, config.Count("sliding_window"));
  // Qwen's files name a window and say beside it that it is not used.
  const bool used_unless_said = architecture == "MistralForCausalLM";
  ROOST_ASSIGN_OR_RETURN(const bool used, config.BoolOr("use_sliding_window", used_unless_said));
  if (used && window && *window < max_positions) {
    return config.Complain("sliding_window", fmt::format("{} is not supported: it must be null or at least "
                                                         "max_position_embeddings, {}",
                                                         *window, max_positions));
  }
  ROOST_ASSIGN_OR_RETURN(const auto layer_types, config.Array("layer_types"));
  for (const simdjson::dom::element& element : layer_types) {
    std::string_view type;
    if (element.get(type) != simdjson::SUCCESS || type != "full_attention") {
      return config.Complain("layer_types", "only full_attention is supported");
    }
  }
  return {};
}

Result<void> RefuseWhatIsNotBuilt(const JsonObject& config, std::string_view architecture, const HfConfig& result) {
  if (config.Find("quantization_config")) {
    return config.Complain("quantization_config", "quantized weights are not supported");
  }
  ROOST_ASSIGN_OR_RETURN(const auto activation, config.String("hidden_act"));
  if (activation && *activation != "silu") {
    return config.Complain("hidden_act", fmt::format("'{}' is not supported: silu is", *activation));
  }
  ROOST_ASSIGN_OR_RETURN(const double rotated, config.NumberOr("partial_rotary_factor", 1));
  if (rotated != 1) return config.Complain("partial_rotary_factor", "must be 1");
  // Qwen 2 always has its biases, and its files do not say so.
  if (result.qkv_bias == QkvBias::kNone) ROOST_RETURN_IF_ERROR(RefuseWhenTrue(config, "attention_bias"));
  ROOST_RETURN_IF_ERROR(RefuseWhenTrue(config, "mlp_bias"));
  return RefuseSlidingWindow(config, architecture, result.max_positions);
}

}  // namespace

Result<HfConfig> ParseHfConfig(const JsonObject& config) {
  ROOST_ASSIGN_OR_RETURN(const Architecture* architecture, ParseArchitecture(config));
  HfConfig result;
  result.architecture = architecture->name;
  result.qkv_bias = architecture->qkv_bias;
  result.qk_norm = architecture->qk_norm;
  ROOST_RETURN_IF_ERROR(ParseSizes(config, result));
  ROOST_RETURN_IF_ERROR(ParseHeads(config, *architecture, result));
  ROOST_RETURN_IF_ERROR(ParseRope(config, result.rope));
  ROOST_RETURN_IF_ERROR(RefuseWhatIsNotBuilt(config, architecture->name, result));
  ROOST_ASSIGN_OR_RETURN(const bool tied, config.BoolOr("tie_word_embeddings", false));
  result.tie = tied ? EmbeddingTie::kTied : EmbeddingTie::kUntied;
  return result;
}

}  // namespace roost::worker
