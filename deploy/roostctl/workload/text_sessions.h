// Recorded sessions whose prompts are text. Four characters count as a token, 64 as a block; what a block holds is
// named by a hash of all the text up to its end. An answer's text follows its prompt's, so a next turn whose prompt
// goes on with both finds both.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

struct TextSessionOptions {
  double start_span_seconds = 600;   // sessions start at random times within it
  double turn_seconds = 5;           // between turns, where nothing is recorded
  double longest_gap_seconds = 300;  // between recorded turns; longer ones are cut to it
  std::uint64_t seed = 1;
};

// tau-bench's trajectories: a JSON object per line with `messages`, a whole chat. Each assistant message is a request
// whose prompt is the chat before it. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadTauBench(const std::filesystem::path& path, const TextSessionOptions& options);

// LMCache's traces of mini-SWE-agent: a JSON object per line with `timestamp` (µs), `input`, `output` and `session_id`,
// the requests of a session in any order. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMiniSwe(const std::filesystem::path& path, const TextSessionOptions& options);

}  // namespace roost::workload
