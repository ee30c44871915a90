// Traces in Mooncake's format (FAST'25): one JSON object per line with `timestamp` (ms), `input_length`,
// `output_length` and `hash_ids`, the ids of the prompt's chained 512-token blocks, the last of which may be partial.
#pragma once

#include <filesystem>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

// Leaves partial blocks out, and guesses sessions. The trace does not contain the answers, so their blocks belong to
// one request only and never come back. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMooncakeTrace(const std::filesystem::path& path);

}  // namespace roost::workload
