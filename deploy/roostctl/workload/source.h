// Traces by name, for commands: a file in one of the known formats, or a generator.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

inline constexpr std::array<std::string_view, 5> kTraceFormats = {"mooncake", "weka", "roost", "taubench", "miniswe"};
inline constexpr std::array<std::string_view, 7> kGenerators = {"llm-d",         "sglang-gsp",   "chat",     "no-reuse",
                                                                "system-prompt", "zipf-systems", "reasoning"};
// Those of them that can have any number of requests; see SystemPromptOptions.
inline constexpr std::array<std::string_view, 3> kSystemPromptLoads = {"system-prompt", "zipf-systems", "reasoning"};

// Mooncake records times in ticks of 3 seconds.
enum class Ticks : std::uint8_t {
  kSpread,    // the requests of a tick arrive evenly over it
  kTogether,  // as recorded
};

struct TraceSource {
  std::string path;
  std::string format;     // one of kTraceFormats
  std::string generator;  // one of kGenerators; empty: the file
  // For weka, chat and the loads behind system prompts; empty: all, or the generator's default.
  std::optional<std::uint32_t> session_count = {};
  Ticks ticks = Ticks::kSpread;
  std::uint64_t seed = 1;
};

// kInvalidArgument names the field (trace, format or generate); errors of a file name the line, and the format that
// the file has instead. A file without requests is an error too. Requests of coding agents' sessions later than 90
// minutes after the first possible start are left out.
[[nodiscard]] Result<Trace> LoadTrace(const TraceSource& source);

}  // namespace roost::workload
