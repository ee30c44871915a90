// Roost's own recordings, as `roost-router --record FILE` writes them: lengths and hashes, no text. One JSON object per
// line:
//
//   arrival        seconds since the recording began
//   model          the model's name
//   block_tokens   tokens per block of this model
//   input, output  tokens of the prompt and of the answer (of the first of several choices)
//   blocks         the low 64 bits of the hashes of all full blocks of prompt and answer, front to back, in hexadecimal
//   tenant         hash of the tenant's name, in hexadecimal; "0": none
//   session        hash of the session's name, in hexadecimal; "0": none
//
// The lines are in the order in which the answers ended.
#pragma once

#include <filesystem>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

// Loads a recording of one model, to replay it at its recorded times. Requests without a session get a guessed one.
// Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadRecording(const std::filesystem::path& path);

}  // namespace roost::workload
