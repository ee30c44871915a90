// Files of the operator's with one JSON object per line; blank lines and lines that begin with # are skipped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "router/api/json_object.h"

namespace roost::router {

// Calls `take` with the object of each line; stops at the first error, whose field is "PATH:LINE".
[[nodiscard]] Result<void> ForEachJsonLine(std::string_view text, const std::string& path,
                                           const std::function<Result<void>(const JsonObject&)>& take);

// ReadSmallFile for a file that a flag names: whatever is wrong with it is kInvalidArgument.
[[nodiscard]] Result<std::string> ReadOperatorsFile(const std::string& path, std::size_t most_bytes);

}  // namespace roost::router
