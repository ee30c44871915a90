#include "router/access/model_alias.h"

#include "common/base/utf8.h"
#include "common/wire/messages.h"

namespace roost::router {

Result<void> AddModelAlias(std::string_view field, std::string_view alias, std::string_view model,
                           ModelAliases& aliases) {
  const std::string named(field);
  for (const std::string_view name : {alias, model}) {
    if (name.empty() || name.size() > wire::WireLimits::kMaxTextBytes || HasInvisibleCharacter(name)) {
      return InvalidArgument(named, "must have names of 1 to {} bytes without control characters",
                             wire::WireLimits::kMaxTextBytes);
    }
  }
  if (aliases.size() == kMaxModelAliases) return InvalidArgument(named, "has more than {} aliases", kMaxModelAliases);
  if (!aliases.emplace(alias, model).second) return InvalidArgument(named, "gives '{}' twice", alias);
  return {};
}

Result<ModelAliases> ParseModelAliases(const std::vector<std::string>& parts) {
  ModelAliases aliases;
  for (const std::string& part : parts) {
    const std::size_t sign = part.find('=');
    if (sign == std::string::npos) return InvalidArgument("model-alias", "'{}' is not ALIAS=MODEL", part);
    const std::string_view view = part;
    ROOST_RETURN_IF_ERROR(AddModelAlias("model-alias", view.substr(0, sign), view.substr(sign + 1), aliases));
  }
  return aliases;
}

}  // namespace roost::router
