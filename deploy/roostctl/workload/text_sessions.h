// Recorded sessions whose prompts are text. Four characters count as a token, 64 as a block; a block's id is a hash of
// all the text up to its end. An answer's text follows its prompt's, so if the next turn's prompt continues both, it
// finds both.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

struct TextSessionOptions {
  double start_span_seconds = 600;   // sessions start at random times within this span
  double turn_seconds = 5;           // between turns, if no time is recorded
  double longest_gap_seconds = 300;  // between recorded turns; longer gaps are cut to this
  std::uint64_t seed = 1;
};

// tau-bench's trajectories: one JSON object per line with `messages`, a whole chat. Each assistant message becomes a
// request whose prompt is the chat before it. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadTauBench(const std::filesystem::path& path, const TextSessionOptions& options);

// LMCache's traces of mini-SWE-agent: one JSON object per line with `timestamp` (µs), `input`, `output` and
// `session_id`; a session's requests may be in any order. Errors name the file and the line.
[[nodiscard]] Result<Trace> LoadMiniSwe(const std::filesystem::path& path, const TextSessionOptions& options);

}  // namespace roost::workload
