// A file of JSON values, one per line.
#pragma once

#include <simdjson.h>

#include <filesystem>
#include <functional>

#include "common/base/result.h"

namespace roost::workload {

// Calls `visit` with the value of every line, in order; the value lasts for the call. A line that is no JSON, and an
// Error of `visit`, end it; the Error names the file and the line. Empty lines do not count.
[[nodiscard]] Result<void> ForEachJsonLine(const std::filesystem::path& path,
                                           const std::function<Result<void>(simdjson::dom::element)>& visit);

}  // namespace roost::workload
