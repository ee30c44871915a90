// The key file: text to keys. See router/access/api_key.h for its form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "router/access/api_key.h"

namespace roost::router {

// kInvalidArgument names file, line and member: the name of a key given twice, an unknown member (a misspelt limit
// would be none), a number out of range, an empty file: an editor may be about to fill it. A file with comments alone
// has no keys: all requests are refused.
[[nodiscard]] Result<std::vector<ApiKey>> ParseKeyFile(std::string_view text, const std::string& path);
[[nodiscard]] Result<std::vector<ApiKey>> ReadKeyFile(const std::string& path);

// The line of a key.
[[nodiscard]] std::string KeyLine(const ApiKey& key);

}  // namespace roost::router
