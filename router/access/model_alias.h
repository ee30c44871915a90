// Other names for models, that an operator gives: of the router for everyone, of a key for who calls with it.
//
//   --model-alias gpt-4o=Qwen3-8B            {"name": "chat-app", …, "model_aliases": {"gpt-4o": "Qwen3-32B"}}
//
// An alias means the model, adapter or alias of a worker that it names, never another alias of these: a key's first,
// then the router's. It wins over a model of its name, so that an operator can move its clients elsewhere.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace roost::router {

using ModelAliases = std::map<std::string, std::string, std::less<>>;  // the model by its alias

inline constexpr std::size_t kMaxModelAliases = 1024;

// Adds an alias. kInvalidArgument names `field`: a name that no worker could have, an alias that is there already, one
// too many.
[[nodiscard]] Result<void> AddModelAlias(std::string_view field, std::string_view alias, std::string_view model,
                                         ModelAliases& aliases);

// Reads the parts of --model-alias: ALIAS=MODEL.
[[nodiscard]] Result<ModelAliases> ParseModelAliases(const std::vector<std::string>& parts);

}  // namespace roost::router
