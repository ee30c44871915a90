#include "worker/model/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
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
Result<void> ReadConfig(const JsonObject& config, std::vector<NamedTemplate>& templates) {
  const auto found = config.Find("chat_template");
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

Result<std::vector<NamedTemplate>> LoadChatTemplates(const std::filesystem::path& directory, const JsonObject* config) {
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
  AppendBranch(
      "elif chat_template is defined",
      fmt::format("{{{{ raise_exception('no chat template has this name, there are: {}') }}}}", NamesOf(templates)),
      source);
  const NamedTemplate* with_tools = chosen.empty() ? Find(templates, kToolUse) : nullptr;
  if (with_tools != nullptr) AppendBranch("elif tools", with_tools->source, source);
  AppendBranch("else", Find(templates, UsualName(chosen))->source, source);
  return source + "{%+ endif %}";
}

}  // namespace roost::worker
