#include "worker/model/loading/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "common/text/chat_template.h"

namespace roost::worker {
namespace {

constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";
constexpr std::string_view kFlag = "chat-template";

// Names stand in the combined source, so they hold nothing that could end a string there.
Result<void> CheckTemplateName(std::string_view name, const std::string& where) {
  constexpr std::size_t kMaxNameBytes = 64;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (is_plain && !name.empty() && name.size() <= kMaxNameBytes) return {};
  return InvalidArgument(where, "a chat template's name must be 1 to {} letters, digits, '_', '-' or '.'",
                         kMaxNameBytes);
}

std::string_view UsualName(std::string_view chosen) { return chosen.empty() ? kDefault : chosen; }

const NamedTemplate* Find(const std::vector<NamedTemplate>& templates, std::string_view name) {
  const auto found =
      std::find_if(templates.begin(), templates.end(), [&](const NamedTemplate& each) { return each.name == name; });
  return found == templates.end() ? nullptr : &*found;
}

Result<void> Put(NamedTemplate added, const std::string& where, std::vector<NamedTemplate>& templates) {
  ROOST_RETURN_IF_ERROR(CheckTemplateName(added.name, where));
  std::erase_if(templates, [&](const NamedTemplate& each) { return each.name == added.name; });
  if (templates.size() == kMaxChatTemplates) {
    return InvalidArgument(where, "has more than {} chat templates", kMaxChatTemplates);
  }
  templates.push_back(std::move(added));
  return {};
}

// "chat_template": a string, or [{"name": …, "template": …}].
Result<void> ReadConfig(const JsonNode& config, std::vector<NamedTemplate>& templates) {
  const auto found = config.Member("chat_template");
  if (!found) return {};
  std::string_view text;
  if (found->get(text) == simdjson::SUCCESS) {
    templates.push_back({std::string(kDefault), std::string(text)});
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const auto entries, config.Array("chat_template"));
  for (const simdjson::dom::element& entry : entries) {
    std::string_view name;
    if (entry["name"].get(name) != simdjson::SUCCESS || entry["template"].get(text) != simdjson::SUCCESS) {
      return config.Complain("chat_template", "must be a string or a list of objects with name and template");
    }
    ROOST_RETURN_IF_ERROR(Put({std::string(name), std::string(text)}, "tokenizer_config.json", templates));
  }
  return {};
}

Result<void> ReadAdditional(const std::filesystem::path& folder, std::vector<NamedTemplate>& templates) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jinja") continue;
    if (paths.size() == kMaxChatTemplates) {
      return InvalidArgument(folder.string(), "has more than {} chat templates", kMaxChatTemplates);
    }
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the order of a folder differs between file systems; the source must not
  for (const std::filesystem::path& path : paths) {
    ROOST_ASSIGN_OR_RETURN(std::string source, ReadSmallFile(path, kMaxChatTemplateBytes));
    ROOST_RETURN_IF_ERROR(Put({path.stem().string(), std::move(source)}, path.string(), templates));
  }
  return {};
}

std::string NamesOf(const std::vector<NamedTemplate>& templates) {
  std::string names;
  for (const NamedTemplate& each : templates) names += (names.empty() ? "" : ", ") + each.name;
  return names;
}

// A branch of the combined source. The line break behind the tag is the tag's (trim_blocks), and a template's last one
// is not part of it; `+` keeps spaces at the end of the body before (lstrip_blocks).
void AppendBranch(std::string_view tag, std::string_view body, std::string& source) {
  if (body.ends_with('\n')) body.remove_suffix(1);
  source += fmt::format("{{%{} {} %}}\n", source.empty() ? "" : "+", tag);
  source += body;
}

}  // namespace

Result<std::vector<NamedTemplate>> LoadChatTemplates(const std::filesystem::path& directory, const JsonNode* config) {
  std::vector<NamedTemplate> templates;
  const auto path = directory / "chat_template.jinja";
  if (std::filesystem::exists(path)) {
    ROOST_ASSIGN_OR_RETURN(std::string source, ReadSmallFile(path, kMaxChatTemplateBytes));
    templates.push_back({std::string(kDefault), std::move(source)});
  } else if (config != nullptr) {
    ROOST_RETURN_IF_ERROR(ReadConfig(*config, templates));
  }
  ROOST_RETURN_IF_ERROR(ReadAdditional(directory / "additional_chat_templates", templates));
  return templates;
}

Result<std::string> ChooseTemplate(const std::vector<NamedTemplate>& templates, std::string_view chosen) {
  if (templates.empty() && chosen.empty()) return std::string();
  const NamedTemplate* usual = Find(templates, UsualName(chosen));
  if (usual != nullptr) return usual->source;
  if (templates.empty()) return InvalidArgument(std::string(kFlag), "the model has no chat template");
  return InvalidArgument(std::string(kFlag), "chat_template has none with the name '{}', it has: {}", UsualName(chosen),
                         NamesOf(templates));
}

std::string CombineTemplates(const std::vector<NamedTemplate>& templates, std::string_view chosen) {
  if (templates.size() <= 1) return templates.empty() ? "" : templates.front().source;
  std::string source;
  for (const NamedTemplate& each : templates) {
    AppendBranch(fmt::format("{} {}'{}'", source.empty() ? "if" : "elif", kTemplateNameTest, each.name), each.source,
                 source);
  }
  AppendBranch("elif chat_template is defined",
               fmt::format("{{{{ raise_exception('{}, there are: {}') }}}}", kUnknownTemplateName, NamesOf(templates)),
               source);
  const NamedTemplate* with_tools = chosen.empty() ? Find(templates, kToolUse) : nullptr;
  if (with_tools != nullptr) AppendBranch("elif tools", with_tools->source, source);
  AppendBranch("else", Find(templates, UsualName(chosen))->source, source);
  return source + "{%+ endif %}";
}

namespace {

using simdjson::dom::element;

// Adds the ids of `key`: one integer or an array of them.
Result<void> AddTokenIds(const JsonNode& object, std::string_view key, std::uint32_t vocab_size,
                         std::vector<TokenId>& ids) {
  const auto found = object.Member(key);
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
Result<std::uint32_t> TopKOr(const JsonNode& config, std::uint32_t fallback) {
  ROOST_ASSIGN_OR_RETURN(const auto value, config.Find<double>("top_k"));
  if (!value) return fallback;
  if (*value == -1) return 0U;
  if (!(*value >= 0 && *value <= std::numeric_limits<std::uint32_t>::max()) || *value != std::floor(*value)) {
    return config.Complain("top_k", "must be an integer of 0 to 4294967295, or -1 for all tokens");
  }
  return static_cast<std::uint32_t>(*value);
}

Result<wire::SamplingDefaults> ParseSampling(const JsonNode& config) {
  wire::SamplingDefaults defaults;
  ROOST_ASSIGN_OR_RETURN(const double temperature, config.Or<double>("temperature", defaults.temperature));
  ROOST_ASSIGN_OR_RETURN(const double top_p, config.Or<double>("top_p", defaults.top_p));
  ROOST_ASSIGN_OR_RETURN(defaults.top_k, TopKOr(config, defaults.top_k));
  ROOST_ASSIGN_OR_RETURN(const double min_p, config.Or<double>("min_p", defaults.min_p));
  ROOST_ASSIGN_OR_RETURN(const double repetition, config.Or<double>("repetition_penalty", defaults.repetition_penalty));
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
  ROOST_ASSIGN_OR_RETURN(const bool draws, config.Or<bool>("do_sample", true));
  if (!draws) defaults.temperature = 0;
  return defaults;
}

// A token of tokenizer_config.json: "text" or {"content": "text", …}.
Result<std::string> TokenText(const JsonNode& config, std::string_view key) {
  const auto found = config.Member(key);
  if (!found) return std::string();
  std::string_view text;
  if (found->get(text) == simdjson::SUCCESS) return std::string(text);
  ROOST_ASSIGN_OR_RETURN(const auto object, config.Object(key));
  ROOST_ASSIGN_OR_RETURN(const auto content, object->Find<std::string>("content"));
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

Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory, const JsonNode& model_config,
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
    const JsonNode config = file.root();
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
