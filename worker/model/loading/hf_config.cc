#include "worker/model/loading/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <string>
#include <string_view>

namespace roost::worker {
namespace {

using Frequencies = std::vector<float>;

void Scale(std::monostate /*none*/, const RopeConfig& /*config*/, Frequencies& /*frequencies*/) {}

void Scale(const LinearScaling& scaling, const RopeConfig& /*config*/, Frequencies& frequencies) {
  for (float& frequency : frequencies) frequency /= static_cast<float>(scaling.factor);
}

float Scaled(float frequency, const Llama3Scaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / double{frequency};
  const double longest_kept = scaling.original_max_positions / scaling.high_freq_factor;
  const double shortest_stretched = scaling.original_max_positions / scaling.low_freq_factor;
  if (wavelength < longest_kept) return frequency;
  const double stretched = double{frequency} / scaling.factor;
  if (wavelength > shortest_stretched) return static_cast<float>(stretched);
  const double kept_share = (scaling.original_max_positions / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
  return static_cast<float>((1 - kept_share) * stretched + kept_share * double{frequency});
}

void Scale(const Llama3Scaling& scaling, const RopeConfig& /*config*/, Frequencies& frequencies) {
  for (float& frequency : frequencies) frequency = Scaled(frequency, scaling);
}

// The index of the element, as a real number, whose pair turns this many times in the original context.
double ElementThatTurns(double times, const YarnScaling& scaling, double theta, std::size_t head_dim) {
  return static_cast<double>(head_dim) * std::log(scaling.original_max_positions / (times * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

void Scale(const YarnScaling& scaling, const RopeConfig& config, Frequencies& frequencies) {
  const std::size_t head_dim = 2 * frequencies.size();
  double kept_to = ElementThatTurns(scaling.beta_fast, scaling, config.theta, head_dim);
  double stretched_from = ElementThatTurns(scaling.beta_slow, scaling, config.theta, head_dim);
  if (scaling.bounds == YarnBounds::kWholeElements) {
    kept_to = std::floor(kept_to);
    stretched_from = std::ceil(stretched_from);
  }
  kept_to = std::max(kept_to, 0.0);
  stretched_from = std::min(stretched_from, static_cast<double>(head_dim - 1));
  if (kept_to == stretched_from) stretched_from += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp =
        (static_cast<float>(i) - static_cast<float>(kept_to)) / static_cast<float>(stretched_from - kept_to);
    const float kept_share = 1 - std::clamp(ramp, 0.0F, 1.0F);
    const float stretched = frequencies[i] / static_cast<float>(scaling.factor);
    frequencies[i] = stretched * (1 - kept_share) + frequencies[i] * kept_share;
  }
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& config, std::uint32_t head_dim) {
  Frequencies frequencies;
  for (std::uint32_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    frequencies.push_back(1 / std::pow(static_cast<float>(config.theta), exponent));
  }
  std::visit([&](const auto& scaling) { Scale(scaling, config, frequencies); }, config.scaling);
  return frequencies;
}

double ScoreFactor(const RopeConfig& config) {
  const auto* yarn = std::get_if<YarnScaling>(&config.scaling);
  return yarn != nullptr ? yarn->attention_factor * yarn->attention_factor : 1;
}

namespace {

// The object that describes the embedding, and the objects beside it.
struct Source {
  const JsonNode& described;
  const JsonNode& config;
  std::uint32_t max_positions;
};

constexpr std::array<std::string_view, 4> kCommonKeys{"rope_type", "type", "rope_theta", "partial_rotary_factor"};
constexpr std::array<std::string_view, 1> kLinearKeys{"factor"};
constexpr std::array<std::string_view, 4> kLlama3Keys{"factor", "low_freq_factor", "high_freq_factor",
                                                      "original_max_position_embeddings"};
constexpr std::array<std::string_view, 8> kYarnKeys{"factor",           "original_max_position_embeddings",
                                                    "attention_factor", "beta_fast",
                                                    "beta_slow",        "mscale",
                                                    "mscale_all_dim",   "truncate"};

bool Contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// The keys of an object that are not null.
std::vector<std::string_view> KeysOf(const JsonNode& object) {
  std::vector<std::string_view> keys;
  for (const simdjson::dom::key_value_pair entry : simdjson::dom::object(object.element())) {
    if (!entry.value.is_null()) keys.push_back(entry.key);
  }
  return keys;
}

Result<void> RefuseOtherKeys(const JsonNode& described, std::string_view type, std::span<const std::string_view> keys) {
  for (const std::string_view key : KeysOf(described)) {
    if (Contains(kCommonKeys, key) || Contains(keys, key)) continue;
    if (described.Member(key)->is_object()) {
      return described.Complain(
          key, fmt::format("parameters that differ between layers are not supported{}", kOtherEngines));
    }
    return described.Complain(key, fmt::format("is not known for rope_type '{}'", type));
  }
  return {};
}

Result<double> Positive(const JsonNode& object, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const auto value, object.Find<double>(key));
  if (!value || !(*value > 0)) return object.Complain(key, "must be a positive number");
  return *value;
}

Result<double> PositiveOr(const JsonNode& object, std::string_view key, double fallback) {
  return object.Member(key) ? Positive(object, key) : Result<double>(fallback);
}

// The value at the top of the file counts if both objects have one, as in some files from before rope_parameters.
// Nothing if neither has it.
Result<std::optional<double>> OriginalPositions(const Source& source) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  for (const JsonNode* const object : {&source.config, &source.described}) {
    if (!object->Member(kKey)) continue;
    ROOST_ASSIGN_OR_RETURN(const double positions, Positive(*object, kKey));
    return std::optional<double>(positions);
  }
  return std::optional<double>();
}

Result<LinearScaling> ParseLinear(const Source& source) {
  LinearScaling result;
  ROOST_RETURN_IF_ERROR(RefuseOtherKeys(source.described, "linear", kLinearKeys));
  ROOST_ASSIGN_OR_RETURN(result.factor, Positive(source.described, "factor"));
  return result;
}

Result<Llama3Scaling> ParseLlama3(const Source& source) {
  Llama3Scaling result;
  const JsonNode& scaling = source.described;
  ROOST_RETURN_IF_ERROR(RefuseOtherKeys(scaling, "llama3", kLlama3Keys));
  ROOST_ASSIGN_OR_RETURN(result.factor, Positive(scaling, "factor"));
  ROOST_ASSIGN_OR_RETURN(result.low_freq_factor, Positive(scaling, "low_freq_factor"));
  ROOST_ASSIGN_OR_RETURN(result.high_freq_factor, Positive(scaling, "high_freq_factor"));
  ROOST_ASSIGN_OR_RETURN(const auto original, OriginalPositions(source));
  if (!original) return scaling.Complain("original_max_position_embeddings", "must be a positive number");
  result.original_max_positions = *original;
  if (result.high_freq_factor <= result.low_freq_factor) {
    return scaling.Complain("high_freq_factor", "must be greater than low_freq_factor");
  }
  return result;
}

// The attention_factor that is given; else the ratio of the paper's factor for both mscale weights, if both are given;
// else the paper's factor.
Result<double> AttentionFactor(const JsonNode& scaling, double factor) {
  if (scaling.Member("attention_factor")) return Positive(scaling, "attention_factor");
  const auto scale_of = [factor](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1; };
  ROOST_ASSIGN_OR_RETURN(const double weight, scaling.Or<double>("mscale", 0));
  ROOST_ASSIGN_OR_RETURN(const double all_weight, scaling.Or<double>("mscale_all_dim", 0));
  if (weight < 0 || all_weight < 0) return scaling.Complain("mscale", "and mscale_all_dim must not be negative");
  return weight > 0 && all_weight > 0 ? scale_of(weight) / scale_of(all_weight) : scale_of(1);
}

Result<YarnScaling> ParseYarn(const Source& source) {
  YarnScaling result;
  const JsonNode& scaling = source.described;
  ROOST_RETURN_IF_ERROR(RefuseOtherKeys(scaling, "yarn", kYarnKeys));
  ROOST_ASSIGN_OR_RETURN(result.factor, Positive(scaling, "factor"));
  ROOST_ASSIGN_OR_RETURN(const auto original, OriginalPositions(source));
  result.original_max_positions = original.value_or(source.max_positions);
  ROOST_ASSIGN_OR_RETURN(result.beta_fast, PositiveOr(scaling, "beta_fast", result.beta_fast));
  ROOST_ASSIGN_OR_RETURN(result.beta_slow, PositiveOr(scaling, "beta_slow", result.beta_slow));
  if (result.beta_fast < result.beta_slow) return scaling.Complain("beta_fast", "must be at least beta_slow");
  ROOST_ASSIGN_OR_RETURN(const bool truncates, scaling.Or<bool>("truncate", true));
  result.bounds = truncates ? YarnBounds::kWholeElements : YarnBounds::kExact;
  ROOST_ASSIGN_OR_RETURN(result.attention_factor, AttentionFactor(scaling, result.factor));
  return result;
}

// "rope_type", or "type" in older files.
Result<std::optional<std::string>> TypeOf(const JsonNode& described) {
  ROOST_ASSIGN_OR_RETURN(auto type, described.Find<std::string>("rope_type"));
  ROOST_ASSIGN_OR_RETURN(auto old_type, described.Find<std::string>("type"));
  if (type && old_type && *type != *old_type) {
    return described.Complain("type", fmt::format("'{}' and rope_type, '{}', contradict each other", *old_type, *type));
  }
  return type ? type : old_type;
}

Result<void> ParseScaling(const Source& source, std::string_view type, RopeConfig& result) {
  if (type == "default") return RefuseOtherKeys(source.described, type, {});
  if (type == "linear") {
    ROOST_ASSIGN_OR_RETURN(result.scaling, ParseLinear(source));
  } else if (type == "llama3") {
    ROOST_ASSIGN_OR_RETURN(result.scaling, ParseLlama3(source));
  } else if (type == "yarn") {
    ROOST_ASSIGN_OR_RETURN(result.scaling, ParseYarn(source));
  } else {
    return source.described.Complain(
        "rope_type",
        fmt::format("'{}' is not supported, only default, linear, llama3 and yarn are{}", type, kOtherEngines));
  }
  return {};
}

// The supported models rotate whole heads, and Hugging Face transformers has no other form of them.
Result<void> RefusePartialRotation(const JsonNode& object) {
  ROOST_ASSIGN_OR_RETURN(const double rotated, object.Or<double>("partial_rotary_factor", 1));
  if (rotated != 1) return object.Complain("partial_rotary_factor", fmt::format("is {}, only 1 is supported", rotated));
  return {};
}

}  // namespace

Result<RopeConfig> ParseRopeConfig(const JsonNode& config, std::uint32_t max_positions) {
  RopeConfig result;
  ROOST_ASSIGN_OR_RETURN(const auto parameters, config.Object("rope_parameters"));
  ROOST_ASSIGN_OR_RETURN(const auto scaling, config.Object("rope_scaling"));
  if (parameters && scaling) return config.Complain("rope_scaling", "and rope_parameters are both given");
  const JsonNode& described = parameters ? *parameters : (scaling ? *scaling : config);
  ROOST_ASSIGN_OR_RETURN(const double top_theta, config.Or<double>("rope_theta", result.theta));
  ROOST_ASSIGN_OR_RETURN(result.theta, described.Or<double>("rope_theta", top_theta));
  if (!(result.theta > 1)) return described.Complain("rope_theta", "must be greater than 1");
  ROOST_RETURN_IF_ERROR(RefusePartialRotation(config));
  ROOST_RETURN_IF_ERROR(RefusePartialRotation(described));
  if (!parameters && !scaling) return result;
  ROOST_ASSIGN_OR_RETURN(const auto type, TypeOf(described));
  // Scaling without a type would be ignored. A theta alone needs no type.
  if (!type && (scaling || described.Member("factor"))) return described.Complain("rope_type", "is missing");
  ROOST_RETURN_IF_ERROR(ParseScaling({described, config, max_positions}, type.value_or("default"), result));
  return result;
}

std::uint32_t ScaledPositions(const RopeConfig& rope, std::uint32_t max_positions) {
  const auto* yarn = std::get_if<YarnScaling>(&rope.scaling);
  if (yarn == nullptr) return max_positions;
  const double scaled = std::min<double>(yarn->factor * yarn->original_max_positions, kMaxPositions);
  return std::max(max_positions, static_cast<std::uint32_t>(scaled));
}

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

Result<const Architecture*> ParseArchitecture(const JsonNode& config) {
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

Result<std::uint32_t> BoundedCount(const JsonNode& config, std::string_view key, std::uint32_t limit) {
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t value, config.GetCount(key));
  if (value > limit) return config.Complain(key, fmt::format("is {}, and at most {} is accepted", value, limit));
  return value;
}

Result<void> ParseSizes(const JsonNode& config, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(result.vocab_size, BoundedCount(config, "vocab_size", kMaxVocabSize));
  ROOST_ASSIGN_OR_RETURN(result.hidden_size, BoundedCount(config, "hidden_size", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(result.intermediate_size, BoundedCount(config, "intermediate_size", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(result.layer_count, BoundedCount(config, "num_hidden_layers", kMaxLayers));
  ROOST_ASSIGN_OR_RETURN(result.max_positions, BoundedCount(config, "max_position_embeddings", kMaxPositions));
  ROOST_ASSIGN_OR_RETURN(const double epsilon, config.Or<double>("rms_norm_eps", 1e-6));
  if (!(epsilon > 0 && epsilon < 1)) return config.Complain("rms_norm_eps", "must lie between 0 and 1");
  result.norm_epsilon = static_cast<float>(epsilon);
  return {};
}

Result<void> ParseHeads(const JsonNode& config, const Architecture& architecture, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(result.query_head_count, BoundedCount(config, "num_attention_heads", kMaxWidth));
  ROOST_ASSIGN_OR_RETURN(const auto kv_heads, config.Find<std::uint32_t>("num_key_value_heads"));
  result.kv_head_count = kv_heads.value_or(result.query_head_count);
  if (result.kv_head_count == 0 || result.query_head_count % result.kv_head_count != 0) {
    return config.Complain("num_key_value_heads", fmt::format("is {}, must divide num_attention_heads, {}",
                                                              result.kv_head_count, result.query_head_count));
  }
  ROOST_ASSIGN_OR_RETURN(const auto head_dim, config.Find<std::uint32_t>("head_dim"));
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
Result<void> RefuseWhenTrue(const JsonNode& config, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const bool value, config.Or<bool>(key, false));
  if (value) return config.Complain(key, fmt::format("true is not supported{}", kOtherEngines));
  return {};
}

// Returns what the key says; refuses it for an architecture for which transformers would not read it.
Result<Bias> ParseBias(const JsonNode& config, std::string_view key, const Architecture& architecture,
                       BiasKeys needed) {
  if (architecture.bias_keys < needed) {
    ROOST_RETURN_IF_ERROR(RefuseWhenTrue(config, key));
    return Bias::kNone;
  }
  ROOST_ASSIGN_OR_RETURN(const bool biased, config.Or<bool>(key, false));
  return biased ? Bias::kBiased : Bias::kNone;
}

Result<void> ParseBiases(const JsonNode& config, const Architecture& architecture, HfConfig& result) {
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

Result<LayerTypes> ParseLayerTypes(const JsonNode& config) {
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
Result<bool> UsesWindow(const JsonNode& config, const Architecture& architecture, std::uint32_t layer_count) {
  ROOST_ASSIGN_OR_RETURN(const LayerTypes types, ParseLayerTypes(config));
  const bool always = architecture.window_use == WindowUse::kAlways;
  ROOST_ASSIGN_OR_RETURN(const bool used, config.Or<bool>("use_sliding_window", always));
  if (!used && types == LayerTypes::kSomeSliding) {
    return config.Complain("layer_types", "has sliding_attention, but use_sliding_window is not true");
  }
  if (always || !used) return used;
  constexpr std::uint32_t kDefaultFullLayers = 28;
  ROOST_ASSIGN_OR_RETURN(const auto full_layers, config.Find<std::uint32_t>("max_window_layers"));
  return types == LayerTypes::kSomeSliding ||
         (types == LayerTypes::kUnsaid && full_layers.value_or(kDefaultFullLayers) < layer_count);
}

// For the one key where null and absence mean different things.
bool IsNull(const JsonNode& config, std::string_view key) {
  simdjson::dom::element member;
  return config.element().at_key(key).get(member) == simdjson::SUCCESS && member.is_null();
}

Result<void> ParseSlidingWindow(const JsonNode& config, const Architecture& architecture, HfConfig& result) {
  ROOST_ASSIGN_OR_RETURN(auto window, config.Find<std::uint32_t>("sliding_window"));
  if (!window && !IsNull(config, "sliding_window")) window = architecture.default_window;
  if (window == 0U) return config.Complain("sliding_window", "must not be 0");
  ROOST_ASSIGN_OR_RETURN(const bool used, UsesWindow(config, architecture, result.layer_count));
  if (used) result.sliding_window = window;
  return {};
}

Result<void> RefuseWhatIsNotBuilt(const JsonNode& config) {
  if (config.Member("quantization_config")) {
    return config.Complain("quantization_config", fmt::format("quantized weights are not supported{}", kOtherEngines));
  }
  ROOST_ASSIGN_OR_RETURN(const auto activation, config.Find<std::string>("hidden_act"));
  if (activation && *activation != "silu") {
    return config.Complain("hidden_act",
                           fmt::format("'{}' is not supported, only silu is{}", *activation, kOtherEngines));
  }
  return {};
}

}  // namespace

Result<HfConfig> ParseHfConfig(const JsonNode& config) {
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
  ROOST_ASSIGN_OR_RETURN(const bool tied, config.Or<bool>("tie_word_embeddings", false));
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
