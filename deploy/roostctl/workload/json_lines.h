// A file of JSON values, one per line.
#pragma once

#include <filesystem>
#include <functional>

#include "common/base/result.h"
#include "common/json/json_read.h"

namespace roost::workload {

// Calls `visit` with the value of every line, in order; the value is valid during the call. Stops at a line that is not
// JSON, or at an Error of `visit`; the Error names the file and the line. Empty lines are skipped.
[[nodiscard]] Result<void> ForEachJsonLine(const std::filesystem::path& path,
                                           const std::function<Result<void>(json::Element)>& visit);

}  // namespace roost::workload
