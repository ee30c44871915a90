#include "common/text/metaspace.h"

#include <fmt/format.h>

#include <optional>

namespace roost::text {
namespace {

Result<PrependScheme> SchemeFromJson(const JsonNode& parent) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> node, parent.Find("prepend_scheme"));
  if (!node) return PrependScheme::kAlways;
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, node->AsString());
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return node->Complain(fmt::format("'{}' is not supported", name));
}

}  // namespace

Result<Metaspace> Metaspace::FromJson(const JsonNode& node) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode replacement, node.Get("replacement"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view character, replacement.AsCharacter());
  ROOST_ASSIGN_OR_RETURN(const PrependScheme scheme, SchemeFromJson(node));
  // The older way to say "never". Files of that time have no scheme; a file that says both and contradicts itself is
  // refused.
  ROOST_ASSIGN_OR_RETURN(const bool add_prefix_space, node.Or<bool>("add_prefix_space", true));
  if (!add_prefix_space && scheme != PrependScheme::kNever) {
    return node.Complain("add_prefix_space false needs prepend_scheme 'never'");
  }
  return Metaspace{std::string(character), scheme};
}

}  // namespace roost::text
