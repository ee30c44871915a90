// The chat templates of a folder, as one template that chooses among them.
//
// A folder may have several, each with a name: transformers takes `tool_use` for a request with tools and `default` for
// any other. Routers know one template of a model. So several become the branches of one source, which looks at `tools`
// and at the variable `chat_template`, with which a request names another (chat_template_kwargs).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "worker/model/json_file.h"

namespace roost::worker {

inline constexpr std::size_t kMaxChatTemplateBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxChatTemplates = 32;

struct NamedTemplate {
  std::string name;
  std::string source;
};

// The templates of tokenizer_config.json (`config`; null: there is none), of chat_template.jinja and of
// additional_chat_templates/NAME.jinja. chat_template.jinja replaces those of the config. A single one is "default".
[[nodiscard]] Result<std::vector<NamedTemplate>> LoadChatTemplates(const std::filesystem::path& directory,
                                                                   const JsonObject* config);

// The source of the template with the name `chosen`; empty: of "default". Empty without templates. An error lists the
// names that there are.
[[nodiscard]] Result<std::string> ChooseTemplate(const std::vector<NamedTemplate>& templates, std::string_view chosen);

// One source for all. Without a `chosen` template, requests with tools get "tool_use" where it is there. Only after
// ChooseTemplate.
[[nodiscard]] std::string CombineTemplates(const std::vector<NamedTemplate>& templates, std::string_view chosen);

}  // namespace roost::worker
