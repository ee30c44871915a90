#include "worker/model/generation_config.h"

#include <algorithm>
#include <cmath>

namespace roost::worker {
namespace {

using simdjson::dom::element;

// The ids of `key`: one integer or an array of them.
Result<std::vector<TokenId>> TokenIds(const JsonObject& object, std::string_view key, std::uint32_t vocab_size) {
  const auto found = object.Find(key);
  if (!found) return std::vector<TokenId>();
  std::vector<element> elements{*found};
  if (found->is_array()) {
    ROOST_ASSIGN_OR_RETURN(elements, object.Array(key));
  }
  std::vector<TokenId> ids;
  for (const element& each : elements) {
    std::uint64_t id = 0;
    if (each.get(id) != simdjson::SUCCESS || id >= vocab_size) {
      return object.Complain(key, fmt::format("must be a token id below {}, or an array of them", vocab_size));
    }
    const auto token = static_cast<TokenId>(id);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return ids;
}

Result<wire::SamplingDefaults> ParseSampling(const JsonObject& config) {
  wire::SamplingDefaults defaults;
  ROOST_ASSIGN_OR_RETURN(const double temperature, config.NumberOr("temperature", defaults.temperature));
  ROOST_ASSIGN_OR_RETURN(const double top_p, config.NumberOr("top_p", defaults.top_p));
  ROOST_ASSIGN_OR_RETURN(const auto top_k, config.Count("top_k"));
  ROOST_ASSIGN_OR_RETURN(const double min_p, config.NumberOr("min_p", defaults.min_p));
  ROOST_ASSIGN_OR_RETURN(const double repetition, config.NumberOr("repetition_penalty", defaults.repetition_penalty));
  if (!(temperature >= 0 && temperature <= 100)) return config.Complain("temperature", "must lie between 0 and 100");
  if (!(top_p > 0 && top_p <= 1)) return config.Complain("top_p", "must be greater than 0 and at most 1");
  if (!(min_p >= 0 && min_p <= 1)) return config.Complain("min_p", "must lie between 0 and 1");
  if (!(repetition >= wire::kMinRepetitionPenalty && repetition <= wire::kMaxRepetitionPenalty)) {
    return config.Complain("repetition_penalty", fmt::format("must lie between {} and {}", wire::kMinRepetitionPenalty,
                                                             wire::kMaxRepetitionPenalty));
  }
  defaults.temperature = static_cast<float>(temperature);
  defaults.top_p = static_cast<float>(top_p);
  defaults.top_k = top_k.value_or(defaults.top_k);
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

// "chat_template": a string, or [{"name": …, "template": …}], where the one named "default" is taken.
Result<std::string> TemplateOf(const JsonObject& config) {
  const auto found = config.Find("chat_template");
  if (!found) return std::string();
  std::string_view text;
  if (found->get(text) == simdjson::SUCCESS) return std::string(text);
  ROOST_ASSIGN_OR_RETURN(const auto entries, config.Array("chat_template"));
  for (const element& entry : entries) {
    std::string_view name;
    if (entry["name"].get(name) == simdjson::SUCCESS && name == "default" &&
        entry["template"].get(text) == simdjson::SUCCESS) {
      return std::string(text);
    }
  }
  return config.Complain("chat_template", "must be a string or a list with one named default");
}

}  // namespace

Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory, const JsonObject& model_config,
                                              std::uint32_t vocab_size) {
  GenerationConfig result;
  const auto path = directory / "generation_config.json";
  if (std::filesystem::exists(path)) {
    ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(path, kMaxTokenizerConfigBytes));
    ROOST_ASSIGN_OR_RETURN(result.sampling, ParseSampling(file.root()));
    ROOST_ASSIGN_OR_RETURN(result.stop_tokens, TokenIds(file.root(), "eos_token_id", vocab_size));
  }
  if (result.stop_tokens.empty()) {
    ROOST_ASSIGN_OR_RETURN(result.stop_tokens, TokenIds(model_config, "eos_token_id", vocab_size));
  }
  return result;
}

Result<ChatFormat> LoadChatFormat(const std::filesystem::path& directory) {
  ChatFormat result;
  const auto config_path = directory / "tokenizer_config.json";
  if (std::filesystem::exists(config_path)) {
    ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Load(config_path, kMaxTokenizerConfigBytes));
    ROOST_ASSIGN_OR_RETURN(result.chat_template, TemplateOf(file.root()));
    ROOST_ASSIGN_OR_RETURN(result.bos_token, TokenText(file.root(), "bos_token"));
    ROOST_ASSIGN_OR_RETURN(result.eos_token, TokenText(file.root(), "eos_token"));
  }
  const auto template_path = directory / "chat_template.jinja";
  if (std::filesystem::exists(template_path)) {
    ROOST_ASSIGN_OR_RETURN(result.chat_template, ReadSmallFile(template_path, kMaxChatTemplateBytes));
  }
  return result;
}

}  // namespace roost::worker
