// The small files beside the weights: generation_config.json, tokenizer_config.json, chat templates. All are optional,
// but those that exist must be valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/json/json_node.h"
#include "common/wire/messages.h"

namespace roost::worker {

// The chat templates of a folder, as one template that chooses among them.
//
// A folder may have several, each with a name: transformers takes `tool_use` for a request with tools and `default` for
// any other. Routers know one template of a model. So several become the branches of one source, which looks at `tools`
// and at the variable `chat_template`, with which a request names another (chat_template_kwargs).

inline constexpr std::size_t kMaxChatTemplateBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxChatTemplates = 32;

struct NamedTemplate {
  std::string name;
  std::string source;
};

// The templates of tokenizer_config.json (`config`; null: there is none), of chat_template.jinja and of
// additional_chat_templates/NAME.jinja. chat_template.jinja replaces those of the config. A single one is "default".
[[nodiscard]] Result<std::vector<NamedTemplate>> LoadChatTemplates(const std::filesystem::path& directory,
                                                                   const JsonNode* config);

// The source of the template with the name `chosen`; empty: of "default". Empty without templates. An error lists the
// names that there are.
[[nodiscard]] Result<std::string> ChooseTemplate(const std::vector<NamedTemplate>& templates, std::string_view chosen);

// One source for all. Without a `chosen` template, requests with tools get "tool_use" where it is there. Only after
// ChooseTemplate.
[[nodiscard]] std::string CombineTemplates(const std::vector<NamedTemplate>& templates, std::string_view chosen);

inline constexpr std::size_t kMaxTokenizerConfigBytes = std::size_t{16} << 20U;
struct GenerationConfig {
  wire::SamplingDefaults sampling;
  std::vector<TokenId> stop_tokens;  // eos_token_id of both files, one or several each, without repetition
};

// Reads generation_config.json, and the stop tokens of config.json too. Ids must be below `vocab_size`; -1
// means none.
[[nodiscard]] Result<GenerationConfig> LoadGenerationConfig(const std::filesystem::path& directory,
                                                            const JsonNode& model_config, std::uint32_t vocab_size);

struct ChatFormat {
  std::string chat_template;      // the one that is chosen, or the default; empty when there is none
  std::string combined_template;  // the same among several, as one source that chooses
  std::string bos_token;          // text; empty when there is none
  std::string eos_token;
};

// `template_name`: as in ChooseTemplate.
[[nodiscard]] Result<ChatFormat> LoadChatFormat(const std::filesystem::path& directory,
                                                std::string_view template_name = {});

}  // namespace roost::worker
