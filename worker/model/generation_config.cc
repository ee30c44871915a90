#include "worker/model/generation_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace roost::worker {
namespace {

using simdjson::dom::element;

// Adds the ids of `key`: one integer or an array of them.
Result<void> AddTokenIds(const JsonObject& object, std::string_view key, std::uint32_t vocab_size,
                         std::vector<TokenId>& ids) {
  const auto found = object.Find(key);
  if (!found) return {};
  std::vector<element> elements{*found};
  if (found->is_array()) {
    ROOST_ASSIGN_OR_RETURN(elements, object.Array(key));
  }
  for (const element& each : elements) {
    double id = 0;
    const bool is_number = each.get(id) == simdjson::SUCCESS;
    if (is_number && id == -1 && !found->is_array()) return {};  // some files say so that there is none
    if (!is_number || id < 0 || id >= vocab_size || id != std::floor(id)) {
      return object.Complain(key, fmt::format("must be a token id below {}, or an array of them", vocab_size));
    }
    const auto token = static_cast<TokenId>(id);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return {};
}

// Files of other servers say "all tokens" as 0 or -1, and some write counts as 50.0.
Result<std::uint32_t> TopKOr(const JsonObject& config, std::uint32_t fallback) {
  ROOST_ASSIGN_OR_RETURN(const auto value, config.Number("top_k"));
  if (!value) return fallback;
  if (*value == -1) return 0U;
  if (!(*value >= 0 && *value <= std::numeric_limits<std::uint32_t>::max()) || *value != std::floor(*value)) {
    return config.Complain("top_k", "must be an integer of 0 to 4294967295, or -1 for all tokens");
  }
  return static_cast<std::uint32_t>(*value);
}

Result<wire::SamplingDefaults> ParseSampling(const JsonObject& config) {
  wire::SamplingDefaults defaults;
  ROOST_ASSIGN_OR_RETURN(const double temperature, config.NumberOr("temperature", defaults.temperature));
  ROOST_ASSIGN_OR_RETURN(const double top_p, config.NumberOr("top_p", defaults.top_p));
  ROOST_ASSIGN_OR_RETURN(defaults.top_k, TopKOr(config, defaults.top_k));
  ROOST_ASSIGN_OR_RETURN(const double min_p, config.NumberOr("min_p", defaults.min_p));
  ROOST_ASSIGN_OR_RETURN(const double repetition, config.NumberOr("repetition_penalty", defaults.repetition_penalty));
  if (!(temperature >= 0 && temperature <= 100)) return config.Complain("temperature", "must lie between 0 and 100");
  if (!(top_p >= 0 && top_p <= 1)) return config.Complain("top_p", "must lie between 0 and 1");
  if (!(min_p >= 0 && min_p <= 1)) return config.Complain("min_p", "must lie between 0 and 1");
  if (!(repetition >= wire::kMinRepetitionPenalty && repetition <= wire::kMaxRepetitionPenalty)) {
    return config.Complain("repetition_penalty", fmt::format("must lie between {} and {}", wire::kMinRepetitionPenalty,
                                                             wire::kMaxRepetitionPenalty));
  }
  defaults.temperature = static_cast<float>(temperature);
  if (top_p == 0) defaults.temperature = 0;  // the likeliest token alone, as with Transformers
  if (top_p > 0) defaults.top_p = static_cast<float>(top_p);
  defaults.min_p = static_cast<float>(min_p);
  defaults.repetition_penalty = static_cast<float>(repetition);
  // Transformers then takes the likeliest token, whatever else the file says about sampling.
  ROOST_ASSIGN_OR_RETURN(const bool draws, config.BoolOr("do_sample", true));
  if (!draws) defaults.temperature = 0;
  return defaults;
}

// A token of tokenizer_config.json: "text" or {"content": "text", …}.
Result<std::string> TokenText(const JsonObject& config, std::string_view key) {
  const auto found = config.Find(key);
  if (!found) return std::string();
  std::string_view text;
  if (found->get(text) == simdjson::SUCCESS) return std::string(text);
  ROOST_ASSIGN_OR_RETURN(const auto object, config.Object(key));
  ROOST_ASSIGN_OR_RETURN(const auto content, object->String("content"));
  if (!content) return config.Complain(key, "must be a string or an object with content");
  return *content;
}

// Older folders say the end token in special_tokens_map.json alone.
Result<std::string> EndTokenOfMap(const std::filesystem::path& directory) {
  const auto path = directory / "special_tokens_map.json";
  if (!std::filesystem::exists(path)) return std::string();
  ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(path, kMaxTokenizerConfigBytes));
  return TokenText(file.root(), "eos_token");
}

}  // namespace

Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory, const JsonObject& model_config,
                                              std::uint32_t vocab_size) {
  GenerationConfig result;
  const auto path = directory / "generation_config.json";
  if (std::filesystem::exists(path)) {
    ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(path, kMaxTokenizerConfigBytes));
    ROOST_ASSIGN_OR_RETURN(result.sampling, ParseSampling(file.root()));
    ROOST_RETURN_IF_ERROR(AddTokenIds(file.root(), "eos_token_id", vocab_size, result.stop_tokens));
  }
  ROOST_RETURN_IF_ERROR(AddTokenIds(model_config, "eos_token_id", vocab_size, result.stop_tokens));
  // Models of text and images keep it with the rest of the text model.
  ROOST_ASSIGN_OR_RETURN(const auto text_config, model_config.Object("text_config"));
  if (text_config) {
    ROOST_RETURN_IF_ERROR(AddTokenIds(*text_config, "eos_token_id", vocab_size, result.stop_tokens));
  }
  return result;
}

Result<ChatFormat> LoadChatFormat(const std::filesystem::path& directory, std::string_view template_name) {
  ChatFormat result;
  std::vector<NamedTemplate> templates;
  const auto config_path = directory / "tokenizer_config.json";
  if (std::filesystem::exists(config_path)) {
    ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(config_path, kMaxTokenizerConfigBytes));
    const JsonObject config = file.root();
    ROOST_ASSIGN_OR_RETURN(templates, LoadChatTemplates(directory, &config));
    ROOST_ASSIGN_OR_RETURN(result.bos_token, TokenText(config, "bos_token"));
    ROOST_ASSIGN_OR_RETURN(result.eos_token, TokenText(config, "eos_token"));
  } else {
    ROOST_ASSIGN_OR_RETURN(templates, LoadChatTemplates(directory, nullptr));
  }
  if (result.eos_token.empty()) {
    ROOST_ASSIGN_OR_RETURN(result.eos_token, EndTokenOfMap(directory));
  }
  ROOST_ASSIGN_OR_RETURN(result.chat_template, ChooseTemplate(templates, template_name));
  result.combined_template = CombineTemplates(templates, template_name);
  return result;
}

}  // namespace roost::worker
