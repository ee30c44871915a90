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

// Traces in Mooncake's format (FAST'25): one JSON object per line with `timestamp` (ms), `input_length`,
// `output_length` and `hash_ids`, the ids of the prompt's chained 512-token blocks, the last of which may be partial.
//
// Leaves partial blocks out, and guesses sessions. The trace does not contain the answers, so their blocks belong to
// one request only and never come back. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMooncakeTrace(const std::filesystem::path& path);

// Loads a recording of one model, to replay it at its recorded times. Requests without a session get a guessed one.
// Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadRecording(const std::filesystem::path& path);

}  // namespace roost::workload
